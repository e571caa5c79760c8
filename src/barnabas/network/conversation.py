"""One peer's requests and responses: in order, and never more of them than fit.

Theory of operation
-------------------
Requests are handled as soon as their frames are there, responses leave in the order of the requests.
A response that comes later (a `Pending`) holds back those behind it; until then they wait in `_slots`.

Three things make a conversation stop handling requests; frames already read stay in `_backlog` and the
transport is asked to stop reading (`wants_read`), so that TCP pushes back on the peer:

- `parked_max` responses wait (for their Pending, or behind one);
- more than `OUTPUT_BYTES_MAX` of response memory was not taken by the transport (a peer that does not
  read), or waits behind a response that is not there yet; ranges of files count only as their object;
- its `state` is not OPEN (`channel_states`): the service holds the peer or throttles it, or the connection
  ends.

Apart from that, requests are handled for at most `TURN_MS`, and at most `TURN_REQUESTS_MAX` of them, in one
go: a *turn*. What is left waits for the connection's next turn, which comes after those of all others
(`Processor.queue`). The service knows where a turn of several requests begins and ends, so that it can write
to a disk for all of them at once; their responses leave only after it has ended.

There is one short way, for a request that comes alone and is answered at once with one piece of bytes:
`received` returns the answer, which passes neither through the backlog nor through the output. It saves 1.2
us of the 50 us of processor time that a produce takes; `test_the_short_way_and_the_long_way_answer_alike`
holds it to the long one.

A conversation and its peer know each other, and so do a conversation and its transport. `closed` cuts both
ties: reference counting alone then frees what a connection has received, and nothing waits for the garbage
collector.

It knows no socket: a `Transport` receives into `buffers`, says so with `received` and takes chunks with
`take_output`; it is woken when something happened that it did not start.
"""

from collections import deque
from typing import Final, Protocol

from barnabas.core.chunks import Chunks, FileSlice
from barnabas.core.clock import Clock, Timer
from barnabas.core.pending import Pending
from barnabas.network.channel_states import ChannelEvent, ChannelState, after
from barnabas.network.errors import CloseConnection
from barnabas.network.frames import FrameReader
from barnabas.network.peer import ListenerId, Peer, Service

TURN_MS: Final = 2.0
"""How long requests of one peer are handled before others have their turn; the last one may take longer."""

TURN_REQUESTS_MAX: Final = 128
"""Requests of one peer that are handled before others have their turn, however little each costs."""

OUTPUT_BYTES_MAX: Final = 1024 * 1024
"""Response bytes in memory beyond which no further request of the peer is handled."""

_SLICE_COST: Final = 128
_OPEN: Final = ChannelState.OPEN
_CLOSED: Final = ChannelState.CLOSED


class Transport(Protocol):
    """What carries a conversation: a socket, a TLS transport, a simulated network."""

    def wake(self) -> None:
        """There is output, or reading may continue; called outside of `Conversation.received` only."""

    def abort(self, error: BaseException) -> None:
        """Close the connection and log why."""


class Conversation:
    """The state of one accepted connection above the transport."""

    __deletable__ = ("_transport",)

    __slots__ = (
        "_backlog",
        "_clock",
        "_holds",
        "_muted_until",
        "_output",
        "_output_bytes",
        "_parked_bytes",
        "_parked_max",
        "_reader",
        "_service",
        "_slots",
        "_transport",
        "_unmute",
        "peer",
        "state",
    )

    def __init__(
        self,
        service: Service,
        transport: Transport,
        reader: FrameReader,
        clock: Clock,
        *,
        listener: ListenerId,
        address: tuple[str, int],
        parked_max: int,
    ) -> None:
        self.peer = Peer(listener, address, self)
        self._service = service
        self._transport = transport
        self._reader = reader
        self._clock = clock
        self._parked_max = parked_max
        self._slots: deque[Chunks | Pending[Chunks | None]] = deque()
        self._backlog: deque[memoryview] = deque()
        self._output: Chunks = []
        self._output_bytes = 0
        # Of responses in `_slots`: they are there, but wait for one before them.
        self._parked_bytes = 0
        self._muted_until = 0.0
        self._unmute: Timer | None = None
        self._holds = 0
        self.state = _OPEN

    @property
    def wants_read(self) -> bool:
        """Whether the transport should receive more."""
        return self.state is _OPEN and not (self._backlog or self._is_full())

    @property
    def runnable(self) -> bool:
        """Whether requests that were read already can be handled now, by `resume`."""
        return bool(self._backlog) and self.state is _OPEN and not self._is_full()

    def _is_full(self) -> bool:
        """Whether as many responses wait as may."""
        return (
            self._output_bytes + self._parked_bytes > OUTPUT_BYTES_MAX or len(self._slots) >= self._parked_max
        )

    @property
    def waiting(self) -> int:
        """Requests whose responses are not there yet, or wait behind such."""
        return len(self._slots)

    @property
    def output_bytes(self) -> int:
        """What `take_output` would give, roughly: ranges of files count little; 0 when it gives nothing."""
        return self._output_bytes

    @property
    def missing(self) -> int:
        """Bytes that the transport will certainly receive: the rest of the frame under way."""
        return self._reader.missing

    def buffers(self) -> list[memoryview]:
        return self._reader.buffers()

    def received(self, count: int) -> bytes | None:
        """``processCompletedReceives``: handles what the `count` bytes received into `buffers` complete.

        An answer that is one piece of bytes to one request, with nothing before it to be sent, is returned:
        send it before anything else. Raises what the service raises, and CloseConnection for a frame that is
        too large: then abort.
        """
        frames = self._reader.received(count)
        if (
            len(frames) == 1
            and self.state is _OPEN
            and not (self._slots or self._backlog or self._output_bytes)
        ):
            outcome = self._service.handle(self.peer, frames[0])
            if type(outcome) is list and len(outcome) == 1 and self._reader.problem is None:
                answer = outcome[0]
                if type(answer) is bytes:
                    return answer
            self._respond(outcome)
        else:
            has_turn = self.wants_read
            self._backlog.extend(frames)
            if has_turn:
                self._handle()
        self._raise_problem()
        return None

    def resume(self) -> None:
        """Handles requests that were read in an earlier turn; raises like `received`.
        Only while `runnable`.
        """
        self._handle()
        self._raise_problem()

    def _raise_problem(self) -> None:
        """Raises what is wrong with the stream, when all that came before it is handled."""
        if self._reader.problem is not None and not self._backlog:
            raise self._reader.problem

    def take_output(self) -> Chunks:
        """The chunks to send next; they are the transport's now. Take them when it can send."""
        output, self._output = self._output, []
        self._output_bytes = 0
        return output

    def _handle(self) -> None:
        """One turn over the backlog."""
        service, backlog = self._service, self._backlog
        if len(backlog) < 2:
            # A lone request needs no clock, and no turn of the service: there is nothing after it to be put
            # off.
            if backlog:
                self._respond(service.handle(self.peer, backlog.popleft()))
            return
        answers: list[Chunks | Pending[Chunks | None]] = []
        service.begin_turn()
        try:
            self._handle_several(answers)
        finally:
            try:
                service.end_turn()
            finally:
                # Not before: until here the service may change what it has answered.
                for answer in answers:
                    self._respond(answer)

    def _handle_several(self, answers: list[Chunks | Pending[Chunks | None]]) -> None:
        """Handles requests of the backlog until the turn is over, or the conversation has to stop."""
        service, peer, backlog, now_ms = self._service, self.peer, self._backlog, self._clock.monotonic_ms
        left = TURN_REQUESTS_MAX
        turn_over = now_ms() + TURN_MS
        # What `_is_full` will look at when the answers are where they belong.
        waiting, memory = len(self._slots), self._output_bytes + self._parked_bytes
        while backlog:
            outcome = service.handle(peer, backlog.popleft())
            if outcome is not None:
                answers.append(outcome)
                if isinstance(outcome, list):
                    memory += _cost(outcome)
                    waiting += waiting > 0
                elif outcome.done and outcome.error is not None:
                    return  # it ends the connection: what came behind it must not be done and never answered
                else:
                    waiting += waiting > 0 or not outcome.done
            left -= 1
            if (
                self.state is not _OPEN
                or memory > OUTPUT_BYTES_MAX
                or waiting >= self._parked_max
                or not left
                or (backlog and now_ms() >= turn_over)
            ):
                return

    def _respond(self, outcome: Chunks | Pending[Chunks | None] | None) -> None:
        """``sendResponse``: puts a response where its turn is; there is none to some requests, nor to a peer
        whose connection is closed.
        """
        if self.state is _CLOSED:
            return
        if isinstance(outcome, list):
            if not self._slots:
                self._emit(outcome)
                return
            self._slots.append(outcome)
            self._parked_bytes += _cost(outcome)
        elif outcome is not None:
            self._park(outcome)

    def _emit(self, chunks: Chunks) -> None:
        self._output += chunks
        self._output_bytes += _cost(chunks)

    def _park(self, pending: Pending[Chunks | None]) -> None:
        if pending.done and not self._slots:
            self._emit(pending.result() or [])
            return
        self._slots.append(pending)
        pending.when_done(self._settled)

    def _settled(self, pending: Pending[Chunks | None]) -> None:
        if self.state is ChannelState.CLOSED:
            return
        slots = self._slots
        if pending is not slots[0]:
            if pending.error is None:
                chunks = pending.result() or []
                slots[slots.index(pending)] = chunks
                self._parked_bytes += _cost(chunks)
            return
        if pending.error is None:
            self._emit(pending.result() or [])
            slots.popleft()
        # Responses that waited for it follow, until one is not there yet.
        while slots and not isinstance(slots[0], Pending):
            chunks = slots.popleft()
            self._emit(chunks)
            self._parked_bytes -= _cost(chunks)
        if slots and slots[0].error is not None:
            self._transport.abort(slots[0].error)
        else:
            self._transport.wake()

    def mute_until(self, monotonic_ms: float) -> None:
        now = self._clock.monotonic_ms()
        if monotonic_ms <= max(now, self._muted_until):
            return
        self._move(ChannelEvent.THROTTLE)
        if self._unmute is not None:
            self._unmute.cancel()
        self._muted_until = monotonic_ms
        self._unmute = self._clock.call_later(monotonic_ms - now, self._on_unmute)

    def _on_unmute(self) -> None:
        self._unmute = None
        self._move(ChannelEvent.UNTHROTTLE)
        self._transport.wake()

    def hold(self) -> None:
        self._holds += 1
        if self._holds == 1:
            self._move(ChannelEvent.HOLD)

    def release(self) -> None:
        self._holds -= 1
        if not self._holds:
            self._move(ChannelEvent.RELEASE)
            self._transport.wake()

    def serve(self, service: Service, request_bytes_max: int) -> None:
        """Another service answers from the next turn on, and frames may be as large as this."""
        self._service = service
        self._reader.size_max = request_bytes_max

    def drain(self) -> None:
        """Takes no further request; what was handled is still answered."""
        self._move(ChannelEvent.DRAIN)
        self._backlog.clear()

    def close(self, reason: str) -> None:
        self._transport.abort(CloseConnection(reason))

    def closed(self) -> None:
        """The transport is closed: lets go of everything."""
        self._move(ChannelEvent.CLOSE)
        if self._unmute is not None:
            self._unmute.cancel()
            self._unmute = None
        self._slots.clear()
        self._backlog.clear()
        self._output.clear()
        self._reader.clear()
        self.peer.gone()
        del self._transport

    def _move(self, event: ChannelEvent) -> None:
        self.state = after(self.state, event)

    def __repr__(self) -> str:
        return (
            f"<Conversation {self.state.value} waiting={len(self._slots)} backlog={len(self._backlog)} "
            f"output={self._output_bytes}>"
        )


def _cost(chunks: Chunks) -> int:
    """The memory that a response takes."""
    cost = 0
    for chunk in chunks:
        cost += _SLICE_COST if isinstance(chunk, FileSlice) else len(chunk)
    return cost
