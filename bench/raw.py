"""A raw client: one blocking socket and frames that were made beforehand.

It costs as little as Python can, so that a ratio is about the brokers and not about the client. What was
answered is checked where it costs nothing: an answer of another length, an error in any checked response,
or a last offset that does not match what was sent fails the measurement.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Self

from bench import wire


class RawClient:
    """One connection to one broker."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        # A time-out of Python's own would ask the kernel before each receive.
        for direction in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, direction, struct.pack("@ll", 60, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(2**16)

    def close(self) -> None:
        """Closes the connection."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, frame: bytes) -> memoryview:
        """Sends a frame and returns the answer without its length, valid until the next call."""
        self.socket.sendall(frame)
        (length,) = struct.unpack(">i", self.receive(4))
        return self.receive(length)

    def receive(self, size: int) -> memoryview:
        """So many bytes, valid until the next call."""
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)
        done = 0
        while done < size:
            got = self.socket.recv_into(view[done:size])
            if not got:
                raise ConnectionError("the broker closed the connection")
            done += got
        return view[:size]

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Creates it; raises RuntimeError for an error code."""
        error = wire.created_error(topic, self.ask(wire.create_topic(topic, partitions)))
        if error:
            raise RuntimeError(f"creating {topic} was answered with error code {error}")

    def base_offset_of_one(self, topic: str, records: bytes) -> int:
        """The offset that one more batch is given; raises RuntimeError for an error code."""
        shape = wire.ProduceResponse(topic)
        self.socket.sendall(wire.produce(topic, records))
        return shape.base_offset(bytes(self.receive(shape.size)))

    def produce_bytes(self, topic: str, records: bytes, total: int, window: int = 5) -> int:
        """Sends batches with `window` in flight (the default of Kafka's producer) until `total` bytes
        are acknowledged; the bytes.
        """
        frame, shape = wire.produce(topic, records), wire.ProduceResponse(topic)
        batches = -(-total // len(records))
        for sent in range(batches + window):
            if sent < batches:
                self.socket.sendall(frame)
            if sent >= window:
                shape.base_offset(bytes(self.receive(shape.size)))
        return batches * len(records)

    def consume_bytes(self, topic: str, total: int, max_bytes: int = 2**20) -> int:
        """Fetches from the first offset on until `total` bytes of records came; the bytes."""
        offset = done = 0
        while done < total:
            records = wire.fetched_records(topic, self.ask(wire.fetch(topic, offset, max_bytes)))
            after = wire.next_offset(records, offset)
            if after == offset:
                raise RuntimeError(f"nothing to fetch at offset {offset} after {done} bytes")
            offset, done = after, done + len(records)
        return done


def produce_in_turn(
    clients: Sequence[RawClient], topic: str, records: bytes, seconds: float
) -> tuple[int, float]:
    """One request in flight on the first connection, for so long;
    (requests, seconds), every answer checked.
    """
    frame, shape = wire.produce(topic, records), wire.ProduceResponse(topic)
    send, receive, size = clients[0].socket.sendall, clients[0].socket.recv, shape.size
    requests, first = 0, None
    started = now = time.perf_counter()
    while now - started < seconds:
        for _ in range(50):
            send(frame)
            offset = shape.base_offset(receive(size, socket.MSG_WAITALL))
            first = offset if first is None else first
        requests += 50
        now = time.perf_counter()
    _check_offsets(first, offset, requests)
    return requests, now - started


def produce_p99_ms(client: RawClient, records: bytes, until: Callable[[], bool]) -> float:
    """The p99 of a producer that sends to the topic `first` again 2 ms after each answer, beside other work;
    `until` is asked between two of its requests, 20 times a second.
    """
    frame, taken, asked = wire.produce("first", records), list[float](), time.perf_counter()
    while True:
        started = time.perf_counter()
        client.ask(frame)
        taken.append(time.perf_counter() - started)
        if started > asked + 0.05:
            if until():
                return sorted(taken)[int(len(taken) * 0.99)] * 1000
            asked = started
        time.sleep(0.002)


class _Window:
    """One connection's requests: how many are free to be sent, how far the next answer has come."""

    def __init__(self, client: RawClient, frames: memoryview, frame_size: int, answer_size: int) -> None:
        self._socket, self._frames = client.socket, frames
        self._frame_size, self._answer_size = frame_size, answer_size
        self._free = len(frames) // frame_size
        self._part_of_answer = 0
        self._into = bytearray(2**16)

    def send(self, refill: int) -> int:
        """Sends all that are free if they are at least `refill`; how many were sent."""
        sending = self._free if self._free >= refill else 0
        if sending:
            self._socket.sendall(self._frames[: sending * self._frame_size])
        self._free -= sending
        return sending

    def receive(self) -> int:
        """Reads once; how many answers that completed."""
        received = self._socket.recv_into(self._into)
        if not received:
            raise ConnectionError("the broker closed the connection")
        answers, self._part_of_answer = divmod(self._part_of_answer + received, self._answer_size)
        self._free += answers
        return answers


def produce_in_flight(
    clients: Sequence[RawClient], topic: str, records: bytes, seconds: float, window: int, refill: int = 1
) -> tuple[int, float]:
    """Keeps up to `window` requests in flight on each connection; (requests, seconds).

    A connection sends again as soon as `refill` answers have come: 1 is a client that does so at every read.
    """
    frame, answer_size = wire.produce(topic, records), wire.ProduceResponse(topic).size
    frames = memoryview(frame * window)
    windows = {client.socket.fileno(): _Window(client, frames, len(frame), answer_size) for client in clients}
    first = clients[0].base_offset_of_one(topic, records) + 1
    sent = answered = 0
    with select.epoll() as poll:
        for descriptor in windows:
            poll.register(descriptor, select.EPOLLIN)
        started = time.perf_counter()
        ready = [*windows.values()]
        while True:
            if time.perf_counter() - started < seconds:
                sent += sum(one.send(refill) for one in ready)
            if answered == sent:
                break
            ready = [windows[descriptor] for descriptor, _ in poll.poll()]
            answered += sum(one.receive() for one in ready)
        took = time.perf_counter() - started
    # A failed request would be missing among the offsets.
    _check_offsets(first, clients[0].base_offset_of_one(topic, records) - 1, sent)
    return sent, took


def _check_offsets(first: int | None, last: int, requests: int) -> None:
    if first is None or last - first + 1 != requests:
        raise RuntimeError(f"{requests} records were sent, but offsets {first}..{last} were given")
