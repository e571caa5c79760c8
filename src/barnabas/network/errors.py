"""What can go wrong between two ends of a connection."""

from barnabas.core.errors import BarnabasError


class CloseConnection(BarnabasError):  # noqa: N818 - an instruction to the connection, not a failure of it
    """Raised by a service, or by the frame reader, to close the peer's connection with one log line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AuthenticationError(BarnabasError):
    """One end could not prove who it is (``AuthenticationException``). Trying again does not mend it."""


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: the other side is not trusted, or does not trust this one."""


class DisconnectedError(BarnabasError):
    """The connection ended before the response came; whether the request took effect is not known."""


class RequestTimedOutError(DisconnectedError):
    """No response within the request time-out; the connection was closed, as Kafka's client does."""


class RebootstrapRequiredError(DisconnectedError):
    """Another node, or one of another cluster, is at the address (REBOOTSTRAP_REQUIRED, KIP-1242)."""


class ConnectionSetupTimedOutError(DisconnectedError):
    """The connection did not come about in time."""


class UnsupportedVersionError(BarnabasError):
    """The node and this client share no version of the request."""


class FetchError(BarnabasError):
    """No answer of HTTP came. The text names the server, and no secret."""
