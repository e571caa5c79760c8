"""A client's conversation with one node: connect, agree on versions, send, match responses.

Theory of operation
-------------------
`submit` puts a call in line; `advance` does what can be done now: begin a connection when there are calls
and the backoff is over, send while the node is READY, not throttled, and fewer than
``max.in.flight.requests.per.connection`` wait for responses. What comes in (`established`, `received`,
`lost`) moves the state and advances again. Responses come in the order of the requests; anything else
closes the connection.

A lost connection fails every call, sent or not: a call that was sent may have taken effect, for one that
was not, another node may be the right one by now. The caller decides. The same goes for a response
that is overdue: the connection is closed, and all calls on it fail (``NetworkClient``).

Where the node's listener asks for a log-in (`ClientSettings.login`), frames go to a `SaslClientAuthenticator`
before anything else, within the set-up time-out. A session that ends is renewed on the open connection, when
no request is in flight (KIP-368). A node that refuses the credentials fails all calls with
AuthenticationError, and one line of the log says why.

No sockets here: bytes and connections go through a `Channel`.
"""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from barnabas import __version__
from barnabas.core.chunks import Chunks
from barnabas.core.errors import BarnabasError, ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.api_versions import SOFTWARE_NAME, NodeApiVersions, client_throttles
from barnabas.network.connection_states import ConnectionState, ConnectionTimings, NodeConnectionState
from barnabas.network.errors import (
    AuthenticationError,
    ConnectionSetupTimedOutError,
    DisconnectedError,
    RebootstrapRequiredError,
    RequestTimedOutError,
)
from barnabas.network.in_flight import ClientRequest, InFlightRequests
from barnabas.network.sasl.client import SaslClientAuthenticator, SaslLogin
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.message import Response
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_log = EventLog("network.client")

_CORRELATION_BYTES: Final = 4
_CORRELATION_ID_MAX: Final = 2**31 - 1


class Node(NamedTuple):
    """A broker as clients know it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    cluster_id: str | None = None
    """Where known: a node that is asked for its versions is told that it and no other is meant (KIP-1242)."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port} (id: {self.id} rack: {self.rack})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Kafka's client defaults, times in milliseconds."""

    client_id: str | None = "barnabas"
    max_in_flight: int = 5
    """max.in.flight.requests.per.connection: 5 producer, 100 consumer, 1 admin and between brokers."""
    request_timeout_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1000
    setup_timeout_ms: int = 10_000
    """socket.connection.setup.timeout.ms"""
    setup_timeout_max_ms: int = 30_000
    idle_ms_max: int = 540_000
    """connections.max.idle.ms; negative means without end."""
    software_name: str = SOFTWARE_NAME
    """What ApiVersions says that this client is (KIP-511)."""
    discover_versions: bool = True
    """Ask each node for its versions first; without, every call names its version or uses the newest."""
    response_bytes_max: int = 2**31 - 1
    login: SaslLogin | None = None
    """How to log in to each node, where its listener asks for that."""


class Channel(Protocol):
    """What carries a link: a socket, or a simulated network.
    Calls back into the link, never from these methods.
    """

    def connect(self, node: Node) -> None:
        """Begin to connect; `NodeLink.established` or `NodeLink.lost` follows."""

    def write(self, chunks: Chunks) -> None:
        """Send one request."""

    def writable(self) -> bool:
        """Whether everything written before is with the system."""

    def close(self) -> None:
        """Drop the connection, or the attempt; nothing follows."""

    def wake_by(self, deadline_ms: float) -> None:
        """Call `NodeLink.expire` when this time has passed; called often, so cheap while one is pending."""


class NodeLink:
    """One node, as one client sees it."""

    __slots__ = (
        "_authenticator",
        "_channel",
        "_correlation_id",
        "_last_used_ms",
        "_log_in_again_ms",
        "_log_in_by_ms",
        "_logging_in",
        "_login",
        "_on_lost",
        "_refusal",
        "_retiring",
        "_settings",
        "_waiting",
        "in_flight",
        "node",
        "state",
        "versions",
    )

    def __init__(
        self,
        node: Node,
        settings: ClientSettings,
        timings: ConnectionTimings,
        make_channel: Callable[["NodeLink", int], Channel],
        on_lost: Callable[["NodeLink", Exception], None],
    ) -> None:
        self.node = node
        self.state = NodeConnectionState(timings)
        self.in_flight = InFlightRequests(settings.max_in_flight)
        self.versions: NodeApiVersions | None = None
        """What the node serves, while connected and when versions are discovered."""
        self._settings = settings
        self._channel = make_channel(self, settings.response_bytes_max)
        self._on_lost = on_lost
        self._waiting: deque[ClientRequest] = deque()
        self._retiring = False
        self._correlation_id = 0
        self._last_used_ms = 0.0
        self._authenticator: SaslClientAuthenticator | None = None
        self._login: SaslLogin | None = None
        self._logging_in = False
        self._log_in_by_ms = math.inf
        """Until when a log-in on an open connection may take."""
        self._log_in_again_ms = math.inf
        """From when on the session is to be renewed before anything else is sent."""
        self._refusal: str | None = None
        """Why the node refused the credentials, as the log has said."""

    @property
    def load(self) -> int:
        """Calls that the node has not answered yet."""
        return len(self.in_flight) + len(self._waiting)

    def waits_since_ms(self) -> float | None:
        """When the oldest call began to wait, to be sent or for its response; None where nobody waits."""
        calls = [*(call for call in self.in_flight if not call.internal), *self._waiting]
        return min((call.deadline_ms - call.timeout_ms for call in calls), default=None)

    def can_send(self, now_ms: float) -> bool:
        """Whether a call submitted now would be sent at once."""
        return (
            self.state.is_ready(now_ms)
            and not self._logging_in
            and now_ms < self._log_in_again_ms
            and not self._waiting
            and not self.in_flight.full
            and self._channel.writable()
        )

    def submit(self, call: ClientRequest, now_ms: float) -> None:
        self._waiting.append(call)
        self.advance(now_ms)
        self._watch_waiting(now_ms)

    def connect(self, now_ms: float) -> None:
        """Begins a connection if there is none and the backoff is over."""
        if self.state.can_connect(now_ms):
            self.state.connecting(now_ms)
            self._channel.connect(self.node)
            self._channel.wake_by(now_ms + self.state.setup_timeout_ms)

    def advance(self, now_ms: float) -> None:
        waiting, in_flight = self._waiting, self.in_flight
        if waiting and self.state.state.disconnected:
            self.connect(now_ms)
        if now_ms >= self._log_in_again_ms:
            self._log_in_again(now_ms)
        while (
            waiting
            and not self._logging_in
            and now_ms < self._log_in_again_ms
            and self.state.is_ready(now_ms)
            and not in_flight.full
            and self._channel.writable()
        ):
            self._send(waiting.popleft(), now_ms)
        if self._retiring and not self.load and not self.state.state.disconnected:
            self.close(DisconnectedError(f"node {self.node} is gone"), now_ms)

    def retire(self, now_ms: float) -> None:
        """The node is no longer part of the cluster: ends the connection when the last call is answered."""
        self._retiring = True
        self.advance(now_ms)

    def established(self, now_ms: float) -> None:
        self._last_used_ms = now_ms
        if self._settings.login is None:
            self._begin(now_ms)
            return
        login = self._login = self._settings.login.at(self.node.host)
        software = (self._settings.software_name, __version__)
        authenticator = SaslClientAuthenticator(login, self._settings.client_id, software=software)
        self._authenticator = authenticator
        self._logging_in = True
        self._prepared(login, lambda: self._channel.write(authenticator.begin()))

    def _prepared(self, login: SaslLogin, begin: Callable[[], object]) -> None:
        """Begins a log-in when what it needs is there, as a token that is got from elsewhere."""
        if login.prepare is None:
            begin()
            return
        authenticator = self._authenticator

        def go_on(done: Pending[None]) -> None:
            if self._authenticator is not authenticator:
                return  # the connection was lost meanwhile
            if done.error is None:
                begin()
                return
            assert isinstance(done.error, AuthenticationError), "all that a login may fail with"
            self.close(done.error, self._last_used_ms)

        login.prepare().when_done(go_on)

    def _log_in_again(self, now_ms: float) -> None:
        """Renews the session before the node ends it, once no request is in flight."""
        authenticator = self._authenticator
        ready = self.state.state is ConnectionState.READY
        if authenticator is None or not ready or self._logging_in or len(self.in_flight):
            return
        self._logging_in = True
        self._log_in_by_ms = now_ms + self._settings.request_timeout_ms
        self._channel.wake_by(self._log_in_by_ms)
        assert self._login is not None
        self._prepared(self._login, lambda: self._channel.write(authenticator.begin_again()))

    def _continue_log_in(self, frame: memoryview, now_ms: float) -> None:
        authenticator = self._authenticator
        assert authenticator is not None
        try:
            following = authenticator.received(frame)
        except BarnabasError as error:
            refused = error if isinstance(error, AuthenticationError) else AuthenticationError(str(error))
            self.close(refused, now_ms)
            return
        if not authenticator.complete:
            self._channel.write(following)
            return
        self._logging_in = False
        self._log_in_by_ms = math.inf
        self._refusal = None
        lifetime_ms = authenticator.session_lifetime_ms
        # At 85 to 95 % of it, so that the connections of a client do not do it all at once.
        share = 0.85 + 0.1 * random.random()
        self._log_in_again_ms = now_ms + lifetime_ms * share if lifetime_ms else math.inf
        if lifetime_ms:
            # An idle connection too: from then on it takes no call before it has logged in again.
            self._channel.wake_by(self._log_in_again_ms)
        if self.state.state is ConnectionState.READY:
            self.advance(now_ms)
        else:
            self._begin(now_ms)

    def _begin(self, now_ms: float) -> None:
        """The node may be asked for anything now."""
        if self._settings.discover_versions:
            self._ask_versions(ApiVersionsRequest.max_version, now_ms)
        else:
            self.state.ready()
            self.advance(now_ms)

    def received(self, frame: memoryview, now_ms: float) -> None:
        """A response came, without its length."""
        self._last_used_ms = now_ms
        if self._logging_in:
            self._continue_log_in(frame, now_ms)
            return
        call = self.in_flight.complete_next()
        if call is None:
            self.close(DisconnectedError(f"node {self.node} sent a response without a request"), now_ms)
            return
        try:
            response = _decode(call, frame)
        except BarnabasError as error:
            call.fail(error)
            self.close(DisconnectedError(f"node {self.node} sent what is no response: {error}"), now_ms)
            return
        self._obey_throttle(call, response, now_ms)
        if call.internal:
            self._on_versions(call, response, now_ms)
        else:
            call.complete(response)
        self.advance(now_ms)
        self._watch_waiting(now_ms)

    def lost(self, error: Exception, now_ms: float) -> None:
        """The channel is broken, or could not be made. Fails every call of the node."""
        was_connected = not self.state.state.disconnected
        if was_connected:
            self.state.disconnected(now_ms)
            if isinstance(error, AuthenticationError):
                self.state.authentication_failed(now_ms, error)
                self._say_refusal(error)
        self.versions = None
        self._authenticator = None
        self._logging_in = False
        self._log_in_by_ms = self._log_in_again_ms = math.inf
        calls = [*self.in_flight.take_all(), *self._waiting]
        self._waiting.clear()
        # What hears of it may submit the next call at once, so everything above is settled before.
        if was_connected:
            self._on_lost(self, error)
        for call in calls:
            call.fail(error)

    def _say_refusal(self, error: Exception) -> None:
        """One line for a refusal, however often the same is tried again."""
        reason = str(error)
        if reason != self._refusal:
            self._refusal = reason
            _log.error("client.authentication_failed", node=str(self.node), reason=reason)

    def close(self, error: Exception, now_ms: float) -> None:
        self._channel.close()
        self.lost(error, now_ms)

    def expire(self, now_ms: float) -> None:
        """Looks at everything that has a deadline, and acts on what is over."""
        if self.state.setup_timed_out(now_ms):
            waited = self.state.setup_timeout_ms
            self.close(ConnectionSetupTimedOutError(f"no connection to {self.node} in {waited} ms"), now_ms)
        elif now_ms > self._log_in_by_ms:
            self.close(
                RequestTimedOutError(f"{self.node} did not let this client log in again in time"), now_ms
            )
        elif self.in_flight.timed_out(now_ms):
            self.close(RequestTimedOutError(f"no response from {self.node} in time"), now_ms)
        elif self._idle(now_ms):
            self.close(DisconnectedError("the connection was idle"), now_ms)
        self._expire_waiting(now_ms)
        self.advance(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float | None:
        """When `expire` should be called at the latest; None while nothing waits for time."""
        state = self.state
        deadlines = [call.deadline_ms for call in self._waiting]
        if state.state is ConnectionState.CONNECTING and state.last_attempt_ms is not None:
            deadlines.append(state.last_attempt_ms + state.setup_timeout_ms)
        elif self._waiting and state.state.disconnected:
            deadlines.append(now_ms + state.backoff_left_ms(now_ms))
        elif self._logging_in:
            deadlines.append(self._log_in_by_ms)
        elif self._waiting and state.throttled_until_ms > now_ms:
            deadlines.append(state.throttled_until_ms)
        first = self.in_flight.next_deadline_ms
        if first is not None:
            deadlines.append(first)
        elif state.state is ConnectionState.READY:
            if self._settings.idle_ms_max >= 0:
                deadlines.append(self._last_used_ms + self._settings.idle_ms_max)
            if not self._logging_in and self._log_in_again_ms < math.inf:
                deadlines.append(self._log_in_again_ms)
        return min(deadlines, default=None)

    def _send(self, call: ClientRequest, now_ms: float) -> None:
        try:
            call.version = self._version_for(call)
            call.correlation_id = self._next_correlation_id()
            header = RequestHeader(call.api, call.version, call.correlation_id, self._settings.client_id)
            chunks = encode_request(header, call.request)
        except BarnabasError as error:
            call.fail(error)
            return
        call.deadline_ms = now_ms + call.timeout_ms
        self._last_used_ms = now_ms
        if call.expects_response:
            self.in_flight.add(call)
            self._channel.wake_by(call.deadline_ms)
        self._channel.write(chunks)
        if not call.expects_response:
            call.complete(None)

    def _watch_waiting(self, now_ms: float) -> None:
        if self._waiting:
            deadline_ms = self.next_deadline_ms(now_ms)
            assert deadline_ms is not None, "a waiting call has a deadline"
            self._channel.wake_by(deadline_ms)

    def _version_for(self, call: ClientRequest) -> int:
        request = type(call.request)
        low, high = call.versions or (request.min_version, request.max_version)
        # Without the node's versions the newest is sent: between brokers, and to ask for the versions
        # themselves.
        return high if self.versions is None else self.versions.latest_usable(request, low, high)

    def _next_correlation_id(self) -> int:
        current = self._correlation_id
        self._correlation_id = current + 1 if current < _CORRELATION_ID_MAX else 0
        return current

    def _ask_versions(self, version: int, now_ms: float) -> None:
        self.state.checking_api_versions()
        request = ApiVersionsRequest(
            client_software_name=self._settings.software_name, client_software_version=__version__
        )
        if self.node.cluster_id is not None:
            request.cluster_id, request.node_id = self.node.cluster_id, self.node.id
        timeout = self._settings.request_timeout_ms
        versions = (version, version)
        self._send(
            ClientRequest(request, timeout_ms=timeout, deadline_ms=0.0, versions=versions, internal=True),
            now_ms,
        )

    def _on_versions(self, call: ClientRequest, response: Response, now_ms: float) -> None:
        assert isinstance(response, ApiVersionsResponse)
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.NONE:
            self.versions = NodeApiVersions(
                response.api_keys, response.finalized_features, response.finalized_features_epoch
            )
            self.state.ready()
            return
        version = _version_to_retry(response)
        # Only ever a lower one: a node that names the version that it refuses would be asked without end.
        if error is ErrorCode.UNSUPPORTED_VERSION and version < call.version:
            self._ask_versions(version, now_ms)
        elif error is ErrorCode.REBOOTSTRAP_REQUIRED:
            self.close(RebootstrapRequiredError(f"at {self.node} is another broker now"), now_ms)
        else:
            self.close(DisconnectedError(f"node {self.node} answered ApiVersions with {error.name}"), now_ms)

    def _obey_throttle(self, call: ClientRequest, response: Response, now_ms: float) -> None:
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0 and client_throttles(call.api, call.version):
            self.in_flight.postpone(throttle_ms)
            self.state.throttle(now_ms + throttle_ms)

    def _expire_waiting(self, now_ms: float) -> None:
        overdue = [call for call in self._waiting if now_ms > call.deadline_ms]
        for call in overdue:
            self._waiting.remove(call)
        for call in overdue:
            call.fail(RequestTimedOutError(f"{call.api.name} could not be sent to {self.node} in time"))

    def _idle(self, now_ms: float) -> bool:
        limit = self._settings.idle_ms_max
        ready = self.state.state is ConnectionState.READY
        return ready and not self.load and 0 <= limit <= now_ms - self._last_used_ms

    def __repr__(self) -> str:
        return (
            f"<NodeLink {self.node.id} {self.state.state.name} in_flight={len(self.in_flight)} "
            f"waiting={len(self._waiting)}>"
        )


def _decode(call: ClientRequest, frame: memoryview) -> Response:
    """The response of a call. Raises ProtocolError, or DisconnectedError for one that is not its own."""
    correlation_id = int.from_bytes(frame[:_CORRELATION_BYTES], "big", signed=True)
    if correlation_id != call.correlation_id:
        raise DisconnectedError(
            f"Correlation id for response ({correlation_id}) does not match request ({call.correlation_id})"
        )
    assert call.version is not None
    version = call.version
    if call.api is ApiKey.API_VERSIONS and _is_unsupported_version(frame):
        # KIP-511: a broker that does not know the version answers in version 0.
        version = 0
    return decode_response(call.api, version, frame)[1]


def _is_unsupported_version(frame: memoryview) -> bool:
    code = int.from_bytes(frame[_CORRELATION_BYTES : _CORRELATION_BYTES + 2], "big", signed=True)
    return code == ErrorCode.UNSUPPORTED_VERSION


def _version_to_retry(response: ApiVersionsResponse) -> int:
    """The node's highest version of ApiVersions, as it said beside the error; 0 if it did not say."""
    for each in response.api_keys:
        if each.api_key == ApiKey.API_VERSIONS:
            return max(min(each.max_version, ApiVersionsRequest.max_version), 0)
    return 0
