"""The sockets of one client on an asyncio loop: resolve, connect, send, receive frames (Kafka's
``Selector``).

Theory of operation
-------------------
Requests of one turn of the loop go out with one system call: a channel collects what it is given, and
the selector flushes all such channels in the next turn. One timer a channel looks at deadlines; it is armed
for the earliest and looks again when it fires, so that sending a request does not touch timers.

A node's host may have several addresses; one attempt tries them one after the other, within the link's
set-up time-out. Names are resolved by a thread: the system's resolver blocks.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.core.chunks import Chunks
from barnabas.core.clock import Clock, Timer
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.clock import LoopClock
from barnabas.network.connection_states import ConnectionState
from barnabas.network.errors import DisconnectedError, SslAuthenticationError
from barnabas.network.frames import FrameReader, ReceiveMemory
from barnabas.network.kafka_channel import KafkaChannel
from barnabas.network.low_water import LowWater
from barnabas.network.node_link import Node, NodeLink
from barnabas.network.send_queue import Flush
from barnabas.network.tls_socket import handshake_words

if TYPE_CHECKING:
    import ssl

    from barnabas.network.tls_client import TlsHandshake

events = EventLog("network.client")

_Address: TypeAlias = tuple[int, Any]
"""A socket family, and an address of it."""

_UNDER_WAY: Final = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR}


class Selector:
    """Makes channels on sockets. Belongs to the running event loop, and to one client."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        receive_buffer_bytes: int = -1,
        tls: "Callable[[], ssl.SSLContext | None]" = lambda: None,
    ) -> None:
        """`receive_buffer_bytes` is SO_RCVBUF; -1 leaves it to the system. `tls` is asked for each connection
        what it is encrypted with, if at all: certificates are renewed.
        """
        self.tls = tls
        self.loop = asyncio.get_running_loop()
        self.receive_buffer_bytes = receive_buffer_bytes
        self.clock = clock or LoopClock(self.loop)
        self._memory = ReceiveMemory()
        self.threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="network-client")
        """For what blocks: the resolver, and files that are not in memory.
        A thread starts when it is needed.
        """
        self._scheduled: list[Callable[[], None]] = []

    def channel(self, link: NodeLink, response_bytes_max: int) -> "NodeChannel":
        """A channel that calls back into the link."""
        return NodeChannel(self, link, response_bytes_max)

    def new_reader(self, response_bytes_max: int) -> FrameReader:
        return FrameReader(self._memory, response_bytes_max)

    def schedule(self, flush: Callable[[], None]) -> None:
        """Runs it in the next turn of the loop, together with all others of this one."""
        if not self._scheduled:
            self.loop.call_soon(self._flush_scheduled)
        self._scheduled.append(flush)

    def _flush_scheduled(self) -> None:
        scheduled, self._scheduled = self._scheduled, []
        for flush in scheduled:
            flush()

    async def close(self) -> None:
        """Ends the threads; the client has closed its channels."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        # Lets futures that have just failed reach the tasks that await them.
        await asyncio.sleep(0)


class NodeChannel:
    """`node_link.Channel` on a socket."""

    __slots__ = (
        "_addresses",
        "_channel",
        "_collected",
        "_handshake",
        "_link",
        "_low_water",
        "_node",
        "_reader",
        "_response_bytes_max",
        "_selector",
        "_socket",
        "_timer",
        "_timer_ms",
    )

    def __init__(self, selector: Selector, link: NodeLink, response_bytes_max: int) -> None:
        self._selector = selector
        self._response_bytes_max = response_bytes_max
        self._link = link
        self._node: Node | None = None
        self._addresses: list[_Address] = []
        self._socket: socket.socket | None = None
        self._channel: KafkaChannel | None = None
        self._reader: FrameReader | None = None
        self._low_water: LowWater | None = None
        self._collected: Chunks = []
        self._handshake: TlsHandshake | None = None
        self._timer: Timer | None = None
        self._timer_ms = 0.0

    # What the link asks for.

    def connect(self, node: Node) -> None:
        self._node = node
        if _is_address(node.host):
            family = socket.AF_INET6 if ":" in node.host else socket.AF_INET
            self._addresses = [(family, (node.host, node.port))]
            self._selector.schedule(lambda: self._try_next(node, None))
            return
        resolving = self._selector.threads.submit(
            socket.getaddrinfo, node.host, node.port, 0, socket.SOCK_STREAM
        )
        loop = self._selector.loop

        def resolved(future: "Future[Any]") -> None:
            if not future.cancelled() and not loop.is_closed():
                loop.call_soon_threadsafe(self._on_resolved, node, future)

        resolving.add_done_callback(resolved)

    def write(self, chunks: Chunks) -> None:
        """Collects a request; all of one turn go out together."""
        if not self._collected:
            self._selector.schedule(self._flush_collected)
        self._collected += chunks

    def writable(self) -> bool:
        return self._channel is None or self._channel.waits_for is Flush.DRAINED

    def close(self) -> None:
        self._node = None
        self._collected = []
        self._drop_socket()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def wake_by(self, deadline_ms: float) -> None:
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        clock = self._selector.clock
        # A deadline is over when it lies in the past, not yet when it is reached.
        self._timer = clock.call_later(max(deadline_ms - clock.monotonic_ms(), 0.0) + 1.0, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._selector.clock.monotonic_ms()
        self._link.expire(now)
        deadline = self._link.next_deadline_ms(now)
        if deadline is not None:
            self.wake_by(deadline)

    def _on_resolved(self, node: Node, future: "Future[Any]") -> None:
        if node is not self._node:
            return
        error = future.exception()
        if error is not None:
            self._lost(DisconnectedError(f"cannot resolve {node.host}: {error}"))
            return
        self._addresses = [(family, address) for family, _, _, _, address in future.result()]
        self._try_next(node, None)

    def _try_next(self, node: Node, error: OSError | None) -> None:
        """Tries the next address; without one the attempt has failed."""
        if node is not self._node:
            return
        self._drop_socket()
        if not self._addresses:
            self._lost(DisconnectedError(f"connection to {node} could not be established: {error}"))
            return
        family, address = self._addresses.pop(0)
        try:
            sock = self._socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as failure:
            # No descriptor is free, or the system does not know the family of this address.
            self._try_next(node, failure)
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._selector.receive_buffer_bytes >= 0:
            # Before the connection: the window that TCP announces at its beginning depends on it.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._selector.receive_buffer_bytes)
        try:
            code = sock.connect_ex(address)
        except OverflowError as failure:
            # A number that no port has: what a broker says of others is not to be relied on.
            self._try_next(node, OSError(errno.EADDRNOTAVAIL, str(failure)))
            return
        if code in _UNDER_WAY:
            self._selector.loop.add_writer(sock, self._on_connected, node)
        else:
            self._connected(node, code)

    def _on_connected(self, node: Node) -> None:
        sock = self._socket
        assert sock is not None
        self._selector.loop.remove_writer(sock)
        self._connected(node, sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _connected(self, node: Node, code: int) -> None:
        sock = self._socket
        assert sock is not None
        if code:
            self._try_next(node, OSError(code, os.strerror(code)))
            return
        context = self._selector.tls()
        if context is not None:
            self._begin_handshake(node, sock, context)
        else:
            self._established(sock)

    def _begin_handshake(self, node: Node, sock: socket.socket, context: "ssl.SSLContext") -> None:
        # Only clients of TLS load it.
        from barnabas.network.tls_client import TlsHandshake  # noqa: PLC0415

        try:
            handshake = TlsHandshake(sock, context, node.host, self._selector.loop, self._shaken)
        except (OSError, ValueError) as error:
            # A name that no certificate can have, or a socket that the node has closed already.
            self._lost(DisconnectedError(f"connection to {node} could not be established: {error}"))
            return
        self._socket, self._handshake = handshake.socket, handshake
        handshake.go_on()

    def _shaken(self, error: Exception | None) -> None:
        """The TLS handshake is over."""
        self._handshake = None
        sock = self._socket
        assert sock is not None
        if error is not None:
            self._lost(error)
        else:
            self._established(sock)

    def _established(self, sock: socket.socket) -> None:
        self._channel = KafkaChannel(sock, self._selector.loop, self._selector.threads, self)
        self._reader = self._selector.new_reader(self._response_bytes_max)
        self._low_water = LowWater(sock)
        self._selector.loop.add_reader(sock, self._on_readable)
        self._link.established(self._selector.clock.monotonic_ms())

    def _on_readable(self) -> None:
        sock, reader, low_water = self._socket, self._reader, self._low_water
        assert sock is not None
        assert reader is not None
        assert low_water is not None
        try:
            count = sock.recvmsg_into(reader.buffers())[0]
            frames = reader.received(count) if count else []
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(self._read_error(error))
            return
        if not count:
            self._lost(DisconnectedError(f"node {self._link.node} closed the connection"))
            return
        low_water.expect(reader.missing)
        now = self._selector.clock.monotonic_ms()
        for frame in frames:
            self._link.received(frame, now)
            if self._reader is not reader:
                # What a frame led to has ended this connection.
                return
        pending = getattr(sock, "pending", None)
        if pending is not None and pending():
            # TLS has taken more from the socket than was read: the poller will not say so.
            self._selector.schedule(self._on_decrypted)
        if reader.problem is not None:
            self._lost(
                DisconnectedError(f"node {self._link.node} sent what is no response: {reader.problem}")
            )

    def _read_error(self, error: OSError) -> Exception:
        if getattr(error, "reason", None) and self._link.state.state is not ConnectionState.READY:
            # TLS 1.3: the node looks at this client's certificate when the client's handshake is over.
            return SslAuthenticationError(f"SSL handshake failed: {handshake_words(error)}")
        return DisconnectedError(f"connection to {self._link.node} was lost: {error}")

    def _on_decrypted(self) -> None:
        if self._channel is not None:
            self._on_readable()

    def _flush_collected(self) -> None:
        channel = self._channel
        if channel is None or not self._collected or not self.writable():
            return
        collected, self._collected = self._collected, []
        channel.push(collected)
        try:
            outcome = channel.flush()
        except OSError as error:
            self.send_failed(error)
            return
        if outcome is not Flush.DRAINED:
            channel.wait(outcome)

    def flushed(self, outcome: Flush) -> None:
        if outcome is Flush.DRAINED:
            self._flush_collected()
            self._link.advance(self._selector.clock.monotonic_ms())

    def send_failed(self, error: Exception) -> None:
        self._lost(DisconnectedError(f"connection to {self._link.node} was lost: {error}"))

    def _lost(self, error: Exception) -> None:
        events.debug("client.disconnected", node=self._link.node.id, reason=error)
        self.close()
        self._link.lost(error, self._selector.clock.monotonic_ms())

    def _drop_socket(self) -> None:
        sock, self._socket = self._socket, None
        if sock is None:
            return
        if self._selector.loop.is_closed():
            # It watches nothing any more.
            self._handshake = None
        elif self._channel is not None:
            self._channel.close()
            self._selector.loop.remove_reader(sock)
        elif self._handshake is not None:
            self._handshake.cancel()
            self._handshake = None
        else:
            # It was connecting.
            self._selector.loop.remove_writer(sock)
        sock.close()
        self._channel = self._reader = self._low_water = None

    def __repr__(self) -> str:
        return f"<NodeChannel {'open' if self._socket is not None else 'closed'} {self._link}>"


def completed(pending: Pending[Any]) -> "asyncio.Future[Any]":
    """The outcome of a Pending, to be awaited. The Pending is not cancelled with the wait."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def resolve(done: Pending[Any]) -> None:
        if future.done() or future.get_loop().is_closed():
            return
        if done.error is not None:
            future.set_exception(done.error)
        else:
            future.set_result(done.result())

    pending.when_done(resolve)
    return future


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
