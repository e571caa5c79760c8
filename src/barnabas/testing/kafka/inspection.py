"""What a test may look at: the records, groups and znodes that the brokers of a `Kafka` keep."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from barnabas.admin import Admin
from barnabas.client import Consumer, ConsumerRecord, TopicPartition
from barnabas.client.types import LATEST_TIMESTAMP
from barnabas.cluster.store.contract import NoNodeError
from barnabas.cluster.store.sqlite_table import Database

T = TypeVar("T")

_POLL_MS: Final = 500
_LOOK_S: Final = 0.01


def records_of(
    admin: Admin, bootstrap_servers: str, topic: str, partitions: Iterable[int] | None, isolation_level: str
) -> list[ConsumerRecord]:
    """All records of the partitions, each partition in its order, one partition after the other."""
    if partitions is None:
        partitions = range(len(admin.topics.describe(topic)[topic].partitions))
    wanted = [TopicPartition(topic, each) for each in partitions]
    committed = isolation_level == "read_committed"
    ends = admin.offsets.list(dict.fromkeys(wanted, LATEST_TIMESTAMP), read_committed=committed)
    found: dict[TopicPartition, list[ConsumerRecord]] = {tp: [] for tp in wanted}
    with Consumer(
        bootstrap_servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        while any(consumer.position(tp) < end.offset for tp, end in ends.items()):
            for record in consumer.poll(timeout_ms=_POLL_MS):
                found[TopicPartition(record.topic, record.partition)].append(record)
    return [record for tp in wanted for record in found[tp]]


def znode_of(store: Path, path: str) -> Any:
    """The value of a znode: JSON decoded, other data as text; raises KeyError where there is none."""
    database = Database.read_only(store)
    try:
        znode = database.find(path)
    finally:
        database.close()
    if znode is None:
        raise KeyError(path)
    if znode.data is None:
        return None
    text = znode.data.decode(errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def znodes_below(store: Path, path: str) -> list[str]:
    """The names below a path, sorted; raises KeyError where it is not."""
    database = Database.read_only(store)
    try:
        if database.find(path) is None:
            raise KeyError(path)
        return sorted(database.children(path))
    except NoNodeError:
        raise KeyError(path) from None
    finally:
        database.close()


def until(look: Callable[[], T], wanted: Callable[[T], bool], timeout_s: float, what: str) -> T:
    """What `look` sees once it is as `wanted`; raises AssertionError with what it saw last when time is
    over.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        seen = look()
        if wanted(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {timeout_s:g} s; at last there was {seen!r}")
        time.sleep(_LOOK_S)
