"""The keys of the authorization servers that this broker's listeners believe, one set a server
(``OAuthBearerValidatorCallbackHandler``).

Those of listeners that the broker starts with are there before it serves, or it does not start, as Kafka
does. A listener that is opened later refuses all tokens until its keys have come.
"""

from functools import partial
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps
from barnabas.network.sasl.oauthbearer.jwks import Jwks, JwksEndpoint
from barnabas.network.sasl.oauthbearer.settings import endpoint_tls

_log: Final = EventLog("node.token_keys")


class TokenKeys:
    """The sets of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sets: dict[JwksEndpoint, Jwks] = {}
        self._started = False

    def keys_of(self, endpoint: JwksEndpoint) -> Jwks:
        """The keys of a server; listeners that ask for the same have the same."""
        if endpoint not in self._sets:
            tls = partial(endpoint_tls, endpoint.url, endpoint.tls_options)
            self._sets[endpoint] = Jwks(endpoint, self._clock, tls)
            if self._started:
                self._sets[endpoint].start().when_done(_started_late)
        return self._sets[endpoint]

    @steps
    def start(self) -> Steps[None]:
        """Reads all sets. Fails with BarnabasError for one that is not there."""
        self._started = True
        for each in list(self._sets.values()):
            yield each.start()

    def close(self) -> None:
        """Reads no more."""
        for each in self._sets.values():
            each.close()


def _started_late(done: Pending[None]) -> None:
    if done.error is not None:
        _log.error("token_keys.not_read", reason=done.error)
