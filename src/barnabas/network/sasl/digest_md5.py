"""DIGEST-MD5 (RFC 2831), the client's end: how ZooKeeper's clients log in with a password.

    challenge => realm, nonce, qop, charset, algorithm     directives: NAME "=" (word | quoted), by commas
    response  => username, realm, nonce, cnonce, nc, qop, digest-uri, response, charset
    rspauth   => what proves that the server knows the password too

    response  = HEX(MD5(HEX(MD5(A1)) ":" nonce ":" nc ":" cnonce ":" qop ":" HEX(MD5(A2))))
    A1        = MD5(username ":" realm ":" password) ":" nonce ":" cnonce
    A2        = "AUTHENTICATE:" digest-uri, for rspauth ":" digest-uri

No other mechanism of Kafka's needs it, and MD5 is what the other side asks for: protect the connection with
TLS where somebody can listen.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

NAME: Final = "DIGEST-MD5"
MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"

CHALLENGE_BYTES_MAX: Final = 2048
"""RFC 2831, 2.1.1."""
_COUNT: Final = "00000001"
"""How often the nonce was used: a log-in asks for a new one each time."""
_DIRECTIVE: Final = re.compile(r'\s*,*\s*([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?=,|$)')
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def _nonce() -> str:
    return secrets.token_hex(16)


class DigestMd5Client:
    """Answers the server's challenge, and checks that it knows the password too."""

    def __init__(
        self, user: str, password: str, service: str, host: str, nonce: Callable[[], str] = _nonce
    ) -> None:
        self._user = user
        self._password = password
        self._uri = f"{service}/{host}"
        self._host = host
        self._nonce = nonce
        self._proof: str | None = None
        self._begun = False
        self.complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        if not self._begun:
            self._begun = True
            return b""  # The server speaks first.
        if self._proof is None:
            return self._respond(challenge)
        proof = _directives(challenge).get("rspauth", "")
        if not hmac.compare_digest(proof.encode(), self._proof.encode()):
            raise SaslAuthenticationError("the server does not prove that it knows the password")
        self.complete = True
        return None

    def _respond(self, challenge: bytes) -> bytes:
        said = _directives(challenge)
        nonce, realm = said.get("nonce", ""), said.get("realm", self._host)
        if not nonce or said.get("algorithm") != "md5-sess":
            raise SaslExchangeError("the challenge is none of DIGEST-MD5")
        if "auth" not in said.get("qop", "auth").replace(" ", "").split(","):
            raise SaslExchangeError("the server asks for a protection that this client does not have")
        own = self._nonce()
        secret = _md5(b":".join(_encoded(each) for each in (self._user, realm, self._password)))
        first = secret + f":{nonce}:{own}".encode()

        def answer(method: str) -> str:
            second = _md5(f"{method}:{self._uri}".encode()).hex()
            return _md5(f"{_md5(first).hex()}:{nonce}:{_COUNT}:{own}:auth:{second}".encode()).hex()

        self._proof = answer("")
        return (
            f"charset=utf-8,username={_quoted(self._user)},realm={_quoted(realm)},nonce={_quoted(nonce)},"
            f'nc={_COUNT},cnonce="{own}",digest-uri="{self._uri}",response={answer("AUTHENTICATE")},qop=auth'
        ).encode()


def _directives(text: bytes) -> dict[str, str]:
    """Raises SaslExchangeError."""
    try:
        rest = text.decode()
    except UnicodeDecodeError:
        raise SaslExchangeError("the challenge is not UTF-8") from None
    if len(text) > CHALLENGE_BYTES_MAX:
        raise SaslExchangeError("the challenge is too long")
    found: dict[str, str] = {}
    position = 0
    while position < len(rest):
        match = _DIRECTIVE.match(rest, position)
        if match is None:
            raise SaslExchangeError("the challenge is none of DIGEST-MD5")
        name, quoted, word = match.groups()
        found.setdefault(name, word if quoted is None else _ESCAPE.sub(r"\1", quoted))
        position = match.end()
    return found


def _encoded(text: str) -> bytes:
    """RFC 2831, 2.1.2.1: what ISO 8859-1 can say is hashed in it, even where UTF-8 was agreed on."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
