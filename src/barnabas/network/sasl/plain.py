"""PLAIN (RFC 4616): name and password as they are (``PlainSaslServer``, ``PlainSaslClient``).

message => [authzid] NUL authcid NUL password          UTF-8
"""

import hmac
from collections.abc import Mapping
from typing import Final

from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

NAME: Final = "PLAIN"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_NOBODY: Final = b"\0no password has this text\0"


class PlainServer:
    """Compares with the passwords of the listener's JAAS line (``user_NAME="password"``)."""

    lifetime_ms: int | None = None
    token_authenticated = False
    refused_because = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            raise SaslExchangeError("SASL/PLAIN response is not UTF-8") from None
        # Counted first: a token may be 512 KB of nothing but ends of parts.
        if (parts := text.count("\0") + 1) != 3:
            raise SaslExchangeError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {parts}")
        authorization_id, user, password = text.split("\0")
        if not user:
            raise SaslExchangeError("Authentication failed: username not specified")
        if not password:
            raise SaslExchangeError("Authentication failed: password not specified")
        expected = self._passwords.get(user)
        # The same work for an unknown user, so that the time tells nothing about who is known.
        same = hmac.compare_digest(password.encode(), _NOBODY if expected is None else expected.encode())
        if expected is None or not same:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


class PlainClient:
    """Says name and password."""

    def __init__(self, user: str, password: str) -> None:
        self._message: bytes | None = f"\0{user}\0{password}".encode()
        self.complete = False

    def evaluate(self, _challenge: bytes) -> bytes | None:
        message, self._message = self._message, None
        self.complete = True
        return message
