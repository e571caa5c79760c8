"""The replay: a year of flights in time order into a topic, in seconds.

A year in seconds means that milliseconds between partitions are days of event time. So the replay keeps them
together: after each `STRIDE_MS` of event time it waits until everything is stored. A reader that takes
all that there is then finds partitions at most two strides apart, and a watermark above that drops nothing.
One that takes a part takes it by the backlog of each partition: six days apart in the year, measured, and
checked in each run.
"""

import bisect
import functools
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from barnabas.client import Producer
from barnabas.client.partitioner import key_hash
from barnabas.core.ids import TopicPartition
from barnabas.spark.demo.data import FlightData

DAY_MS: Final = 86_400_000
STRIDE_MS: Final = 7 * DAY_MS
WATERMARK_MS: Final = 15 * DAY_MS
"""More than two strides."""
CLOSING_MS: Final = WATERMARK_MS + DAY_MS
"""How far behind the last flight the closing records lie: far enough to let every window out."""

PACE_S: Final = 0.1
"""A week takes at least as long, so that the streams work while the topic fills."""
_TICK: Final = 2_000


class FlightReplay:
    """Sends the flights and remembers which event time went to which partition."""

    def __init__(self, bootstrap_server: str, topic: str, partitions: int) -> None:
        self._bootstrap_server = bootstrap_server
        self._topic = topic
        self.sent: dict[int, list[int]] = {number: [] for number in range(partitions)}
        """Event times in ms by partition, in the order of offsets (one producer, so no gaps)."""
        self.history: list[tuple[datetime, int]] = []
        """How many flights were sent at which time, oldest first."""

    @property
    def count(self) -> int:
        """The flights that were sent."""
        return sum(map(len, self.sent.values()))

    def run(self, data: FlightData, tick: Callable[[int], object]) -> None:
        """Sends all flights; calls `tick` with the number of flights sent since the last call."""
        partition_of = functools.cache(lambda key: key_hash(key) % len(self.sent))
        barrier = waiting = 0
        next_s = 0.0
        self._note()
        with self._producer() as producer:
            for time_ms, key, value in data.messages():
                if time_ms >= barrier:
                    producer.flush()
                    time.sleep(max(0.0, next_s - time.monotonic()) if barrier else 0)
                    barrier, next_s = time_ms + STRIDE_MS, time.monotonic() + PACE_S
                producer.send(self._topic, value, key, timestamp_ms=time_ms)
                self.sent[partition_of(key)].append(time_ms)
                waiting += 1
                if waiting == _TICK:
                    self._note()
                    tick(waiting)
                    waiting = 0
            producer.flush()
        self._note()
        tick(waiting)

    def _note(self) -> None:
        self.history.append((datetime.now(UTC), self.count))

    def sent_by(self, moment: datetime) -> int:
        """The flights that were sent by then, from the notes before and after."""
        times = [at for at, _ in self.history]
        after = bisect.bisect_right(times, moment)
        if after in (0, len(times)):
            return self.history[after - 1][1] if after else 0
        (start, low), (end, high) = self.history[after - 1 : after + 1]
        return round(low + (high - low) * ((moment - start) / (end - start)))

    def close(self) -> None:
        """Sends the closing records. Only once all flights were read: they push the watermark beyond them."""
        last_ms = max(times[-1] for times in self.sent.values() if times)
        closing_ms = last_ms + CLOSING_MS
        text = datetime.fromtimestamp(closing_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._producer() as producer:
            for partition in self.sent:
                value = f'{{"event_time":"{text}","closing":true}}'
                producer.send(self._topic, value, partition=partition, timestamp_ms=closing_ms)

    def _producer(self) -> Producer:
        return Producer(self._bootstrap_server, linger_ms=5, batch_size=128 * 1024, client_id="demo-replay")

    def skew_ms(self, positions: Mapping[TopicPartition, int]) -> int:
        """How far apart in event time the partitions were for a reader at these positions.

        It is the distance from the youngest flight that was read back to the oldest one that was not: what
        the watermark must allow for.
        """
        read, unread = [], []
        for tp, offset in positions.items():
            times = self.sent[tp.partition]
            read += times[:offset][-1:]
            unread += times[offset : offset + 1]
        return max(0, max(read) - min(unread)) if read and unread else 0

    def __repr__(self) -> str:
        return f"<Replay {self._topic} {self.count} flights>"
