"""From a frame to its answer: the way that every request takes (``KafkaApis.handle``).

Theory of operation
-------------------
A frame is decoded, its version checked against the table of handlers, its handler called. What cannot be
understood closes the connection without an answer, as Kafka does: a client that sends an unknown version
could not read an answer either. The one exception is ApiVersions, by which clients find out.

A large frame is decoded in slices, and a large response encoded in slices, so that no request holds the loop.
Until its handler was called the connection is held: what a client asked later is not done earlier.

A handler returns a response, a `Pending` of one, or None for no answer. It raises `KafkaError` to have the
whole request answered with that code; any other exception is a bug, answered UNKNOWN_SERVER_ERROR and logged
once. Every response leaves through `_finish`: there, and only there, throttling happens. Where requests came
together, `end_turn` writes what they have appended, and makes their answers then (docs/decisions/0015).
"""

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from barnabas.broker.api_error import api_error
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import Api, ApiTable, Outcome
from barnabas.broker.request_metrics import request_metrics
from barnabas.broker.services import BrokerServices
from barnabas.broker.throttling import REFUSED, throttle_ms
from barnabas.core.chunks import Chunks
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import REQUESTS, EventLog
from barnabas.core.pending import Pending
from barnabas.core.slices import ALL, Work, in_one_piece, in_slices
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import Peer
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError, TooManyElementsError
from barnabas.protocol.framing import (
    RequestHeader,
    decode_request_header,
    encode_response,
    encode_response_in_steps,
)
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

_log = EventLog("broker.dispatch")

T = TypeVar("T")

LARGE_FRAME_BYTES: Final = 64 * 1024
"""A frame up to this has at most 65,536 elements, which are decoded in less than 30 ms."""

_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
_PRODUCE: Final = int(ApiKey.PRODUCE)


def execute(
    api: Api,
    context: RequestContext,
    request: Request,
    finish: Callable[[Api, RequestContext, Response | None], T | Pending[T]],
) -> T | Pending[T]:
    """Calls the handler; what `finish` makes of its response, now or when the handler's Pending is done.

    An exception becomes a code here and nowhere else, for requests from the wire and for those in process:
    one that the handler raises, and one that its Pending fails with. CloseConnection is passed on.
    """
    try:
        outcome = api.handler(context, request)
    except CloseConnection:
        raise
    except Exception as error:
        outcome = _failed(api, context, request, error)
    if isinstance(outcome, Pending):
        return _when_handled(api, context, request, outcome, finish)
    return finish(api, context, outcome)


def _when_handled(
    api: Api,
    context: RequestContext,
    request: Request,
    outcome: Pending[Response | None],
    finish: Callable[[Api, RequestContext, Response | None], T | Pending[T]],
) -> Pending[T]:
    """What `finish` makes of a response that comes later."""
    answer: Pending[T] = Pending()

    # The caller that completes this request may be about to complete others, as a whole group that waited for
    # one member. So an error here ends this connection only, and is not raised to the caller.

    # Quoted: a function inside another one evaluates its annotations each time.
    def respond(response: "Pending[Response | None]") -> None:
        try:
            finished = finish(api, context, response.result())
        except Exception as unforeseen:
            answer.fail(unforeseen)
            return
        if isinstance(finished, Pending):
            finished.when_done(answer.end_as)
        else:
            answer.complete(finished)

    def done(handled: "Pending[Response | None]") -> None:
        error = handled.error
        if error is None:
            respond(handled)
            return
        if isinstance(error, CloseConnection):
            answer.fail(error)
            return
        try:
            refusal = _failed(api, context, request, error)
        except Exception as unforeseen:
            answer.fail(unforeseen)
        else:
            (refusal if isinstance(refusal, Pending) else Pending.of(refusal)).when_done(respond)

    outcome.when_done(done)
    return answer


def _failed(api: Api, context: RequestContext, request: Request, error: BaseException) -> Outcome:
    refusal = _refusal(api, context, request, error)
    if isinstance(refusal, Generator):
        return in_slices(refusal, context.broker.clock, holder=context.peer)
    outcome: Outcome = refusal
    return outcome


def _refusal(api: Api, context: RequestContext, request: Request, error: BaseException) -> Any:
    error = api_error(_log, "request.failed", error, api=api.key.name, version=context.version)
    if error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        context.counted = REFUSED
    return api.failed(request, error, context.version)


def _unreadable(api: Api, context: RequestContext, error: ProtocolError) -> CloseConnection:
    """Kafka's words for a request that is not one, with the key behind our own limit."""
    key = " (barnabas.request.elements.max)" if isinstance(error, TooManyElementsError) else ""
    peer = context.peer
    return CloseConnection(
        f"Error getting request for apiKey: {api.key.name}, apiVersion: {context.version}, "
        f"connectionId: {peer.address[0]}:{peer.address[1]}, listenerName: {peer.listener.name}: {error}{key}"
    )


class Dispatcher:
    """Answers requests with the handlers of a table; implements `network.peer.Service`."""

    __slots__ = (
        "_apis",
        "_clock",
        "_elements_max",
        "_ends_turn",
        "_in_turn",
        "_late",
        "_quotas",
        "_request_log",
        "_services",
        "metrics",
    )

    def __init__(self, services: BrokerServices, apis: ApiTable | None = None) -> None:
        """`apis` are those that are handled, where they are not just those that clients are told of."""
        self._services = services
        self._clock = services.clock
        self._quotas = services.quotas
        self._elements_max: int = services.config["barnabas.request.elements.max"]
        self._apis = dict(services.api_table if apis is None else apis)
        self.metrics = request_metrics(self._apis)
        """What was asked so far."""
        self._in_turn = self._ends_turn = False
        self._request_log = EventLog(REQUESTS) if EventLog(REQUESTS).has_debug else None
        self._late: list[tuple[Api, RequestContext, Request, Work[Any], Chunks]] = []
        """Requests of this turn that wait for its end: what is left to do, and where their answers come."""

    def handle(self, peer: Peer, frame: memoryview) -> Chunks | Pending[Chunks | None] | None:
        """The answer to a frame, with its length in front; raises CloseConnection."""
        try:
            header, offset = decode_request_header(frame)
        except ProtocolError as error:
            raise CloseConnection(f"Error parsing request header: {error}") from error
        context = RequestContext(self._services, header, peer, len(frame))
        context.arrived_ms = self._clock.monotonic_ms()
        version = context.version
        api = self._apis.get(header.api_key)
        if api is None or not api.min_version <= version <= api.max_version:
            return self._unsupported(header)
        try:
            if context.size > LARGE_FRAME_BYTES:
                work = api.request.decode_in_steps(frame, version, offset, self._elements_max)
                decoded = in_slices(work, self._clock, holder=peer)
                if isinstance(decoded, Pending):
                    return self._when_decoded(api, context, decoded)
                request = decoded[0]
            else:
                request, _ = api.request.decode(frame, version, offset)
        except ProtocolError as error:
            raise _unreadable(api, context, error) from error
        if self._in_turn and header.api_key != _PRODUCE:
            # What was asked first is done first.
            self._services.replica_manager.appender.write_turn()
        outcome: Any = execute(api, context, request, self._finish)
        if isinstance(outcome, Pending):
            context.handled_ms = self._clock.monotonic_ms()
            return outcome
        if isinstance(outcome, Work):
            chunks: Chunks = []
            self._late.append((api, context, request, outcome, chunks))
            return chunks
        answer: Chunks | None = outcome
        return answer

    def begin_turn(self) -> None:
        """As `Service.begin_turn`: appends of the requests that follow may wait for each other, to be written
        at once.
        """
        self._in_turn = True
        self._services.replica_manager.appender.begin_turn()

    def end_turn(self) -> None:
        """As `Service.end_turn`: writes, and makes the answers that say what was written."""
        self._in_turn = False
        late, self._late = self._late, []
        self._services.replica_manager.appender.end_turn()
        closing: CloseConnection | None = None
        self._ends_turn = True
        try:
            for api, context, request, work, chunks in late:
                # The rest of the work, and errors as in `execute`; it waits for nothing else.
                try:
                    try:
                        work.step(ALL)
                        response = work.value
                    except CloseConnection:
                        raise
                    except Exception as error:
                        refusal = _refusal(api, context, request, error)
                        response = in_one_piece(refusal) if isinstance(refusal, Generator) else refusal
                except CloseConnection as failed:  # of acks=0; the others are answered
                    closing = failed
                    continue
                answer = self._finish(api, context, response)
                if isinstance(answer, list):  # it is encoded at once, as `_ends_turn` asks
                    chunks += answer
        finally:
            self._ends_turn = False
        if closing is not None:
            raise closing

    def _when_decoded(
        self, api: Api, context: RequestContext, decoding: Pending[tuple[Request, int]]
    ) -> Pending[Chunks | None]:
        answer: Pending[Chunks | None] = Pending()

        # An error is looked at and not raised here: its traceback would have this frame, and the frame the
        # error and with it the request. Such a cycle would stay in memory until the garbage collector runs.
        def decoded(done: Pending[tuple[Request, int]]) -> None:
            error = done.error
            if error is not None:
                # For good: the connection is closed as soon as the answers before this are out.
                context.peer.hold()
                if not isinstance(error, ProtocolError):
                    answer.fail(error)
                    return
                answer.fail(_unreadable(api, context, error))
                # From Python 3.12 on, the frame of a generator that has ended refers to the frames that
                # called it, and these to the outcome: its error would be in such a cycle, too.
                error.__traceback__ = None
                if error.__cause__ is not None:
                    error.__cause__.__traceback__ = None
                return
            try:
                outcome: Any = execute(api, context, done.result()[0], self._finish)
            except Exception as failure:
                answer.fail(failure.with_traceback(None))
                return
            if isinstance(outcome, Pending):
                context.handled_ms = self._clock.monotonic_ms()
                outcome.when_done(answer.end_as)
            else:
                assert not isinstance(outcome, Work), "no turn is under way"
                answer.complete(outcome)

        decoding.when_done(decoded)
        return answer

    def _unsupported(self, header: RequestHeader) -> Chunks:
        if header.api_key == _API_VERSIONS:
            # In the oldest format, with the one entry that a client needs to ask again (KIP-511).
            api = self._apis[_API_VERSIONS]
            entry = ApiVersion(
                api_key=_API_VERSIONS, min_version=api.min_version, max_version=api.max_version
            )
            answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[entry])
            return encode_response(header.correlation_id, answer, 0)
        name = ApiKey(header.api_key).name if header.api_key in _KNOWN else header.api_key
        raise CloseConnection(
            f"Received request api key {name} with version {header.api_version} which is not enabled"
        )

    def _finish(
        self, api: Api, context: RequestContext, response: Response | Work[Any] | None
    ) -> Chunks | Pending[Any] | Work[Any] | None:
        """The one point through which every response leaves;
        work that waits for its turn to end comes here again with its response.
        """
        if not self._ends_turn and self._quotas.enabled:
            now_ms = self._clock.monotonic_ms()
            context.throttle_ms = throttle_ms(context, now_ms, exempt=not api.throttled)
            if context.throttle_ms > 0:
                # The answer asks the client to wait. One that ignores it is muted: its requests are not read
                # (KIP-219).
                context.peer.mute_until(now_ms + context.throttle_ms)
        if isinstance(response, Work):
            return response
        if response is not None and context.throttle_ms > 0 and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = context.throttle_ms
        if self._request_log is not None:
            self._log_request(self._request_log, api, context)
        version = context.version
        metrics = self.metrics[context.metrics_key]
        metrics.requests[version] += 1
        metrics.recent.append(
            (
                context.arrived_ms,
                context.handled_ms,
                self._clock.monotonic_ms(),
                context.size,
                context.throttle_ms,
            )
        )
        if response is None:
            return None
        correlation_id = context.header.correlation_id
        chunks = response.small_frame(correlation_id, version)
        if chunks is None:
            if self._ends_turn:
                return encode_response(correlation_id, response, version)
            return in_slices(encode_response_in_steps(correlation_id, response, version), self._clock)
        return chunks

    def _log_request(self, log: EventLog, api: Api, context: RequestContext) -> None:
        """``RequestChannel.updateRequestMetrics``: what was asked by whom;
        nothing of its contents, which may be secret.
        """
        header, peer = context.header, context.peer
        log.debug(
            "request.completed",
            api=api.key.name,
            version=header.api_version,
            correlation_id=header.correlation_id,
            client_id=header.client_id,
            connection=f"{peer.address[0]}:{peer.address[1]}",
            listener=peer.listener.name,
            principal=peer.principal,
            bytes=context.size,
            total_ms=round(self._clock.monotonic_ms() - context.arrived_ms, 3),
            throttle_ms=context.throttle_ms,
        )

    def __repr__(self) -> str:
        return f"<Dispatcher {len(self._apis)} APIs>"


_KNOWN: Final = frozenset(int(key) for key in ApiKey)
