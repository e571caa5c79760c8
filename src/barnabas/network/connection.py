"""What every accepted connection has: a conversation, a way to be woken, and an end with one log line.

`plain_connection` and `tls` are the two kinds; they differ in how bytes get through.

A connection has turns (`_run`, `_take_turn`): it handles what has come, sends the responses, and then queues
for another turn, reads on, or closes (`_go_on`). A response that is completed by something else (a timer,
another connection) wakes the connection; all woken in one turn of the loop send together in the next.
"""

import contextlib
from collections.abc import Callable
from typing import Final

from barnabas.core.eventlog import EventLog
from barnabas.network.channel_states import ChannelState
from barnabas.network.conversation import Conversation
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import ListenerId
from barnabas.network.processor import Processor
from barnabas.protocol.errors import ProtocolError

_CLOSED: Final = ChannelState.CLOSED
_DRAINING: Final = ChannelState.DRAINING

events = EventLog("network")


class Connection:
    """The part that knows no transport; subclasses send, pause and close."""

    __slots__ = (
        "_awake",
        "_busy",
        "_on_closed",
        "_processor",
        "_queued",
        "active",
        "conversation",
        "idle_since_ms",
        "listener",
    )

    def __init__(
        self,
        processor: Processor,
        listener: ListenerId,
        address: tuple[str, int],
        on_closed: Callable[["Connection"], None],
    ) -> None:
        self._processor = processor
        self._on_closed = on_closed
        self.listener = listener
        self.conversation = Conversation(
            processor.service,
            self,
            processor.new_reader(),
            processor.clock,
            listener=listener,
            address=address,
            parked_max=processor.settings.parked_max,
        )
        if processor.sasl:
            processor.log_in(self.conversation)
        self.active = True
        """Whether bytes went either way since the idle sweep last looked."""
        self.idle_since_ms = 0.0
        self._awake = False
        self._busy = False
        self._queued = False

    @property
    def open(self) -> bool:
        return self.conversation.state is not _CLOSED

    @property
    def address(self) -> tuple[str, int]:
        return self.conversation.peer.address

    @property
    def sending(self) -> bool:
        """Whether something was handed to the system only in part."""
        raise NotImplementedError

    def wake(self) -> None:
        """The conversation has output, or can read again; see `Transport`."""
        if self.open and not self._awake and not self._busy:
            self._awake = True
            self._processor.schedule(self._on_awake)

    def _on_awake(self) -> None:
        self._awake = False
        if self.open:
            self._run()

    def _run(self, count: int = 0) -> None:
        """Handles the requests that `count` received bytes complete, sends the responses, and reads on."""
        self._busy = True
        try:
            answer = self.conversation.received(count) if count else None
            if answer is None:
                self._send()
            elif self.open:
                self._send_bytes(answer)
        except Exception as error:
            self._failed(error)
        self._busy = False
        self._go_on()

    def _take_turn(self) -> None:
        """Handles requests that an earlier turn has left."""
        self._queued = False
        if not self.open:
            return
        self._busy = True
        try:
            # A response that was completed meanwhile may have used up the room for more.
            if self._send() and self.conversation.runnable:
                self.conversation.resume()
                self._send()
        except Exception as error:
            self._failed(error)
        self._busy = False
        self._go_on()

    def _go_on(self) -> None:
        """Queues for another turn, or reads, or closes: what comes after each turn."""
        conversation = self.conversation
        if conversation.runnable:
            # While the transport takes no more, there is no turn: it says when it is ready, and a turn
            # follows.
            if not self._queued and not self.sending:
                self._queued = True
                self._processor.queue(self._take_turn)
        elif conversation.state is _DRAINING:
            self._close_if_settled()
        self._read_on()

    def _failed(self, error: Exception) -> None:
        """The peer broke a rule, or the service its own."""
        if isinstance(error, CloseConnection):
            # What was asked before is still answered, as far as the transport takes it.
            with contextlib.suppress(Exception):
                self._send()
        self.abort(error)
        # It is logged. Its frames know the request, and where a Pending failed with it, itself: a cycle.
        error.__traceback__ = None

    def _send(self) -> bool:
        """Sends the conversation's output; False if the transport takes no more for now."""
        raise NotImplementedError

    def _send_bytes(self, answer: bytes) -> None:
        """Sends an answer before which nothing waits in the conversation."""
        raise NotImplementedError

    def _read_on(self) -> None:
        """Reads again if it was paused and the conversation wants to."""
        raise NotImplementedError

    def abort(self, error: BaseException) -> None:
        """Closes with one log line whose weight says whose fault it is."""
        if not self.open:
            return
        fields = {"peer": f"{self.address[0]}:{self.address[1]}", "listener": self.listener.name}
        if isinstance(error, CloseConnection):
            self._processor.faults.warning("network.connection_closed", **fields, reason=error.reason)
        elif isinstance(error, ConnectionError | TimeoutError):
            events.debug("network.connection_lost", **fields, reason=error)
        elif isinstance(error, ProtocolError):
            # An answer that cannot be written, to a request with names that cannot be repeated.
            self._processor.faults.warning("network.answer_unwritable", **fields, reason=error)
        elif isinstance(error, OSError):
            events.error("network.connection_failed", **fields, reason=error)
        else:
            events.error("network.request_failed", **fields, reason=repr(error), exc_info=error)
        self.close()

    def close(self) -> None:
        """Ends the connection now; what was not sent is dropped. Harmless when it is closed."""
        if self.open:
            inside_a_frame = self.conversation.missing > 0
            self._close_transport()
            self.conversation.closed()
            self._on_closed(self)
            if inside_a_frame:
                self._processor.trim_memory()

    def look_closer(self) -> None:
        """It seems idle: even one byte that comes now is to be noticed."""

    def drain(self) -> None:
        """Takes no further request, sends what is owed, and closes then."""
        self.conversation.drain()
        self._close_if_settled()

    def _close_if_settled(self) -> None:
        if not self.conversation.waiting and not self.conversation.output_bytes and not self.sending:
            self.close()

    def _close_transport(self) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        host, port = self.address
        return (
            f"<{type(self).__name__} {host}:{port} {'open' if self.open else 'closed'} {self.conversation}>"
        )
