"""`TopicAdmin`: creates and deletes topics by writing znodes (``ZkAdminManager``, ``AdminZkClient``).

What a topic may be is decided here and nowhere else. Nothing here speaks to brokers: the controller watches
the znodes and does the rest. So a topic is *created* for the caller when its znodes are written; a handler
that answers a client waits until its partitions have leaders.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster.leadership import ReplicaAssignment, TopicAssignment
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.configs import check_config_size
from barnabas.cluster.metadata.cordoned import (
    CordonedBrokers,
    all_cordoned,
    cordoned_error,
    none_cordoned,
)
from barnabas.cluster.metadata.new_partitions import create_partitions, topic_payload
from barnabas.cluster.metadata.placement import BrokerRack, assign_replicas
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from barnabas.core.config import Config
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, Uuid, is_topic_name, random_uuid, topics_collide, validate_topic_name
from barnabas.core.pending import Steps, steps
from barnabas.core.topic_config import topic_config

_events: Final = EventLog("cluster.topics")

UNSET: Final = -1
"""As a number of partitions or a replication factor: the broker's default."""

Assignment = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    num_partitions: int = UNSET
    replication_factor: int = UNSET
    assignments: Assignment = field(default_factory=dict)
    """The brokers of each partition, instead of the two numbers."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was written, or would have been."""

    name: str
    topic_id: Uuid
    """The zero UUID when it was only validated."""
    assignments: Assignment
    config: Config

    @property
    def num_partitions(self) -> int:
        """The number of its partitions."""
        return len(self.assignments)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of its first partition."""
        return len(self.assignments[0])


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """What the broker's configuration says for topics that do not."""

    num_partitions: int
    replication_factor: int
    config: Config
    """As `barnabas.core.topic_config.topic_defaults` gives it."""


def not_counted(_partitions: int) -> None:
    """As `count` of a `TopicAdmin`'s methods: nobody wants to know what they make or remove."""


class TopicAdmin:
    """Writes topics into the store.

    `count` is called with the partitions that are about to be made or removed, and may refuse them with a
    KafkaError (``ControllerMutationQuota.record``).
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: MetadataCache,
        defaults: TopicDefaults,
        chooser: random.Random,
        cordoned: CordonedBrokers = none_cordoned,
    ) -> None:
        self._store = store
        self._cordoned = cordoned
        self._cache = cache
        self.defaults = defaults
        """Replaced when the broker's configuration changes."""
        self._chooser = chooser
        self._being_written: list[str] = []
        """The names of topics whose znodes are on their way:
        those of one request are created side by side.
        """

    # ----------------------------------------------------------------------------------------- create

    @steps
    def create(
        self, topic: NewTopic, *, validate_only: bool = False, count: Callable[[int], None] = not_counted
    ) -> Steps[CreatedTopic]:
        """Writes a topic, or only says whether it could be written. Raises KafkaError with Kafka's words."""
        # The order of the checks is Kafka's: it decides which of several errors the client hears of.
        if topic.name in self._cache:
            raise _exists(topic.name)
        configs = _without_nulls(topic.configs)
        check_config_size(configs)
        assignments = self._place(topic, (yield self._cordoned()))
        yield self._validate_name(topic.name)
        _validate_assignment(assignments)
        try:
            config = topic_config(self.defaults.config, configs)
        except ConfigError as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
        topic_id = ZERO_UUID
        if not validate_only:
            count(len(assignments))
            topic_id = random_uuid(self._chooser)
            # Nothing has suspended since the name was looked at: who looks from now on sees it here, or in
            # the store.
            self._being_written.append(topic.name)
            try:
                yield self._write(topic.name, topic_id, assignments, configs)
            finally:
                self._being_written.remove(topic.name)
        return CreatedTopic(topic.name, topic_id, assignments, config)

    def _place(self, topic: NewTopic, cordoned: Collection[int]) -> Assignment:
        if topic.assignments:
            if (topic.num_partitions, topic.replication_factor) != (UNSET, UNSET):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            for replicas in topic.assignments.values():
                if error := cordoned_error(replicas, cordoned):
                    raise error
            return topic.assignments
        defaults = self.defaults
        factor = (
            defaults.replication_factor if topic.replication_factor == UNSET else topic.replication_factor
        )
        brokers = [broker for broker in self._brokers() if broker.id not in cordoned]
        if cordoned and not brokers:
            raise all_cordoned(factor)
        return assign_replicas(
            brokers,
            partitions=defaults.num_partitions if topic.num_partitions == UNSET else topic.num_partitions,
            replication_factor=factor,
            chooser=self._chooser,
        )

    def _brokers(self) -> list[BrokerRack]:
        return sorted(BrokerRack(broker.id, broker.rack) for broker in self._cache.alive_brokers())

    @steps
    def create_partitions(
        self,
        topic: str,
        total: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
        count: Callable[[int], None] = not_counted,
    ) -> Steps[int]:
        """Has a topic grow to `total` partitions; how many it has then.
        Fails with KafkaError and Kafka's words.
        """
        cordoned = yield self._cordoned()
        partitions: int = yield create_partitions(
            self._store,
            self._brokers(),
            cordoned,
            topic,
            total,
            assignments,
            validate_only=validate_only,
            count=count,
        )
        return partitions

    @steps
    def _validate_name(self, name: str) -> Steps[None]:
        """``validateTopicCreate``, the part that asks the store:
        the name is legal, free, and collides with none.
        """
        validate_topic_name(name)
        if (yield self._store.exists(znodes.delete_topic_path(name))) is not None:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
        if (yield self._store.exists(znodes.topic_path(name))) is not None:
            raise _exists(name)
        if "." in name or "_" in name:
            others = [*(yield self._store.children(znodes.TOPICS)), *self._being_written]
            colliding = [other for other in others if other != name and topics_collide(name, other)]
            if colliding:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
                )

    @steps
    def _write(
        self, name: str, topic_id: Uuid, assignments: Assignment, configs: Mapping[str, str]
    ) -> Steps[None]:
        partitions = {
            partition: ReplicaAssignment(tuple(replicas))
            for partition, replicas in sorted(assignments.items())
        }
        config = znodes.encode_config(configs)
        payload = topic_payload(TopicAssignment(topic_id, partitions), beside=len(config))
        try:
            yield self._write_together(name, payload, config)
        except NodeExistsError as error:
            raise _exists(name) from error
        _events.info("topic_written", topic=name, partitions=len(partitions))

    @steps
    def _write_together(self, name: str, payload: bytes, config: bytes) -> Steps[None]:
        """Configuration and topic in one transaction: a broker that sees the topic finds its configuration,
        and of two creators of one name the loser does not overwrite the winner's.
        """
        path = znodes.config_path("topics", znodes.sanitize(name))
        while True:
            # An earlier topic of that name, or a tool, may have left a configuration.
            left = yield self._store.exists(path)
            put: Operation = SetData(path, config) if left else Create(path, config)
            try:
                yield self._store.multi([put, Create(znodes.topic_path(name), payload)])
            except (NodeExistsError, NoNodeError) as error:
                if error.index != 0:
                    raise
                if (yield self._store.exists(path)) == left:
                    raise  # it did not change under our hands
                continue
            return

    # ----------------------------------------------------------------------------------------- delete

    @steps
    def delete(self, name: str, *, count: Callable[[int], None] = not_counted) -> Steps[None]:
        """Marks a topic for deletion; marking it again is no error. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        count(len(self._cache.partitions(name)))
        if not is_topic_name(name) or (yield self._store.exists(znodes.topic_path(name))) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic `{name}` to delete does not exist")
        try:
            yield self._store.create(znodes.delete_topic_path(name))
        except NodeExistsError:
            _events.debug("topic_marked_already", topic=name)


def _exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _without_nulls(configs: Mapping[str, str | None]) -> dict[str, str]:
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    return {name: value for name, value in configs.items() if value is not None}


def _validate_assignment(assignments: Assignment) -> None:
    if len({len(replicas) for replicas in assignments.values()}) != 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same number of replicas"
        )
    if any(len(replicas) != len(set(replicas)) for replicas in assignments.values()):
        listed = ", ".join(
            f"{partition} -> ArrayBuffer({', '.join(map(str, replicas))})"
            for partition, replicas in assignments.items()
        )
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Duplicate replica assignment found: HashMap({listed})"
        )
    # Kafka with ZooKeeper takes any id, as of a broker that is still to come. No broker can have one below
    # zero, and a topic's znode that names one is unreadable.
    negative = sorted({broker for replicas in assignments.values() for broker in replicas if broker < 0})
    if negative:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, negative))}.",
        )
    if sorted(assignments) != list(range(len(assignments))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
