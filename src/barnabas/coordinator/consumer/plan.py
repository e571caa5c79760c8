"""What the functions over consumer groups share: what they stand on, and how they write.

Theory of operation
-------------------
A `Plan` collects records in Kafka's order, what is to happen beside them (timers), and what the group will
be: its epoch, its subscriptions, its topics. Planning changes nothing. `write` appends the records, which may
be refused, and then nothing has happened; after that it applies them through the functions that loading uses,
and only then runs the plan's effects. The answer goes out when the replicas have the records.

An answer without records shows state that earlier records made, so it waits for the last of them
(``CoordinatorRuntime``: a write without records is a read, and reads wait). If that last write failed, its
replicas may have it or not. Then the group's epoch is written once more, and what confirms this record
confirms all before it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from barnabas.coordinator.classic.groups import ClassicGroups
from barnabas.coordinator.consumer.assignors import ASSIGNORS, assignor_name
from barnabas.coordinator.consumer.group import ConsumerGroup
from barnabas.coordinator.consumer.records import group_epoch
from barnabas.coordinator.consumer.replay import replay_record
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS, CoordinatorRecord
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import Uuid
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue

if TYPE_CHECKING:
    from barnabas.coordinator.consumer.topics import TopicDescription, TopicsImage

T = TypeVar("T")

_CLIENT_CODES: Final[Mapping[ErrorCode, ErrorCode]] = {
    **COORDINATOR_WORDS,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""What members get when the log refuses records (``CoordinatorOperationExceptionHelper``)."""


class ConsumerRuntime:
    """What consumer groups stand on; the groups themselves live in their shards."""

    def __init__(
        self,
        classic: ClassicGroups,
        group_configs: GroupConfigManager,
        clock: Clock,
        topics: "TopicsImage",
    ) -> None:
        """Groups come from those of the `classic` protocol and return to them."""
        self.classic = classic
        self.settings = settings = classic.settings
        self.new_uuid = classic.new_uuid
        self.group_configs = group_configs
        self.clock = clock
        self.topics = topics
        names = [assignor_name(configured) for configured in settings.consumer_assignors]
        self.assignors = {name: ASSIGNORS[name] for name in names}
        self.default_assignor = names[0]
        self.matched_topics: set[str] = set()
        """Topics that regular expressions have been matched against."""
        self.new_topics_ms = clock.time_ms()
        """When there last were topics that no expression had been matched against."""

    def __repr__(self) -> str:
        return f"<ConsumerRuntime assignors={list(self.assignors)}>"


class Plan:
    """Records for one group; the group may be one that does not exist yet."""

    __slots__ = ("afterwards", "effects", "epoch", "group", "records", "subscriptions", "topics")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.records: list[CoordinatorRecord] = []
        self.effects: list[Callable[[ConsumerGroup], object]] = []
        """What follows for the group as it is once the records are applied."""
        self.afterwards: list[Callable[[], object]] = []
        """What follows for others: answers to the parked, a rebalance of a group that became a classic one.
        """
        self.epoch = group.epoch
        self.subscriptions = group.subscriptions
        self.topics: Mapping[str, TopicDescription] = group.subscription_metadata

    def topic_ids(self, names: Iterable[str]) -> frozenset[Uuid]:
        topics = self.topics
        return frozenset(topics[name].id for name in names if name in topics)

    def __repr__(self) -> str:
        return f"<Plan for {self.group!r} records={len(self.records)}>"


def write(runtime: ConsumerRuntime, shard: Shard, plan: Plan, answer: T) -> T | Pending[T]:
    """The answer, once it holds. Raises KafkaError with the client's code, and then nothing has changed."""
    # A read: it shows what earlier writes made, so it is answered when these are confirmed.
    if not plan.records:
        _run_effects(shard, plan)
        return _once_confirmed(shard, plan.group, answer)
    # Refused: the group, its members and their timers are as they were.
    appended = _append(shard, plan.records)
    # The log has taken the records. Groups change now, through what a load would call for the same records.
    for record in plan.records:
        # A conversion writes records of both kinds of group.
        if isinstance(record.key, GroupMetadataKey):
            assert record.value is None or isinstance(record.value, GroupMetadataValue), record
            runtime.classic.replay(shard, record.key, record.value)
        else:
            replay_record(shard, record.key, record.value)
    group = shard.groups.get(plan.group.group_id)
    if isinstance(group, ConsumerGroup):
        group.last_write = appended
    _run_effects(shard, plan)
    return _when_acknowledged(appended, answer)


def _run_effects(shard: Shard, plan: Plan) -> None:
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
        raise _client_error(refused) from refused


def _once_confirmed(shard: Shard, group: ConsumerGroup, answer: T) -> T | Pending[T]:
    """The answer, once the replicas have everything that the group wrote."""
    last = group.last_write
    if last is None:
        return answer
    # The last write has ended. If it succeeded the replicas have all, and no later read has to look.
    if last.done:
        if last.error is None:
            group.last_write = None
            return answer
        # The last write failed after its append (too few replicas, a time-out): this record changes nothing,
        # and its confirmation counts for all before it.
        last = group.last_write = _append(shard, [group_epoch(group.group_id, group.epoch)])
    return _when_acknowledged(last, answer)


def _when_acknowledged(appended: Pending[int], answer: T) -> Pending[T]:
    acknowledged: Pending[T] = Pending()

    def settle(done: "Pending[int]") -> None:
        if done.error is None:
            acknowledged.complete(answer)
        else:
            acknowledged.fail(_client_error(done.error) if isinstance(done.error, KafkaError) else done.error)

    appended.when_done(settle)
    return acknowledged


def _client_error(error: KafkaError) -> KafkaError:
    code = _CLIENT_CODES.get(error.code)
    return error if code is None else KafkaError(code)
