"""A raw client: one blocking socket and frames that were made beforehand.

It costs as little as Python can, so that a ratio is about the brokers and not about the client. What was
answered is checked where it costs nothing: an answer of another length, an error in any checked response,
or a last offset that does not match what was sent fails the measurement.
"""

import socket
import struct
import time
from typing import Self

from bench import wire


class RawClient:
    """One connection to one broker."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(64 * 2**20)

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
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def _receive(self, size: int) -> memoryview:
        view = memoryview(self._buffer)
        done = 0
        while done < size:
            got = self.socket.recv_into(view[done:size])
            if not got:
                raise ConnectionError("the broker closed the connection")
            done += got
        return view[:size]

    def create_topic(self, topic: str) -> None:
        """Creates it with one partition; raises RuntimeError for an error code."""
        error = wire.created_error(topic, self.ask(wire.create_topic(topic)))
        if error:
            raise RuntimeError(f"creating {topic} was answered with error code {error}")

    def produce_in_turn(self, topic: str, records: bytes, seconds: float) -> tuple[int, float]:
        """One request in flight, for so long; (requests, seconds) with every answer checked."""
        frame, shape = wire.produce(topic, records), wire.ProduceResponse(topic)
        send, receive, size = self.socket.sendall, self.socket.recv, shape.size
        requests, first = 0, None
        started = now = time.perf_counter()
        while now - started < seconds:
            for _ in range(50):
                send(frame)
                answer = receive(65536)
                while len(answer) < size:
                    answer += receive(65536)
                offset = shape.base_offset(answer)
                first = offset if first is None else first
            requests += 50
            now = time.perf_counter()
        _check_offsets(first, offset, requests)
        return requests, now - started

    def produce_in_flight(
        self, topic: str, records: bytes, seconds: float, window: int = 200
    ) -> tuple[int, float]:
        """Keeps `window` requests in flight; (requests, seconds)."""
        frames = wire.produce(topic, records) * window
        frame_size, shape = len(frames) // window, wire.ProduceResponse(topic)
        view, size = memoryview(frames), shape.size
        first = self._base_offset_of_one(topic, records, shape) + 1
        started = time.perf_counter()
        deadline = started + seconds
        self.socket.sendall(view)
        sent, answered, received, rest = window, 0, 0, b""
        while answered < sent:
            piece = self.socket.recv(262_144)
            if not piece:
                raise ConnectionError("the broker closed the connection")
            received += len(piece)
            rest = (rest + piece)[-size:]
            fresh = received // size - answered
            answered += fresh
            if fresh and time.perf_counter() < deadline:
                self.socket.sendall(view[: fresh * frame_size])
                sent += fresh
        took = time.perf_counter() - started
        _check_offsets(first, shape.base_offset(rest), sent)
        return sent, took

    def _base_offset_of_one(self, topic: str, records: bytes, shape: wire.ProduceResponse) -> int:
        self.socket.sendall(wire.produce(topic, records))
        return shape.base_offset(bytes(self._receive(shape.size)))

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
                shape.base_offset(bytes(self._receive(shape.size)))
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


def _check_offsets(first: int | None, last: int, requests: int) -> None:
    if first is None or last - first + 1 != requests:
        raise RuntimeError(f"{requests} records were sent, but offsets {first}..{last} were given")
