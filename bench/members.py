"""Members of consumer groups, many of them, without a client library: frames written by hand.

A crowd shares blocking connections, several members on each. What is asked of all is sent to all first and
read afterwards, so that thousands of members need neither threads nor an event loop. Every answer is checked
for its error code.

    JoinGroup v2   group:str session_ms:i32 rebalance_ms:i32 member:str type:str [protocol:str metadata:bytes]
    SyncGroup v1   group:str generation:i32 member:str [member:str assignment:bytes]
    Heartbeat v1   group:str generation:i32 member:str
    LeaveGroup v1  group:str member:str
"""

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import Final

from bench import wire

JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP = 11, 14, 12, 13
REBALANCE_IN_PROGRESS: Final = 27
COORDINATOR_NOT_READY: Final = frozenset({14, 15, 16})
LATE_S: Final = 0.02
SUBSCRIPTION: Final = struct.pack(">hi", 0, 1) + wire.string("first") + struct.pack(">i", -1)
ASSIGNMENT: Final = struct.pack(">hii", 0, 0, -1)


class Member:
    """One member: its group, its connection, what the coordinator answered."""

    def __init__(self, group: str, connection: socket.socket) -> None:
        self.group = group
        self.connection = connection
        self.id = ""
        self.generation = -1
        self.is_leader = False
        self.others: list[str] = []
        self.heartbeat = b""

    def send_join(self) -> None:
        """Asks to be in the next generation."""
        body = wire.string(self.group) + struct.pack(">ii", 60_000, 60_000) + wire.string(self.id)
        body += wire.string("consumer") + struct.pack(">i", 1) + wire.string("range") + _bytes(SUBSCRIPTION)
        self.connection.sendall(wire.request(JOIN_GROUP, 2, body))

    def read_joined(self) -> int:
        """Takes in the generation; the error code."""
        answer = Reader(read_frame(self.connection), 8)
        error, self.generation = answer.unpack(">hi")
        answer.string()
        leader, self.id = answer.string(), answer.string()
        self.is_leader = leader == self.id
        (count,) = answer.unpack(">i")
        self.others = [answer.member() for _ in range(count)]
        return error

    def send_sync(self) -> None:
        """Hands in the assignment, if it is the leader, and asks for its own."""
        body = wire.string(self.group) + struct.pack(">i", self.generation) + wire.string(self.id)
        body += struct.pack(">i", len(self.others))
        body += b"".join(wire.string(member) + _bytes(ASSIGNMENT) for member in self.others)
        self.connection.sendall(wire.request(SYNC_GROUP, 1, body))
        body = wire.string(self.group) + struct.pack(">i", self.generation) + wire.string(self.id)
        self.heartbeat = wire.request(HEARTBEAT, 1, body)

    def read_synced(self) -> int:
        """The error code of the answer."""
        return _error(read_frame(self.connection))

    def send_heartbeat(self) -> None:
        """Says that it is alive."""
        self.connection.sendall(self.heartbeat)

    def read_heartbeat(self) -> int:
        """The error code of the answer."""
        return _error(read_frame(self.connection))

    def send_leave(self) -> None:
        """Leaves its group."""
        self.connection.sendall(wire.request(LEAVE_GROUP, 1, wire.string(self.group) + wire.string(self.id)))

    def read_left(self) -> int:
        """The error code of the answer."""
        return _error(read_frame(self.connection))


class Reader:
    """Reads an answer from front to back."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at

    def unpack(self, shape: str) -> tuple[int, ...]:
        """The next numbers."""
        values = struct.unpack_from(shape, self.data, self.at)
        self.at += struct.calcsize(shape)
        return values

    def string(self) -> str:
        """The next string."""
        (length,) = self.unpack(">h")
        self.at += max(length, 0)
        return self.data[self.at - max(length, 0) : self.at].decode()

    def member(self) -> str:
        """The id of the next member in the answer to a leader's JoinGroup."""
        member = self.string()
        (length,) = self.unpack(">i")
        self.at += length
        return member


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _error(frame: bytes) -> int:
    return int(struct.unpack_from(">h", frame, 8)[0])


def read_frame(connection: socket.socket) -> bytes:
    """The next answer, without its length."""
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size)
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker closed the connection")
        data += more
    return data


def connect(port: int, count: int) -> list[socket.socket]:
    """So many connections."""
    connections = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=120)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connections.append(connection)
        # Brokers listen with a backlog of 50; a connection beyond it is tried again after a second.
        time.sleep(0.0005)
    return connections


def wait_for_coordinator(port: int, groups: Iterable[str], seconds: float = 60) -> None:
    """Returns when the coordinator of each group answers (the internal topic exists and is loaded)."""
    (connection,) = connect(port, 1)
    deadline = time.monotonic() + seconds
    with connection:
        for group in groups:
            # FindCoordinator makes the topic; a heartbeat of an unknown member shows whether the shard is
            # there.
            while True:
                connection.sendall(wire.request(10, 1, wire.string(group) + b"\0"))
                ready = not _error(read_frame(connection))
                if ready:
                    body = wire.string(group) + struct.pack(">i", 1) + wire.string("nobody")
                    connection.sendall(wire.request(HEARTBEAT, 1, body))
                    ready = _error(read_frame(connection)) not in COORDINATOR_NOT_READY
                if ready:
                    break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no coordinator for {group} within {seconds} s")
                time.sleep(0.02)


def form(members: Sequence[Member]) -> None:
    """All members join and sync; raises RuntimeError for an error code."""
    for member in members:
        member.send_join()
    for member in members:
        _expect(member.read_joined(), "JoinGroup")
    for member in members:
        member.send_sync()
    for member in members:
        _expect(member.read_synced(), "SyncGroup")


def leave(members: Sequence[Member]) -> None:
    """All members leave; raises RuntimeError for an error code."""
    for member in members:
        member.send_leave()
    for member in members:
        _expect(member.read_left(), "LeaveGroup")


def rejoin(members: Sequence[Member], newcomer: Member) -> float:
    """One more member comes: seconds until all have an assignment of the next generation."""
    started = time.perf_counter()
    newcomer.send_join()
    waiting = list(members)
    while waiting:
        for member in waiting:
            member.send_heartbeat()
        codes = [(member, member.read_heartbeat()) for member in waiting]
        told = [member for member, code in codes if code == REBALANCE_IN_PROGRESS]
        for member in told:
            member.send_join()
        waiting = [member for member, code in codes if code != REBALANCE_IN_PROGRESS]
    everybody = [*members, newcomer]
    for member in everybody:
        _expect(member.read_joined(), "JoinGroup")
    for member in sorted(everybody, key=lambda each: not each.is_leader):
        member.send_sync()
    for member in everybody:
        _expect(member.read_synced(), "SyncGroup")
    return time.perf_counter() - started


def beat(members: Sequence[Member], period_s: float, seconds: float) -> tuple[int, float]:
    """Every member sends a heartbeat a period, evenly spread; (how many were sent, seconds lost).

    The answer to a connection's last heartbeat is read before its next one is sent. What could not be sent in
    time, because the machine had no time for it, is lost and not made up for: a flood would be another
    measurement.
    """
    by_connection: dict[socket.socket, Member] = {}
    step = period_s / len(members)
    started = time.perf_counter()
    sent, lost = 0, 0.0
    while (now := time.perf_counter()) - started < seconds:
        due = started + sent * step
        if now < due:
            time.sleep(min(due - now, 0.002))
            continue
        if now - due > LATE_S:
            lost += now - due
            started += now - due
            seconds -= now - due
        member = members[sent % len(members)]
        before = by_connection.get(member.connection)
        if before is not None:
            _expect(before.read_heartbeat(), "Heartbeat")
        member.send_heartbeat()
        by_connection[member.connection] = member
        sent += 1
    for member in by_connection.values():
        _expect(member.read_heartbeat(), "Heartbeat")
    return sent, lost


def _expect(error: int, what: str) -> None:
    if error:
        raise RuntimeError(f"{what} was answered with error code {error}")
