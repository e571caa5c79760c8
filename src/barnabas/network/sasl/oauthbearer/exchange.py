"""The exchange of OAUTHBEARER (``OAuthBearerSaslServer``, ``OAuthBearerSaslClient``).

    client-first => "n," ["a=" AUTHZID] "," %x01 "auth=Bearer " TOKEN %x01 *(EXTENSION %x01) %x01
    EXTENSION    => NAME "=" VALUE                                     KIP-342
    server       => nothing                                            the client is in
                  / {"status":"invalid_token"}                         the token is not good
                  / {"status":"insufficient_scope", "scope":"..."}
    client       => %x01                                               "I have read that", after a JSON

A server that has said why it refuses fails the log-in when the client has read it, with the same words.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError
from barnabas.network.sasl.oauthbearer.token import (
    TOKEN_CHARACTERS_MAX,
    BearerToken,
    TokenRefusedError,
    Validate,
)

NAME: Final = "OAUTHBEARER"
MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
MESSAGE_BYTES_MAX: Final = TOKEN_CHARACTERS_MAX + 16 * 1024
"""A token, and room for extensions. As of SCRAM: a larger one would hold the loop for long."""

_READ: Final = b"\x01"
_AUTH: Final = "auth"
_TEXT_SHOWN_MAX: Final = 400

_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7E \t\r\n]+")
_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]++|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_AUTH_VALUE: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class OAuthBearerServer:
    """One log-in at a broker."""

    token_authenticated = False
    """A bearer token is a credential of its own, no delegation of another one's."""

    def __init__(self, validate: Validate, time_ms: Callable[[], float]) -> None:
        self._validate = validate
        self._time_ms = time_ms
        self._refusal: str | None = None
        self.refused_because: str | None = None
        self.user: str | None = None
        self.lifetime_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes:
        if token == _READ and self._refusal is not None:
            raise SaslAuthenticationError(self._refusal)
        self._refusal = self.refused_because = None
        if len(token) > MESSAGE_BYTES_MAX:
            raise SaslExchangeError(f"an OAUTHBEARER message is longer than {MESSAGE_BYTES_MAX} bytes")
        authorization_id, value = _parse(token)
        try:
            valid = self._validate(value)
        except TokenRefusedError as error:
            self.refused_because = str(error)
            status = "invalid_token" if error.scope is None else "insufficient_scope"
            scope = "" if error.scope is None else f', "scope":"{error.scope}"'
            self._refusal = f'{{"status":"{status}"{scope}}}'
            return self._refusal.encode()
        if authorization_id and authorization_id != valid.principal:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
                f"different from the token's principal name ({valid.principal})"
            )
        self.user = valid.principal
        self.lifetime_ms = max(int(valid.expires_ms - self._time_ms()), 0)
        return b""


def _parse(message: bytes) -> tuple[str, str]:
    """The authorization id, empty where there is none, and the token of the client's first message
    (``OAuthBearerClientInitialResponse``). Raises SaslExchangeError.
    """
    match = _CLIENT_FIRST.fullmatch(message.decode("utf-8", "replace"))
    if match is None:
        raise SaslExchangeError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    if _AUTH not in pairs:
        raise SaslExchangeError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    auth = _AUTH_VALUE.fullmatch(pairs[_AUTH])
    if auth is None:
        raise SaslExchangeError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    if auth["scheme"].lower() != "bearer":
        raise SaslExchangeError("Invalid scheme in OAUTHBEARER client first message")
    return match["authzid"] or "", auth["token"]


class OAuthBearerClient:
    """One log-in at a client, with the token that it has then."""

    def __init__(self, token: Callable[[], BearerToken], extensions: Mapping[str, str]) -> None:
        """`token` raises AuthenticationError where there is none."""
        self._token = token
        self._extensions = extensions
        self._said = False
        self._refusal: str | None = None
        self.complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        if not self._said:
            self._said = True
            pairs = [f"auth=Bearer {self._token().value}"]
            pairs += [f"{name}={value}" for name, value in self._extensions.items()]
            return ("n,,\x01" + "".join(f"{pair}\x01" for pair in pairs) + "\x01").encode()
        if self._refusal is not None:
            raise SaslAuthenticationError(self._refusal)
        if challenge:
            self._refusal = challenge.decode("utf-8", "replace")[:_TEXT_SHOWN_MAX]
            return _READ
        self.complete = True
        return None


def extension_problem(extensions: Mapping[str, str]) -> str | None:
    """What is wrong with extensions that a client is to send (``validateExtensions``)."""
    for name, value in extensions.items():
        if name == _AUTH or not _EXTENSION_NAME.fullmatch(name):
            return f"Extension name {name} is invalid"
        if not _EXTENSION_VALUE.fullmatch(value):
            return f"Extension value for extension {name} is invalid"
    return None
