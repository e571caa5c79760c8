"""What a test may look at and wait for: the records, groups, leaders and znodes of brokers."""

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from barnabas.admin import Admin, GroupDescription, GroupState
from barnabas.client import Consumer, ConsumerRecord, ErrorCode, KafkaError, TopicPartition
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
        bootstrap_servers,
        isolation_level="read_committed" if committed else "read_uncommitted",
        auto_offset_reset="earliest",
    ) as consumer:
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        while any(consumer.position(tp) < end.offset for tp, end in ends.items()):
            for record in consumer.poll(timeout_ms=_POLL_MS):
                found[TopicPartition(record.topic, record.partition)].append(record)
    return [record for tp in wanted for record in found[tp]]


def group_in(
    admin: Admin, group: str, state: str | GroupState, members: int | None, timeout_s: float
) -> GroupDescription:
    """The group, once it is in that state with so many members.

    Raises AssertionError when it is not in time, ValueError for a state that is none.
    """
    wanted = state if isinstance(state, GroupState) else GroupState.parse(state)
    if wanted is GroupState.UNKNOWN:
        raise ValueError(f"state={state!r}: groups are {', '.join(GroupState)}")

    def look() -> GroupDescription | None:
        try:
            description: GroupDescription = admin.groups.describe(group)[group]
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return None  # not yet
        return description

    def is_there(seen: GroupDescription | None) -> bool:
        return seen is not None and seen.state is wanted and members in (None, len(seen.members))

    what = f"group {group} {wanted}" + ("" if members is None else f" with {members} members")
    found = until(look, is_there, timeout_s, what)
    assert found is not None, "it is there"
    return found


def leader_of(admin: Admin, topic: str, partition: int) -> int:
    """The broker that leads a partition; -1 for none."""
    leader: int = admin.topics.describe(topic)[topic].partitions[partition].leader
    return leader


def move_leader(admin: Admin, topic: str, partition: int, broker: int, timeout_s: float) -> None:
    """Makes a broker the leader of a partition, and its replica if it is none; returns when it leads.

    Raises KafkaError, and AssertionError when it does not lead in time.
    """
    tp = TopicPartition(topic, partition)
    replicas = admin.topics.describe(topic)[topic].partitions[partition].replicas
    others = [each for each in replicas if each != broker]
    admin.partitions.reassign({tp: [broker, *(others if broker in replicas else others[:-1])]})
    until(
        lambda: admin.partitions.reassignments([tp]),
        lambda moves: not moves,
        timeout_s,
        f"the end of the reassignment of {tp}",
    )
    admin.partitions.elect_leaders([tp])
    until(
        lambda: leader_of(admin, topic, partition),
        lambda leader: leader == broker,
        timeout_s,
        f"broker {broker} as the leader of {tp}",
    )


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
