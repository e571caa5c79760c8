"""The token that a client has, and when it gets another (``ExpiringCredentialRefreshingLogin``).

A log-in that begins finds a token that is good for a while, or waits for one. Kafka refreshes on a thread of
its own at 80 to 85 % of a token's life; here the first log-in after that moment asks for the next one, which
is the same to brokers: sessions end with tokens, and are renewed at 85 to 95 % of theirs. Where no other
token is to be had, the one that is still valid serves.
"""

import random
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.network.sasl.oauthbearer.token import BearerToken
from barnabas.network.threads import in_thread

_log: Final = EventLog("network.client")


class RefreshSettings(NamedTuple):
    """When a token is replaced: ``sasl.login.refresh.*``."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period_s: int = 60
    buffer_s: int = 300


class AccessTokens:
    """What one client logs in with."""

    def __init__(
        self,
        retrieve: Callable[[], BearerToken],
        refresh: RefreshSettings,
        time_ms: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """`retrieve` may block; it runs on a thread."""
        self._retrieve = retrieve
        self._refresh = refresh
        self._time_ms = time_ms
        self._rng = rng
        self._token: BearerToken | None = None
        self._refresh_ms = 0.0
        self._retrieving: Pending[None] | None = None

    def current(self) -> BearerToken:
        """The token to show now. Raises SaslAuthenticationError."""
        if self._token is None:
            raise SaslAuthenticationError("this client has no token")
        return self._token

    def prepare(self) -> Pending[None]:
        """Done when there is a token for a log-in. Fails with SaslAuthenticationError."""
        if self._token is not None and self._time_ms() < self._refresh_ms:
            return Pending.of(None)
        if self._retrieving is None:
            # One for all connections that are being made.
            self._retrieving = in_thread("access-token", self._retrieve).then(self._use)
        result: Pending[None] = Pending()
        self._retrieving.when_done(lambda done: self._settle(done, result))
        return result

    def _use(self, token: BearerToken) -> None:
        self._token = token
        self._refresh_ms = refresh_time(token, self._time_ms(), self._refresh, self._rng.random())
        _log.info("client.token_retrieved", principal=token.principal, expires_ms=token.expires_ms)

    def _settle(self, done: Pending[None], result: Pending[None]) -> None:
        self._retrieving = None
        error, token = done.error, self._token
        if error is None:
            result.complete(None)
        elif token is not None and self._time_ms() < token.expires_ms:
            _log.warning("client.token_not_refreshed", principal=token.principal, reason=error)
            result.complete(None)
        else:
            reason = str(error) if isinstance(error, BarnabasError) else repr(error)
            result.fail(SaslAuthenticationError(f"this client got no token: {reason}"))


def refresh_time(token: BearerToken, now_ms: float, settings: RefreshSettings, jitter: float) -> float:
    """When a token that came now is to be replaced (``refreshMs``), wall clock; `jitter` is from 0 to 1."""
    share = settings.window_factor + settings.window_jitter * jitter
    expires_ms, buffer_ms = token.expires_ms, settings.buffer_s * 1000
    min_period_ms = settings.min_period_s * 1000
    if now_ms + min_period_ms + buffer_ms > expires_ms:
        # It lives too shortly for either.
        return now_ms + (expires_ms - now_ms) * share
    started_ms = now_ms if token.started_ms is None else token.started_ms
    proposed_ms = started_ms + (expires_ms - started_ms) * share
    return max(min(proposed_ms, expires_ms - buffer_ms), now_ms + min_period_ms)
