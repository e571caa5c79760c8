"""What a broker knows of those who may log in, as the mechanisms ask for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from barnabas.network.sasl.oauthbearer.jwks import JwksEndpoint, VerificationKey
from barnabas.network.sasl.oauthbearer.settings import now_ms
from barnabas.network.sasl.oauthbearer.validator import KeySource
from barnabas.network.sasl.scram import FindCredential, FindToken


class _NoKeys:
    """Of a listener whose configuration is only looked at."""

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        del key_id, algorithm
        return None


def _nobody(*_: Any) -> None:
    return None


def _no_keys(_endpoint: JwksEndpoint) -> KeySource:
    return _NoKeys()


@dataclass(frozen=True, slots=True)
class ServerCredentials:
    """Whom a broker knows; nobody without anything."""

    scram: FindCredential = _nobody
    """The credential of a user, by mechanism."""
    token: FindToken = _nobody
    """What lets somebody in with a delegation token, by mechanism and id."""
    keys_of: Callable[[JwksEndpoint], KeySource] = _no_keys
    """The keys of an authorization server."""
    time_ms: Callable[[], float] = now_ms
    """The wall clock."""
