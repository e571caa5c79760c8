"""`Plan`: what a request will come to, made without touching the group, then written, then applied.

Theory of operation
-------------------
A plan collects records in Kafka's order and what is to happen beside them (timers), and remembers what the
group will be: its epoch, its subscriptions. `Writer` appends the records, which may be refused, and then
nothing has happened; after that it applies them through the functions that loading uses, and only then lets
the timers follow. The answer goes out when the replicas have the records.

An answer without records tells of state that earlier records made, so it waits for the last of them
(``CoordinatorRuntime``: a write without records is a read, and reads wait). Where that one came to nothing, its
replicas may have it or not; then the group's epoch is written once more, and what confirms this confirms all
before it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.records import group_epoch
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS, CoordinatorRecord
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from barnabas.coordinator.consumer.topics import TopicDescription

T = TypeVar("T")

_TOLD: Final[Mapping[ErrorCode, ErrorCode]] = {
    **COORDINATOR_WORDS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members are told when the log refuses records (``CoordinatorOperationExceptionHelper``)."""


class Plan:
    """Records for one group; the group may be one that does not exist yet."""

    __slots__ = ("afterwards", "effects", "epoch", "group", "records", "subscriptions", "topics")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.effects: list[Callable[[ConsumerGroup], object]] = []
        """What follows for the group as it is once the records are applied."""
        self.afterwards: list[Callable[[], object]] = []
        """What follows for others: answers to the parked, a rebalance of a group that became a classic one."""
        self.epoch = group.epoch
        self.subscriptions = group.subscriptions
        self.topics: Mapping[str, TopicDescription] = group.subscription_metadata

    def __repr__(self) -> str:
        return f"<Plan for {self.group!r} records={len(self.records)}>"


class Writer:
    """Appends and applies plans; `replay_classic` applies records of groups of the other kind."""

    def __init__(
        self, replay_classic: Callable[[Shard, GroupMetadataKey, GroupMetadataValue | None], object]
    ) -> None:
        self._replay_classic = replay_classic

    def write(self, shard: Shard, plan: Plan, answer: T) -> T | Pending[T]:
        """The answer, once it holds. Raises KafkaError with what the member is to be told, and then nothing
        has changed.
        """
        if not plan.records:
            _follow_up(shard, plan)
            return _once_confirmed(shard, plan.group, answer)
        appended = _append(shard, plan.records)
        for record in plan.records:
            self.apply(shard, record)
        group = shard.groups.get(plan.group.group_id)
        if isinstance(group, ConsumerGroup):
            group.last_write = appended
        _follow_up(shard, plan)
        return _when_acknowledged(appended, answer)

    def apply(self, shard: Shard, record: CoordinatorRecord) -> None:
        """Lets the state follow one record."""
        if isinstance(record.key, GroupMetadataKey):
            value = record.value
            assert value is None or isinstance(value, GroupMetadataValue), record
            self._replay_classic(shard, record.key, value)
        else:
            replay_record(shard, record.key, record.value)


def _follow_up(shard: Shard, plan: Plan) -> None:
    group = shard.groups.get(plan.group.group_id)
    if isinstance(group, ConsumerGroup):
        for effect in plan.effects:
            effect(group)
    for follow_up in plan.afterwards:
        follow_up()


def _append(shard: Shard, records: list[CoordinatorRecord]) -> Pending[int]:
    try:
        return shard.journal.append(records)
    except KafkaError as refused:
        raise _told(refused) from refused


def _once_confirmed(shard: Shard, group: ConsumerGroup, answer: T) -> T | Pending[T]:
    """The answer, once everything that the group wrote is with the replicas."""
    last = group.last_write
    if last is None:
        return answer
    if last.done:
        if last.error is None:
            group.last_write = None
            return answer
        last = group.last_write = _append(shard, [group_epoch(group.group_id, group.epoch)])
    return _when_acknowledged(last, answer)


def _told(error: KafkaError) -> KafkaError:
    code = _TOLD.get(error.code)
    return error if code is None else KafkaError(code)


def _when_acknowledged(appended: Pending[int], answer: T) -> Pending[T]:
    acknowledged: Pending[T] = Pending()

    def settle(done: Pending[int]) -> None:
        if done.error is None:
            acknowledged.complete(answer)
        else:
            acknowledged.fail(_told(done.error) if isinstance(done.error, KafkaError) else done.error)

    appended.when_done(settle)
    return acknowledged
