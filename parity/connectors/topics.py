"""What is in the topics that the jobs read: the same on each broker, to the millisecond."""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BASE_MS: Final = 1_600_000_000_000
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
MIXED, TIMES, SHORT, COMPACTED, APPENDED, LEFT, RIGHT = (
    "mixed", "times", "short", "compacted", "appended", "left", "right",
)  # fmt: skip
DELETED_TO: Final = 40
_WAIT_S: Final = 60
_WARNINGS: Final = 4
"""librdkafka's level (syslog's): an ended client tells of its queue at level 6."""


def make(bootstrap: str) -> None:
    """Creates and fills them."""
    compact = {
        "cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "1", "delete.retention.ms": "1",
    }  # fmt: skip
    create(bootstrap, {MIXED: 3, TIMES: 2, SHORT: 1, LEFT: 2, RIGHT: 2, "set-one": 1, "set-two": 2})
    create(bootstrap, {f"codec-{codec}": 1 for codec in CODECS})
    create(bootstrap, {APPENDED: 1}, {"message.timestamp.type": "LogAppendTime"})
    create(bootstrap, {COMPACTED: 1}, compact)
    fill(bootstrap, MIXED, 300, _mixed, 3)
    fill(bootstrap, TIMES, 200, lambda number: (f"k{number}", f"{number}", []), 2)
    fill(bootstrap, SHORT, 100, plain, 1)
    fill(bootstrap, APPENDED, 10, plain, 1)
    for topic in ("set-one", "set-two"):
        # Both functions are called at once.
        fill(bootstrap, topic, 20, lambda number: (None, f"{topic}-{number}", []), 1)  # noqa: B023
    for topic, step in ((LEFT, 1), (RIGHT, 3)):
        fill(bootstrap, topic, 60, lambda number: (f"{number * step}", f"{topic}{number}", []), 2)  # noqa: B023
    for codec in CODECS:
        fill(bootstrap, f"codec-{codec}", 50, lambda number: (f"k{number}", "x" * number, []), 1, codec)
    fill(bootstrap, COMPACTED, 400, lambda number: (f"k{number % 25}", f"{number}" * 5, []), 1)
    delete_records(bootstrap, SHORT, DELETED_TO)
    _wait_for_the_cleaner(bootstrap)


def create(bootstrap: str, partitions: dict[str, int], config: dict[str, str] | None = None) -> None:
    """Creates topics by name and number of partitions, which keep their records for ever:
    those are of 2020.
    """
    kept = {"retention.ms": "-1", **(config or {})}
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": _WARNINGS})
    new = [NewTopic(name, number, 1, config=kept) for name, number in partitions.items()]
    for made in admin.create_topics(new).values():
        made.result(30)


def delete_records(bootstrap: str, topic: str, to: int) -> None:
    """Deletes the records of partition 0 below an offset."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": _WARNINGS})
    for deleted in admin.delete_records([TopicPartition(topic, 0, to)]).values():
        deleted.result(30)


def delete(bootstrap: str, topic: str) -> None:
    """Deletes a topic; returns when the broker does not list it any more."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": _WARNINGS})
    admin.delete_topics([topic])[topic].result(30)
    deadline = time.monotonic() + _WAIT_S
    while topic in admin.list_topics(timeout=30).topics:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{topic} is still there")
        time.sleep(0.1)


def fill(
    bootstrap: str,
    topic: str,
    count: int,
    record: Callable[[int], tuple[str | None, str | None, list[Any]]],
    partitions: int,
    codec: str = "none",
    first: int = 0,
) -> None:
    """Sends records, a second of event time apart, round the partitions."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "batch.num.messages": 20,
            "linger.ms": 50,
            "log_level": _WARNINGS,
        }
    )
    for number in range(first, first + count):
        key, value, headers = record(number)
        producer.produce(
            topic, value, key, number % partitions, timestamp=BASE_MS + 1000 * number, headers=headers
        )
    if producer.flush(_WAIT_S):
        raise RuntimeError(f"{topic} could not be filled")


def plain(number: int) -> tuple[None, str, list[Any]]:
    """A record with a value alone."""
    return None, f"{number}", []


def _mixed(number: int) -> tuple[str | None, str | None, list[Any]]:
    key = None if number % 7 == 0 else f"key-{number % 40}"
    value = None if number % 11 == 0 else "" if number % 13 == 0 else json.dumps({"number": number})
    headers = [("a", b"%d" % number), ("a", None), ("ü", b"")] if number % 5 == 0 else []
    return key, value, headers


def _wait_for_the_cleaner(bootstrap: str) -> None:
    """Until the compacted topic has holes; then nothing in it changes any more but by new records."""
    deadline = time.monotonic() + _WAIT_S
    while (left := _count(bootstrap, COMPACTED)) > 100:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{COMPACTED} still has {left} records")
        time.sleep(0.5)


def _count(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "count", "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = 0
        while (message := consumer.poll(10)) is not None and not message.error():
            found += 1
        return found
    finally:
        consumer.close()
