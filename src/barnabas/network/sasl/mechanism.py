"""What a SASL mechanism owes at either end, and what may go wrong."""

from typing import Protocol

from barnabas.network.errors import AuthenticationError


class SaslAuthenticationError(AuthenticationError):
    """Credentials were refused. The text may go to the peer (``SaslAuthenticationException``)."""


class SaslExchangeError(AuthenticationError):
    """The peer said what the mechanism does not know; it is not told more than that (``SaslException``)."""


class SaslServer(Protocol):
    """One log-in, as the broker sees it."""

    def evaluate(self, token: bytes) -> bytes:
        """The answer to what the client said. Raises SaslAuthenticationError and SaslExchangeError."""

    @property
    def user(self) -> str | None:
        """Who has logged in; None before that."""

    @property
    def lifetime_ms(self) -> int | None:
        """How long the credential is good from now on; None where it does not end."""

    @property
    def token_authenticated(self) -> bool:
        """Whether the credential was a delegation token."""

    @property
    def refused_because(self) -> str | None:
        """Why the credential of the last message is not good, where the client has yet to hear of it; for
        the log of this end.
        """


class SaslClient(Protocol):
    """One log-in, as the client sees it."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """What to say next; None when all was said. The first challenge is empty.
        Raises SaslAuthenticationError.
        """

    @property
    def complete(self) -> bool:
        """Whether nothing more is expected of the server."""
