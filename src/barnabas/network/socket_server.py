"""The listeners of a broker: sockets that accept connections, their limits, and an orderly end.

Theory of operation
-------------------
`SocketServer.bind` binds and listens, so that ports are known before the broker registers itself;
`SocketServer.start` begins to accept (``SocketServer`` has the same two steps). When ``max.connections`` is
reached, ordinary listeners stop accepting until a connection ends; the inter-broker listener still accepts,
and the connection that has been idle for longest on another listener is closed for it (KIP-402). A listener
whose connections come faster than ``max.connection.creation.rate`` rests until they do not (KIP-612). Limits
and listeners may change while the server runs: `reconfigure`, `bind` and `remove`.

Connections leave a reserve of descriptors to the logs and the store (`core.descriptors`). While fewer are
free, a new connection is accepted and closed at once, so that its client goes elsewhere or tries again
instead of waiting in the backlog for a time-out; a listener that refuses rests after each lot, so a flood
costs little. What other errors of accept say of one connection is that connection's end; any that says more
makes the listener rest.

`SocketServer.share` opens a second socket for a listener, at a port that other processes of this machine
share: its connections are the listener's in everything, and the system gives each new one to any of the
processes. While this one may have no more connections it leaves that port to the others: what the system gave
it would wait in its backlog. Connections that wait there already are reset, and their clients come again.

One sweep looks for idle connections: it clears each connection's `active` mark, and closes one whose mark
stayed clear for ``connections.max.idle.ms``. A connection that waits for its response is not idle.
"""

import asyncio
import contextlib
import errno
import heapq
import math
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from barnabas.core.clock import Clock, Timer
from barnabas.core.descriptors import Descriptors
from barnabas.core.eventlog import EventLog
from barnabas.network.address_rates import AddressRates
from barnabas.network.connection import Connection
from barnabas.network.endpoints import Endpoint
from barnabas.network.peer import ListenerId, Service
from barnabas.network.plain_connection import PlainConnection
from barnabas.network.processor import Processor
from barnabas.network.quotas import ConnectionQuotas
from barnabas.network.sasl.server import SaslListener
from barnabas.network.settings import SocketSettings

if TYPE_CHECKING:
    from barnabas.network.tls import TlsListener

events = EventLog("network")

_ACCEPTS_A_TURN: Final = 64
_ACCEPT_TURN_MS: Final = 2.0
_OF_ONE_CONNECTION: Final = {
    errno.ECONNABORTED,
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENOPROTOOPT,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EPROTO,
    errno.ETIMEDOUT,
}
"""Errors of accept that came in with a connection, which has ended with it (accept(2), and firewalls)."""
_ACCEPT_PAUSE_MS: Final = 1000
_REFUSAL_PAUSE_MS: Final = 20
_REFUSALS_LOGGED_MS: Final = 10_000
"""How often one log line says how many connections were refused."""
_SHARE_AGAIN_MS: Final = 5_000
_THROTTLED_MAX: Final = 1000
"""Connections beyond the rate of their addresses that are kept open; more are closed at once."""
_SWEEPS_PER_IDLE_TIME: Final = 10
_SWEPT_A_TURN: Final = 100


class Acceptor:
    """The socket of one listener."""

    __slots__ = ("_accepting", "_rest_timer", "_server", "_socket", "endpoint", "id", "protected")

    def __init__(
        self, server: "SocketServer", endpoint: Endpoint, sock: socket.socket, *, protected: bool
    ) -> None:
        self.endpoint = endpoint
        self.id = ListenerId(endpoint.name, endpoint.security_protocol)
        self.protected = protected
        """Whether it still accepts when the broker has all the connections it may have."""
        self._server = server
        self._socket = sock
        self._accepting = False
        self._rest_timer: Timer | None = None

    @property
    def address(self) -> str:
        """Where it is bound, without the port."""
        host, _, *more = self._socket.getsockname()
        return f"{host}%{more[1]}" if more and more[1] else str(host)  # the zone of IPv6, where it has one

    def accept(self) -> None:
        if not self._accepting and self._rest_timer is None:
            self._accepting = True
            self._server.loop.add_reader(self._socket, self._on_connections)

    def pause(self) -> None:
        """Leaves further connections in the system's backlog."""
        if self._accepting:
            self._accepting = False
            self._server.loop.remove_reader(self._socket)

    def close(self) -> None:
        self.pause()
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        self._socket.close()

    def _on_connections(self) -> None:
        server = self._server
        turn_over = server.clock.monotonic_ms() + _ACCEPT_TURN_MS
        for _ in range(_ACCEPTS_A_TURN):
            if not server.make_room(self):
                server.full(self)
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _OF_ONE_CONNECTION:
                    continue
                events.error("network.accept_failed", listener=self.id.name, reason=error)
                self._rest(_ACCEPT_PAUSE_MS)
                return
            if server.is_too_fast(sock, address[0]):
                continue
            if server.spare_descriptor(self):
                server.accepted(self, sock, address)
                if throttle_ms := server.throttle_ms(self):
                    self._rest(throttle_ms)
            else:
                sock.close()
                server.refused(self)
                self._rest(_REFUSAL_PAUSE_MS)
            if server.clock.monotonic_ms() >= turn_over:
                return

    def _rest(self, delay_ms: float) -> None:
        """Accepts nothing for a while."""
        if self._rest_timer is None:
            self.pause()
            self._rest_timer = self._server.clock.call_later(delay_ms, self._rested)

    def end_rest(self) -> None:
        """Other limits count from now on, so what it rests for may not."""
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def _rested(self) -> None:
        self._rest_timer = None
        self._server.accept_again()

    def __repr__(self) -> str:
        return f"<Acceptor {self.endpoint} {'accepting' if self._accepting else 'not accepting'}>"


class SocketServer:
    """All listeners of one broker, and their connections. Belongs to the running event loop."""

    def __init__(
        self,
        clock: Clock,
        settings: SocketSettings | None = None,
        *,
        inter_broker_listener: str | None = None,
        address_rates: AddressRates | None = None,
    ) -> None:
        """`address_rates` are the limits of single addresses, if there may be any."""
        self.clock = clock
        self.settings = settings or SocketSettings()
        self.loop = asyncio.get_running_loop()
        self.listeners: dict[str, Acceptor] = {}
        self._shared: dict[str, Acceptor] = {}
        """By the names of the listeners that they stand for."""
        self._left_ports: dict[str, int] = {}
        """Shared ports that are left to other processes until there is room for a connection."""
        self._share_timer: Timer | None = None
        """Until a port that could not be shared again is tried the next time."""
        self._share_failed = False
        self._unshared = False
        self._full_logged_ms = -math.inf
        self.connections: dict[Connection, None] = {}
        self.processor = Processor(clock, self.settings)
        self._tls: dict[str, TlsListener] = {}
        self._inter_broker_listener = inter_broker_listener
        self.quotas = ConnectionQuotas(
            self.settings, clock.monotonic_ms, inter_broker_listener=inter_broker_listener
        )
        self._address_rates = address_rates
        self._throttled: set[socket.socket] = set()
        """Connections that came too fast from their address, until they are closed (``throttledSockets``)."""
        self._descriptors = Descriptors(clock, self.settings.reserved_descriptors)
        self._refused = 0
        self._refusals_logged_ms = -math.inf
        self._sweep_timer: Timer | None = None
        self._started = False
        self._emptied = asyncio.Event()

    def secure(
        self, listener: str, sasl: SaslListener | None = None, tls: "TlsListener | None" = None
    ) -> None:
        """How the connections of a listener, which is bound next, are protected."""
        if tls is None:
            self._tls.pop(listener, None)
        else:
            self._tls[listener] = tls
        if sasl is None:
            self.processor.sasl.pop(listener, None)
        else:
            self.processor.sasl[listener] = sasl

    def renew(self, listener: str, tls: "TlsListener") -> None:
        """New connections of an open listener get these keys and certificates."""
        current = self._tls[listener]
        current.context, current.principal_of = tls.context, tls.principal_of

    def bind(self, endpoint: Endpoint) -> Endpoint:
        """Listens on the endpoint; the endpoint with its real port. A server that has started accepts from
        now on.

        Raises OSError with a text that names the listener.
        """
        sock = self._listen(endpoint)
        bound = endpoint.with_port(sock.getsockname()[1])
        protected = endpoint.name == self._inter_broker_listener
        acceptor = self.listeners[bound.name] = Acceptor(self, bound, sock, protected=protected)
        self.quotas.add_listener(bound.name)
        if self._started:
            acceptor.accept()
        return bound

    def share(self, name: str, port: int) -> Endpoint:
        """Listens for a bound listener at another port too, which other processes of this user may share.
        Raises OSError as `bind` does.
        """
        own = self.listeners[name]
        endpoint = own.endpoint.with_port(port)
        # By its address: a broker that is full opens the port again and again, and a name would be looked up
        # on the loop each time.
        sock = self._listen(replace(endpoint, host=own.address), shared=True)
        acceptor = self._shared[name] = Acceptor(self, endpoint, sock, protected=own.protected)
        if self._started:
            acceptor.accept()
        return endpoint

    def move_shared(self, name: str, port: int) -> None:
        """Has the shared port stand for this listener and no other, now or as soon as that succeeds.
        Connections that came by it stay. Nothing where the listener is not open, and after `unshare`.
        """
        if self._unshared or name not in self.listeners or name in {**self._shared, **self._left_ports}:
            return
        while self._shared:
            self._shared.popitem()[1].close()
        self._left_ports = {name: port}
        self.accept_again()

    def unshare(self) -> None:
        """Leaves the shared ports to the other processes, for good. Connections that came by them stay."""
        self._unshared = True
        self._left_ports.clear()
        while self._shared:
            self._shared.popitem()[1].close()

    def probe(self, endpoint: Endpoint) -> None:
        """Raises OSError as `bind` would, and leaves nothing open."""
        self._listen(endpoint).close()

    def _listen(self, endpoint: Endpoint, *, shared: bool = False) -> socket.socket:
        try:
            return _listening_socket(endpoint, self.settings, shared=shared)
        except (OSError, UnicodeError) as error:
            # Kafka's words (Acceptor.openServerSocket). A name that no name server could know is a
            # UnicodeError.
            where = f"{endpoint.host or '0.0.0.0'}:{endpoint.port}"
            number, why = (
                (error.errno, error.strerror) if isinstance(error, OSError) else (errno.EINVAL, error)
            )
            raise OSError(number, f"Socket server failed to bind to {where}: {why}.") from error

    def remove(self, name: str, grace_ms: float = 1000) -> None:
        """Closes a listener: its connections get what they are owed, for at most `grace_ms`
        (``removeListeners``).
        """
        listener = self.listeners.pop(name)
        listener.close()
        self._left_ports.pop(name, None)
        if (shared := self._shared.pop(name, None)) is not None:
            shared.close()
        self.quotas.remove_listener(name)
        leaving = [each for each in self.connections if each.listener == listener.id]
        for connection in leaving:
            connection.drain()

        def close() -> None:
            for connection in leaving:
                connection.close()

        self.clock.call_later(grace_ms, close)

    def reconfigure(self, settings: SocketSettings) -> None:
        """Goes by other limits of connections from now on:
        closes those that are too many (``closeExcessConnections``).
        """
        self.quotas.reconfigure(settings)
        self._displace(None, self.quotas.excess)
        for listener in self._acceptors():
            listener.end_rest()
        self.accept_again()

    def start(self, service: Service) -> None:
        """Begins to accept connections on every bound listener; the service answers their requests."""
        self.processor.service = service
        self._started = True
        self.accept_again()
        if self.settings.idle_ms_max >= 0:
            self._schedule_sweep()

    def accept_again(self) -> None:
        """Every listener accepts (again), as far as there is room."""
        if not self._started:
            return
        for listener in self._acceptors():
            listener.accept()
        for name, port in [*self._left_ports.items()]:
            if self.quotas.has_slot(name):
                self._share_again(name, port)

    def _share_again(self, name: str, port: int) -> None:
        try:
            self.share(name, port)
        except OSError as error:
            # Somebody has it for themselves, or the system has no descriptor: that may end. Until then
            # clients have the broker's own port.
            if self._share_timer is None:
                if not self._share_failed:
                    events.error("network.shared_port_lost", listener=name, port=port, reason=error)
                self._share_failed = True
                self._share_timer = self.clock.call_later(_SHARE_AGAIN_MS, self._look_for_shared_port)
        else:
            self._share_failed = False
            del self._left_ports[name]

    def _look_for_shared_port(self) -> None:
        self._share_timer = None
        self.accept_again()

    def _acceptors(self) -> Iterator[Acceptor]:
        yield from self.listeners.values()
        yield from self._shared.values()

    async def stop(self, grace_ms: float = 1000) -> None:
        """Closes the listeners, sends what is owed for at most `grace_ms`, closes all connections."""
        self._started = False
        for listener in self._acceptors():
            listener.close()
        for timer in (self._sweep_timer, self._share_timer):
            if timer is not None:
                timer.cancel()
        for connection in list(self.connections):
            connection.drain()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), grace_ms / 1000)
        for connection in list(self.connections):
            connection.close()
        for sock in self._throttled:
            sock.close()
        self.processor.stop()
        # What was closed is gone from the loop in its next turn.
        await asyncio.sleep(0)

    def make_room(self, listener: Acceptor) -> bool:
        """Whether the listener may accept one more connection;
        closes an idle one for a protected listener.
        """
        if not self.quotas.has_slot(listener.id.name):
            return False
        if self.quotas.full:
            self._displace(listener)
        return True

    def full(self, listener: Acceptor) -> None:
        """There is no room for a connection that waits: it waits on, or goes to another process where others
        share the port.
        """
        name, port = listener.id.name, listener.endpoint.port
        if self._shared.get(name) is not listener:
            listener.pause()
            return
        del self._shared[name]
        listener.close()
        self._left_ports[name] = port
        now = self.clock.monotonic_ms()
        if now - self._full_logged_ms >= _REFUSALS_LOGGED_MS:
            self._full_logged_ms = now
            events.warning(
                "network.shared_port_left",
                listener=name,
                port=port,
                connections=len(self.connections),
                mend="raise max.connections, or leave the port to the other brokers until some end",
            )

    def throttle_ms(self, listener: Acceptor) -> float:
        """How long the listener rests after the connection that it has accepted, for the rate at which they
        come.
        """
        return self.quotas.throttle_ms(listener.id.name)

    def is_too_fast(self, sock: socket.socket, host: str) -> bool:
        """Whether a connection comes before its address may have another. It is closed then, and stays open
        until it could have come: a client that tries again at once is slower for it
        (``ConnectionThrottledException``).
        """
        if self._address_rates is None:
            return False
        throttle_ms = self._address_rates.throttle_ms(_plain_host(host))
        if not throttle_ms:
            return False
        if len(self._throttled) < _THROTTLED_MAX and self._descriptors.has_room():
            self._throttled.add(sock)
            self.clock.call_later(throttle_ms, lambda: self._end_throttle(sock))
        else:
            sock.close()
        return True

    def _end_throttle(self, sock: socket.socket) -> None:
        self._throttled.discard(sock)
        sock.close()

    def spare_descriptor(self, listener: Acceptor) -> bool:
        """Whether enough descriptors are left for a connection that the listener has accepted.

        Closes an idle connection of another listener where the inter-broker listener needs its descriptor.
        """
        return self._descriptors.has_room() or (listener.protected and self._displace(listener))

    def _displace(self, favoured: Acceptor | None, count: int = 1) -> bool:
        """Closes the connections that are idle for longest, if there are any: none of the favoured listener,
        and none of the one for brokers while there is another.
        """
        kept = {each.id for each in self.listeners.values() if each.protected and len(self.listeners) > 1}
        others = [
            each
            for each in self.connections
            if each.listener not in kept and (favoured is None or each.listener != favoured.id)
        ]
        # Marks say "since the last sweep", which is as exact as closing an idle connection has to be.
        victims = heapq.nsmallest(count, others, key=lambda each: (each.active, each.idle_since_ms))
        for victim in victims:
            events.info("network.connection_displaced", peer=victim.address[0], listener=victim.listener.name)
            victim.close()
        return bool(victims)

    def refused(self, listener: Acceptor) -> None:
        """A connection was refused for want of descriptors: one line a while says so."""
        self._refused += 1
        now = self.clock.monotonic_ms()
        if now - self._refusals_logged_ms < _REFUSALS_LOGGED_MS:
            return
        events.warning(
            "network.connections_refused",
            listener=listener.id.name,
            count=self._refused,
            connections=len(self.connections),
            descriptors_max=self._descriptors.limit,
            reserved=self._descriptors.reserve,
            mend="raise the limit of open files (ulimit -n), or close connections",
        )
        self._refused = 0
        self._refusals_logged_ms = now

    def accepted(self, listener: Acceptor, sock: socket.socket, address: tuple[str, int]) -> None:
        """A new connection: counted, configured, and put to work. One too many is closed."""
        host = _plain_host(address[0])
        if not self.quotas.admit(listener.id.name, host):
            events.info("network.too_many_connections", address=host, listener=listener.id.name)
            sock.close()
            return
        try:
            _configure(sock, self.settings)
            connection = self._connection(listener.id, sock, (host, address[1]))
        except OSError as error:
            # Its peer has closed it already, or the system has no memory for it.
            events.debug("network.connection_lost", peer=host, listener=listener.id.name, reason=error)
            self.quotas.release(listener.id.name, host)
            sock.close()
            return
        connection.idle_since_ms = self.clock.monotonic_ms()
        self.connections[connection] = None
        self._emptied.clear()

    def _connection(self, listener: ListenerId, sock: socket.socket, address: tuple[str, int]) -> Connection:
        tls = self._tls.get(listener.name)
        if tls is None:
            return PlainConnection(self.processor, listener, address, self._closed, sock)
        # TLS is loaded only where a listener speaks it.
        from barnabas.network.tls import TlsConnection  # noqa: PLC0415

        return TlsConnection(self.processor, listener, address, self._closed, sock, tls)

    def _closed(self, connection: Connection) -> None:
        name = connection.listener.name
        was_full = self.quotas.full or not self.quotas.has_slot(name)
        self.connections.pop(connection, None)
        self.quotas.release(name, connection.address[0])
        if was_full:
            self.accept_again()
        if not self.connections:
            self._emptied.set()

    def _schedule_sweep(self) -> None:
        delay = max(1.0, self.settings.idle_ms_max / _SWEEPS_PER_IDLE_TIME)
        self._sweep_timer = self.clock.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._sweep_some(list(self.connections), 0)

    def _sweep_some(self, connections: list[Connection], start: int) -> None:
        """Sweeps a lot of connections, and the rest in later turns:
        closing thousands at once would hold the loop.
        """
        now = self.clock.monotonic_ms()
        end = start + _SWEPT_A_TURN
        for connection in connections[start:end]:
            if not connection.open:
                continue
            if connection.active or connection.conversation.waiting:
                connection.active = False
                connection.idle_since_ms = now
            elif now - connection.idle_since_ms >= self.settings.idle_ms_max:
                events.debug("network.connection_idle", peer=connection.address[0])
                connection.close()
            else:
                connection.look_closer()
        if not self._started:
            return
        if end < len(connections):
            self.loop.call_soon(self._sweep_some, connections, end)
        else:
            self._schedule_sweep()

    def __repr__(self) -> str:
        return f"<SocketServer {list(self.listeners.values())} connections={len(self.connections)}>"


def _listening_socket(endpoint: Endpoint, settings: SocketSettings, *, shared: bool) -> socket.socket:
    host = endpoint.host or None
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or "0.0.0.0", endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if settings.receive_buffer_bytes != -1:
            # Before listen: accepted sockets inherit it, and the window scale with it.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(settings.listen_backlog)
    except OSError:
        sock.close()
        raise
    return sock


def _configure(sock: socket.socket, settings: SocketSettings) -> None:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer that vanished without a word is noticed by the system, hours later.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.send_buffer_bytes != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)


def _plain_host(host: str) -> str:
    """An IPv4 address that came in through an IPv6 socket, as IPv4."""
    return host.removeprefix("::ffff:") if "." in host else host
