"""SCRAM-SHA-256 and SCRAM-SHA-512 between two ends (``ScramSaslServer``, ``ScramSaslClient``).

Theory of operation
-------------------
Neither end says the password. Both prove that they know keys made of it:

    client-first  => "n,," "n=" USER ",r=" NONCE
    server-first  => "r=" NONCE SERVER_NONCE ",s=" SALT ",i=" ITERATIONS
    client-final  => "c=" BASE64("n,,") ",r=" NONCE SERVER_NONCE ",p=" PROOF
    server-final  => "v=" SIGNATURE

AuthMessage, which both proofs are about, is client-first without its head, server-first, and client-final
without its proof. A server goes the whole way for a user that it does not know, with a salt that stays the
same for the name: what it says and how long it takes tell nothing about who is known.

With the extension ``tokenauth=true`` the user is the id of a delegation token (KIP-48), and its owner is let
in.
"""

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from barnabas.core.delegation_token import TokenCredential
from barnabas.core.scram import ITERATIONS_MIN, SALT_BITS, ScramCredential, ScramMechanism, salt_of
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError

TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 - an option's name
MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
CLIENT_ITERATIONS_MAX: Final = 100_000
"""What a server may ask of a client: 16,384 is the most that Kafka stores, and these take 50 ms."""
MESSAGE_BYTES_MAX: Final = 16 * 1024
"""No client needs more. A message that is as large as a frame of a log-in may be (512 KB) would hold the loop
for 70 ms, and anybody may send one.
"""

_NAME: Final = r"(?:[^,=\x00]++|=2C|=3D)+"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<head>[ny],(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m=[^,]+,)?n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?P<extensions>(?:,[A-Za-z]+=[^,]*)*))"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/]+={0,2}),r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+)(?:,[A-Za-z]=[^,]*)*)"
    r",p=(?P<proof>[A-Za-z0-9+/]+={0,2})"
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[\x21-\x2B\x2D-\x7E]+),s=(?P<salt>[A-Za-z0-9+/]+={0,2}),i=(?P<iterations>[1-9][0-9]{0,8})(?:,[A-Za-z]=[^,]*)*"
)

FindCredential = Callable[[ScramMechanism, str], ScramCredential | None]
FindToken = Callable[[ScramMechanism, str], TokenCredential | None]
_UNKNOWN_SALTS: Final = secrets.token_bytes(32)


class ScramServer:
    """One log-in at a broker."""

    refused_because = None

    def __init__(
        self,
        mechanism: ScramMechanism,
        find: FindCredential,
        find_token: FindToken = lambda _mechanism, _token_id: None,
        time_ms: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`time_ms` is the wall clock, by which tokens end."""
        self._mechanism = mechanism
        self._find = find
        self._find_token = find_token
        self._time_ms = time_ms
        self._token: TokenCredential | None = None
        self.token_authenticated = False
        self.lifetime_ms: int | None = None
        self._known = False
        self._user = ""
        self._head = self._bare = self._first = self._nonce = ""
        self._credential: ScramCredential | None = None
        self.user: str | None = None

    def evaluate(self, token: bytes) -> bytes:
        if len(token) > MESSAGE_BYTES_MAX:
            raise SaslExchangeError(f"a SCRAM message is longer than {MESSAGE_BYTES_MAX} bytes")
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            raise SaslExchangeError("a SCRAM message is not UTF-8") from None
        if self._credential is None:
            return self._answer_first(text)
        return self._answer_final(text, self._credential)

    def _answer_first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None or match["bare"].startswith("m="):
            raise SaslExchangeError("Invalid SCRAM client first message format")
        user = _plain_name(match["user"])
        if match["authzid"] is not None and _plain_name(match["authzid"]) != user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        extensions = dict(pair.split("=", 1) for pair in match["extensions"].split(",") if pair)
        self.token_authenticated = extensions.get(TOKEN_AUTH, "").lower() == "true"
        if self.token_authenticated:
            self._token = self._find_token(self._mechanism, user)
            found = None if self._token is None else self._token.scram
        else:
            found = self._find(self._mechanism, user)
        self._known = found is not None
        self._credential = found or _nobody(self._mechanism, user)
        self._user, self._head, self._bare = user, match["head"], match["bare"]
        self._nonce = match["nonce"] + secrets.token_urlsafe(18)
        salt = base64.b64encode(self._credential.salt).decode()
        self._first = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        return self._first.encode()

    def _answer_final(self, text: str, credential: ScramCredential) -> bytes:
        if self.user is not None:
            raise SaslExchangeError("Unexpected challenge in Sasl server state COMPLETE")
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise SaslExchangeError("Invalid SCRAM client final message format")
        if not hmac.compare_digest(match["nonce"].encode(), self._nonce.encode()):
            raise SaslExchangeError("Invalid client nonce in the final client message.")
        if match["binding"] != base64.b64encode(self._head.encode()).decode():
            raise SaslExchangeError("Invalid channel binding in the final client message.")
        mechanism = self._mechanism
        auth_message = f"{self._bare},{self._first},{match['without_proof']}".encode()
        proof = _unbase64(match["proof"])
        signature = mechanism.hmac(credential.stored_key, auth_message)
        if len(proof) != len(signature):
            raise SaslExchangeError("Invalid client credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        same = hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
        if not (same and self._known):
            raise SaslExchangeError("Invalid client credentials")
        if self._token is None:
            self.user = self._user
        else:
            self.lifetime_ms = int(self._token.expires_ms - self._time_ms())
            # Kafka lets it in for no time, until the controller has removed it: the client is cut off with
            # its first request, and tries again until its own time-out.
            if self.lifetime_ms < 0:
                raise SaslExchangeError("the delegation token has expired")
            self.user = self._token.owner
        return b"v=" + base64.b64encode(mechanism.hmac(credential.server_key, auth_message))


class ScramClient:
    """One log-in at a client: it is complete when the server has proved itself, too."""

    def __init__(
        self, mechanism: ScramMechanism, user: str, password: str, *, token_auth: bool = False
    ) -> None:
        """With `token_auth` the user is the id of a delegation token, the password its secret in base64."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = secrets.token_urlsafe(18)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        if token_auth:
            self._bare += f",{TOKEN_AUTH}=true"
        self._signature: bytes | None = None
        self._said_first = False
        self.complete = False

    def evaluate(self, challenge: bytes) -> bytes | None:
        if not self._said_first:
            self._said_first = True
            return f"n,,{self._bare}".encode()
        text = challenge.decode("utf-8", "replace")
        if self._signature is None:
            return self._prove(text)
        self._verify(text, self._signature)
        return None

    def _prove(self, text: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(text)
        own_nonce = self._nonce
        if match is None or not match["nonce"].startswith(own_nonce) or match["nonce"] == own_nonce:
            raise SaslAuthenticationError("the server's first SCRAM message is not one of this exchange")
        iterations = int(match["iterations"])
        # Fewer would let a false server guess the password soon; many more would only stop this client.
        if not ITERATIONS_MIN <= iterations <= CLIENT_ITERATIONS_MAX:
            raise SaslAuthenticationError(
                f"Requested iterations {iterations} is not between {ITERATIONS_MIN} and "
                f"{CLIENT_ITERATIONS_MAX} for {self._mechanism.value}."
            )
        mechanism = self._mechanism
        salted = mechanism.salted_password(self._password, _unbase64(match["salt"]), iterations)
        without_proof = f"c=biws,r={match['nonce']}"
        auth_message = f"{self._bare},{text},{without_proof}".encode()
        client_key = mechanism.client_key(salted)
        signature = mechanism.hmac(mechanism.hash(client_key), auth_message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = mechanism.hmac(mechanism.server_key(salted), auth_message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, text: str, expected: bytes) -> None:
        if not text.startswith("v="):
            raise SaslAuthenticationError("the server refused the SCRAM proof")
        if not hmac.compare_digest(_unbase64(text[2:].partition(",")[0]), expected):
            raise SaslAuthenticationError("Invalid server signature in server final message")
        self.complete = True


def _nobody(mechanism: ScramMechanism, user: str) -> ScramCredential:
    """The credential of a user that does not exist: nobody has its password, and its salt stays the same and
    looks like others.
    """
    seed = mechanism.hmac(_UNKNOWN_SALTS, user.encode())
    salt = salt_of(int.from_bytes(seed) % (1 << SALT_BITS))
    return ScramCredential(salt, seed, seed, ITERATIONS_MIN)


def _plain_name(saslname: str) -> str:
    return saslname.replace("=2C", ",").replace("=3D", "=")


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslExchangeError("a SCRAM message is not base64") from None
