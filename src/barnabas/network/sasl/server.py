"""Logs a client in before its requests are served (``SaslServerAuthenticator``).

Theory of operation
-------------------
Until a client has logged in, the `SaslServerAuthenticator` stands where the broker's dispatcher stands
later: it takes the connection's frames, as `network.sasl.states` says which. ApiVersions is answered by
the dispatcher, which knows the versions. When the client has proved who it is, its principal is on the
`Peer` and the connection's frames go to the dispatcher directly, so that a log-in costs nothing afterwards.

A connection whose session ends (``connections.max.reauth.ms``, or the end of the credential, KIP-368) keeps
its authenticator: it looks at the clock before each request, and lets the client log in again.

A client that is refused hears it ``connection.failed.authentication.delay.ms`` later, and its connection is
closed then: one that tries passwords, or tries again at once, waits too.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from barnabas.core.chunks import Chunks
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode
from barnabas.core.fault_log import FaultLog
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import Outcome, Peer, Service
from barnabas.network.sasl.mechanism import SaslAuthenticationError, SaslExchangeError, SaslServer
from barnabas.network.sasl.states import REQUESTS, SaslEvent, SaslState, after
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import RequestHeader, decode_request_header, encode_response
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_MECHANISM_SHOWN_MAX: Final = 64

REAUTHENTICATION_MS_MIN: Final = 1000
"""What lies at least between two log-ins on one connection: each may be some ms of work for the broker."""


@dataclass(slots=True)
class AuthenticationCounts:
    """How many log-ins a listener has seen since the broker started."""

    successful: int = 0
    failed: int = 0
    expired: int = 0
    """Connections that were closed because their session had ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslListener:
    """How clients log in on one listener."""

    mechanisms: Mapping[str, Callable[[], SaslServer]] = field(repr=False)
    """What makes a log-in, by the mechanism's name."""
    receive_bytes_max: int = 524_288
    """sasl.server.max.receive.size"""
    failure_delay_ms: int = 100
    """connection.failed.authentication.delay.ms"""
    session_ms_max: Mapping[str, int] = field(default_factory=dict)
    """connections.max.reauth.ms by mechanism; 0 and a missing one mean without end."""
    counts: AuthenticationCounts = field(default_factory=AuthenticationCounts)


class SaslServerAuthenticator:
    """One connection's log-in; implements `network.peer.Service`."""

    __slots__ = (
        "_began_again_ms",
        "_clock",
        "_exchange",
        "_faults",
        "_listener",
        "_mechanism",
        "_principal",
        "_request_bytes_max",
        "_service",
        "_session_ends_ms",
        "_token_authenticated",
        "_turn_of_service",
        "state",
    )

    def __init__(
        self,
        listener: SaslListener,
        service: Service,
        clock: Clock,
        request_bytes_max: int,
        faults: FaultLog,
    ) -> None:
        """`service` answers once the client has logged in, to frames of `request_bytes_max` at most."""
        self._listener = listener
        self._service = service
        self._clock = clock
        self._faults = faults
        self._request_bytes_max = request_bytes_max
        self._mechanism = ""
        self._exchange: SaslServer | None = None
        self._principal: str | None = None
        self._session_ends_ms: float | None = None
        self._token_authenticated = False
        self._began_again_ms = -math.inf
        """When the client last began to log in on the connection on which it is logged in."""
        self._turn_of_service = False
        self.state = SaslState.FIRST

    def handle(self, peer: Peer, frame: memoryview) -> Outcome:
        if self.state is SaslState.COMPLETE:
            return self._serve(peer, frame)
        if self.state is SaslState.BARE_TOKENS:
            return self._bare_token(peer, bytes(frame))
        try:
            header, offset = decode_request_header(frame)
        except ProtocolError:
            # Perhaps a bare token of GSSAPI, as clients before 0.10 begin. Kafka takes it where GSSAPI is
            # enabled; here a client names its mechanism first.
            return self._close(peer, "the first packet is no request of Kafka's")
        if header.api_key not in REQUESTS[self.state]:
            name = ApiKey(header.api_key).name if header.api_key in _KNOWN else header.api_key
            return self._close(peer, f"Unexpected Kafka request of type {name} during SASL handshake.")
        if header.api_key == _API_VERSIONS:
            return self._api_versions(peer, frame)
        try:
            if header.api_key == _HANDSHAKE:
                return self._handshake(peer, header, frame, offset)
            return self._authenticate(peer, header, frame, offset)
        except ProtocolError as error:
            return self._close(
                peer, f"Error getting request for apiKey: {ApiKey(header.api_key).name}: {error}"
            )

    def begin_turn(self) -> None:
        self._turn_of_service = self.state is SaslState.COMPLETE
        if self._turn_of_service:
            self._service.begin_turn()

    def end_turn(self) -> None:
        if self._turn_of_service:
            self._turn_of_service = False
            self._service.end_turn()

    def _serve(self, peer: Peer, frame: memoryview) -> Outcome:
        """A request of a client that has logged in."""
        ends_ms = self._session_ends_ms
        if ends_ms is not None:
            if int.from_bytes(frame[:2]) == _HANDSHAKE and self._may_begin_again():
                # KIP-368: the client logs in again, as the same principal with the same mechanism.
                try:
                    header, offset = decode_request_header(frame)
                    return self._handshake(peer, header, frame, offset)
                except ProtocolError as error:
                    raise CloseConnection(
                        f"Error getting request for apiKey: SASL_HANDSHAKE: {error}"
                    ) from error
            if self._clock.monotonic_ms() > ends_ms:
                self._listener.counts.expired += 1
                raise CloseConnection("its session has ended, and it did not re-authenticate")
        return self._service.handle(peer, frame)

    def _may_begin_again(self) -> bool:
        """Whether the client may log in again now; too early its handshake is a request as any other, which
        the service refuses (``KafkaChannel.maybeBeginServerReauthentication``).
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._began_again_ms < REAUTHENTICATION_MS_MIN:
            return False
        self._began_again_ms = now_ms
        return True

    def _api_versions(self, peer: Peer, frame: memoryview) -> Outcome:
        answer = self._service.handle(peer, frame)
        # The client may ask once. One that was refused (an unknown version, a bad name of its software)
        # asks again, and the state stays.
        if isinstance(answer, list) and _error_code(answer) == ErrorCode.NONE:
            self.state = after(self.state, SaslEvent.VERSIONS)
        return answer

    def _handshake(self, peer: Peer, header: RequestHeader, frame: memoryview, offset: int) -> Outcome:
        version = header.api_version
        if not SaslHandshakeRequest.min_version <= version <= SaslHandshakeRequest.max_version:
            return self._close(peer, f"SaslHandshake of version {version} is not supported")
        request = SaslHandshakeRequest.decode(frame, version, offset)[0]
        mechanism = request.mechanism
        enabled = list(self._listener.mechanisms)
        again = self.state is SaslState.COMPLETE
        make = self._listener.mechanisms.get(mechanism)
        if make is None or (again and (mechanism != self._mechanism or not version)):
            shown = mechanism[:_MECHANISM_SHOWN_MAX]
            reason = f"Unsupported SASL mechanism {shown}"
            if again:
                reason = (
                    f"SASL mechanism '{shown}' requested by client is not supported for re-authentication of "
                    f"mechanism '{self._mechanism}'"
                )
            answer = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=enabled
            )
            return self._refuse(peer, reason, encode_response(header.correlation_id, answer, version))
        self._mechanism = mechanism
        self._exchange = make()
        self.state = after(self.state, SaslEvent.MECHANISM if version else SaslEvent.BARE_MECHANISM)
        answer = SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=enabled)
        return encode_response(header.correlation_id, answer, version)

    def _authenticate(self, peer: Peer, header: RequestHeader, frame: memoryview, offset: int) -> Outcome:
        version, request_class = header.api_version, SaslAuthenticateRequest
        if not request_class.min_version <= version <= request_class.max_version:
            return self._close(peer, f"SaslAuthenticate of version {version} is not supported")
        token = request_class.decode(frame, version, offset)[0].auth_bytes
        try:
            challenge = self._evaluate(peer, bytes(token))
        except (SaslAuthenticationError, SaslExchangeError) as error:
            answer = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=self._words(error)
            )
            return self._refuse(peer, str(error), encode_response(header.correlation_id, answer, version))
        lifetime_ms = self._prove(peer) if self._exchange is None else 0
        answer = SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, auth_bytes=challenge, session_lifetime_ms=lifetime_ms
        )
        return encode_response(header.correlation_id, answer, version)

    def _bare_token(self, peer: Peer, token: bytes) -> Outcome:
        try:
            challenge = self._evaluate(peer, token)
        except (SaslAuthenticationError, SaslExchangeError) as error:
            # There is no answer that could say so.
            return self._close(peer, str(error))
        if self._exchange is None:
            self._prove(peer)
        return [len(challenge).to_bytes(4) + challenge]

    def _evaluate(self, peer: Peer, token: bytes) -> bytes:
        """The mechanism's answer; `_exchange` is None when it was the last one."""
        exchange = self._exchange
        assert exchange is not None, "a mechanism was chosen"
        challenge = exchange.evaluate(token)
        if exchange.refused_because is not None:
            self._note(peer, "network.bearer_token_refused", exchange.refused_because)
        if exchange.user is not None:
            self._token_authenticated = exchange.token_authenticated
            principal = f"User:{exchange.user}"
            if self._principal not in (None, principal):
                raise SaslAuthenticationError(
                    f"Cannot change principals during re-authentication from {self._principal}: {principal}"
                )
            self._principal = principal
            self._session_ends_ms = self._session_end(exchange.lifetime_ms)
            self._exchange = None
        return challenge

    def _session_end(self, credential_ms: int | None) -> float | None:
        # A credential that ends now (0) is not one that does not end (None).
        limits = [] if credential_ms is None else [max(credential_ms, 0)]
        if most := self._listener.session_ms_max.get(self._mechanism):
            limits.append(most)
        return self._clock.monotonic_ms() + min(limits) if limits else None

    def _prove(self, peer: Peer) -> int:
        """The client has logged in; how long its session lasts, 0 for without end."""
        assert self._principal is not None
        self.state = after(self.state, SaslEvent.PROVED)
        self._listener.counts.successful += 1
        peer.principal = self._principal
        peer.token_authenticated = self._token_authenticated
        ends_ms = self._session_ends_ms
        # One whose session ends stays: it looks at the clock, and lets the client log in again.
        peer.serve(self._service if ends_ms is None else self, self._request_bytes_max)
        return 0 if ends_ms is None else max(int(ends_ms - self._clock.monotonic_ms()), 1)

    def _words(self, error: Exception) -> str:
        """What the client hears: of a mistake in the exchange itself nothing that would help to guess."""
        if isinstance(error, SaslAuthenticationError):
            return str(error)
        kind = "authentication" if self._principal is None else "re-authentication"
        return (
            f"Authentication failed during {kind} due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

    def _close(self, peer: Peer, reason: str) -> Outcome:
        """Ends the connection without an answer."""
        return self._refuse(peer, reason, None)

    def _refuse(self, peer: Peer, reason: str, answer: Chunks | None) -> Outcome:
        """Ends the connection after the delay, with the answer if there is one."""
        self.state = after(self.state, SaslEvent.REFUSED)
        self._listener.counts.failed += 1
        self._note(peer, "network.authentication_failed", reason)
        outcome: Pending[Chunks | None] = Pending()
        # What the client has asked behind it is not looked at.
        peer.hold()

        def end() -> None:
            peer.drain()
            outcome.complete(answer)

        self._clock.call_later(self._listener.failure_delay_ms, end)
        return outcome

    def _note(self, peer: Peer, event: str, reason: str) -> None:
        address = f"{peer.address[0]}:{peer.address[1]}"
        self._faults.info(event, peer=address, listener=peer.listener.name, reason=reason)

    def __repr__(self) -> str:
        return f"<SaslServerAuthenticator {self.state.name} {self._mechanism or 'no mechanism'}>"


def _error_code(answer: Chunks) -> int:
    """The error of an ApiVersions response, whose header has no tags in any version."""
    head = answer[0]
    assert isinstance(head, bytes | bytearray | memoryview)
    return int.from_bytes(head[8:10], signed=True)


_KNOWN: Final = frozenset(int(key) for key in ApiKey)
