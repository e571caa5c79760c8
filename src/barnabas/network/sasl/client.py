"""Logs a client in to one node (``SaslClientAuthenticator``), as frames in and frames out.

Theory of operation
-------------------
The client asks for the node's versions, names its mechanism (SaslHandshake) and says what the mechanism has
to say (SaslAuthenticate), each in the highest version that both know. A node that knows no SaslAuthenticate
gets the mechanism's tokens bare, as SaslHandshake v0 has it (KIP-43). Nothing is sent before its answer to
the last is there.

`SaslLogin` says how: it makes a `SaslClientAuthenticator` for each connection.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from barnabas.core.chunks import Chunks
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.network.api_versions import NodeApiVersions
from barnabas.network.errors import AuthenticationError, UnsupportedVersionError
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslClient, SaslExchangeError
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.message import Request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_TEXT_SHOWN_MAX: Final = 400
_ROUNDS_MAX: Final = 16
"""No mechanism has more rounds; a node that answers without end is given up."""


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How one client logs in everywhere."""

    mechanism: str
    start: Callable[[], SaslClient] = field(repr=False)
    """Begins the mechanism's exchange."""
    prepare: Callable[[], Pending[None]] | None = field(default=None, repr=False)
    """What has to be done before a log-in begins, as to get a token; None where there is nothing.
    It fails with AuthenticationError.
    """
    of_host: "Callable[[str], SaslLogin] | None" = field(default=None, repr=False)
    """The same for the nodes of one host, where the mechanism names it."""

    def at(self, host: str) -> "SaslLogin":
        """How to log in at a node of this host."""
        return self if self.of_host is None else self.of_host(host)


class _Expects(Enum):
    VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "SaslAuthenticate"
    BARE_TOKEN = "a token"  # noqa: S105 - a name of what comes
    NOTHING = "nothing"


class SaslClientAuthenticator:
    """One log-in over one connection."""

    def __init__(self, login: SaslLogin, client_id: str | None, *, software: tuple[str, str]) -> None:
        self._login = login
        self._client_id = client_id
        self._software = software
        self._exchange = login.start()
        self._expects = _Expects.NOTHING
        self._correlation_id = -1
        self._sent: tuple[type[Request], int] = (ApiVersionsRequest, 0)
        self._versions: NodeApiVersions | None = None
        self._rounds = 0
        self.complete = False
        self.session_lifetime_ms = 0
        """After what time the node wants the client to log in again; 0 for never (KIP-368)."""

    def begin(self) -> Chunks:
        """The first frame to send."""
        return self._ask_versions(ApiVersionsRequest.max_version)

    def begin_again(self) -> Chunks:
        """The first frame of a log-in on a connection that is open already: the versions are known."""
        assert self._versions is not None
        self._exchange = self._login.start()
        self._rounds = 0
        self.complete = False
        return self._shake_hands()

    def received(self, frame: memoryview) -> Chunks:
        """What to send next; nothing when the log-in is `complete`. Raises AuthenticationError."""
        expects = self._expects
        if expects is _Expects.BARE_TOKEN:
            return self._next_token(bytes(frame))
        if int.from_bytes(frame[:4], signed=True) != self._correlation_id:
            raise AuthenticationError("the node answered what it was not asked while this client logged in")
        request, version = self._sent
        assert request.api is not None
        if request is ApiVersionsRequest and _is_unsupported_version(frame):
            # KIP-511: a node that does not know the version answers in version 0.
            version = 0
        try:
            response: Any = decode_response(request.api, version, frame)[1]
        except ProtocolError as error:
            raise AuthenticationError(
                f"the node sent what is no response to {expects.value}: {error}"
            ) from error
        if isinstance(response, ApiVersionsResponse):
            return self._versions_came(response)
        if isinstance(response, SaslHandshakeResponse):
            return self._handshake_came(response, version)
        assert isinstance(response, SaslAuthenticateResponse)
        if response.error_code:
            raise SaslAuthenticationError(
                (response.error_message or ErrorCode.of(response.error_code).name)[:_TEXT_SHOWN_MAX]
            )
        self.session_lifetime_ms = response.session_lifetime_ms
        return self._next_token(bytes(response.auth_bytes))

    def _versions_came(self, response: ApiVersionsResponse) -> Chunks:
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.UNSUPPORTED_VERSION and self._sent[1]:
            return self._ask_versions(0)
        if error is not ErrorCode.NONE:
            raise AuthenticationError(f"the node answered ApiVersions with {error.name}")
        self._versions = NodeApiVersions(response.api_keys)
        return self._shake_hands()

    def _handshake_came(self, response: SaslHandshakeResponse, version: int) -> Chunks:
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms)[:_TEXT_SHOWN_MAX]
            raise SaslAuthenticationError(
                f"Client SASL mechanism '{self._login.mechanism}' not enabled in the server, enabled "
                f"mechanisms are [{enabled}]"
            )
        if error is not ErrorCode.NONE:
            raise AuthenticationError(
                f"the node answered SaslHandshake with {error.name}: is its listener one with SASL?"
            )
        self._expects = _Expects.AUTHENTICATE if version else _Expects.BARE_TOKEN
        return self._next_token(b"")

    def _next_token(self, challenge: bytes) -> Chunks:
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise AuthenticationError("the node never ends the log-in")
        try:
            token = self._exchange.evaluate(challenge)
        except SaslExchangeError as error:
            raise SaslAuthenticationError(str(error)) from error
        if token is None:
            self.complete = self._exchange.complete
            if not self.complete:
                raise AuthenticationError("the node ended the log-in too early")
            self._expects = _Expects.NOTHING
            return []
        if self._expects is _Expects.BARE_TOKEN:
            return [len(token).to_bytes(4) + token]
        return self._send(
            SaslAuthenticateRequest(auth_bytes=token), self._version_of(SaslAuthenticateRequest)
        )

    def _ask_versions(self, version: int) -> Chunks:
        self._expects = _Expects.VERSIONS
        name, software_version = self._software
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        return self._send(request, version)

    def _shake_hands(self) -> Chunks:
        self._expects = _Expects.HANDSHAKE
        version = self._version_of(SaslHandshakeRequest)
        try:
            self._version_of(SaslAuthenticateRequest)
        except AuthenticationError:
            version = 0
        return self._send(SaslHandshakeRequest(mechanism=self._login.mechanism), version)

    def _version_of(self, request: type[Request]) -> int:
        assert self._versions is not None
        try:
            return self._versions.latest_usable(request, request.min_version, request.max_version)
        except UnsupportedVersionError as error:
            raise AuthenticationError(str(error)) from error

    def _send(self, request: Request, version: int) -> Chunks:
        assert request.api is not None
        self._sent = (type(request), version)
        self._correlation_id += 1
        header = RequestHeader(request.api, version, self._correlation_id, self._client_id)
        return encode_request(header, request)

    def __repr__(self) -> str:
        return f"<SaslClientAuthenticator {self._login.mechanism} expects {self._expects.value}>"


def _is_unsupported_version(frame: memoryview) -> bool:
    return int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
