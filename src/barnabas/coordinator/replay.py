"""`Replay`: what was decoded of a partition, put back into its shard by the storey that wrote it."""

from sys import intern
from typing import TYPE_CHECKING, Final, cast

from barnabas.coordinator.decoding import Step
from barnabas.coordinator.shard import Shard
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue, UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.groups import ConsumerGroups
    from barnabas.coordinator.offsets.manager import OffsetManager

_events: Final = EventLog("coordinator.replay")

_CONSUMER_TYPES: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
"""The records of groups that the coordinator assigns (KIP-848)."""
_LEGACY_OFFSET_KEY: Final = LegacyOffsetCommitKey.record_type.to_bytes(2, "big")


class Replay:
    """Replays one shard's partition; told of each step in the order of the log."""

    __slots__ = ("_classic", "_consumer", "_offsets", "_partitions", "_passed_over", "records", "shard")

    def __init__(
        self,
        shard: Shard,
        classic: "ClassicGroups",
        consumer: "ConsumerGroups | None",
        offsets: "OffsetManager",
    ) -> None:
        self.shard = shard
        self.records = 0
        self._classic = classic
        self._consumer = consumer
        self._offsets = offsets
        self._partitions: dict[str, dict[int, TopicPartition]] = {}
        self._passed_over: set[int] = set()

    def step(self, step: Step) -> None:
        """Takes in one step."""
        producer_id, content = step
        if isinstance(content, bool):
            self._offsets.replay_marker(self.shard, producer_id, committed=content)
            return
        for piece in content:
            if len(piece) == 4:
                group, topic, partitions, commits = piece
                tps = self._named(topic, partitions)
                self._offsets.restore(
                    self.shard, group, zip(tps, commits, strict=True), producer_id=producer_id
                )
                self.records += len(commits)
            else:
                self._replay_record(*piece, producer_id)
                self.records += 1

    def _named(self, topic: str, partitions: list[int]) -> list[TopicPartition]:
        """One object for each partition: many groups have offsets in the same ones."""
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = {}
        for partition in partitions:
            if partition not in known:
                known[partition] = TopicPartition(intern(topic), partition)
        return [known[partition] for partition in partitions]

    def _replay_record(
        self, journal_offset: int, key_bytes: bytes, value_bytes: bytes | None, producer_id: int
    ) -> None:
        try:
            key, value = _decoded(key_bytes, value_bytes)
        except UnknownRecordTypeError as error:
            self._pass_over(error.record_type)
            return
        except ProtocolError as error:
            self._unreadable(journal_offset, error)
            return
        try:
            self._apply(key, value, journal_offset, producer_id)
        except Exception as error:
            # It says what cannot be (two members of one id, say). One group must not cost all the others.
            self._unreadable(journal_offset, error)

    def _unreadable(self, journal_offset: int, error: Exception) -> None:
        _events.error(
            "load.record_unreadable",
            partition=self.shard.partition,
            offset=journal_offset,
            reason=repr(error),
        )

    def _apply(
        self, key: CoordinatorKey, value: CoordinatorValue | None, journal_offset: int, producer_id: int
    ) -> None:
        if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            self._offsets.replay(
                self.shard,
                key,
                cast("OffsetCommitValue | None", value),
                producer_id=producer_id,
                journal_offset=journal_offset,
            )
        elif isinstance(key, GroupMetadataKey):
            self._classic.replay(self.shard, key, cast("GroupMetadataValue | None", value))
        elif self._consumer is not None and key.record_type in _CONSUMER_TYPES:
            self._consumer.replay(self.shard, key, value)
        else:
            self._pass_over(key.record_type)

    def _pass_over(self, record_type: int) -> None:
        """Kafka 3.9 does the same: the records stay in the partition for a coordinator that knows them."""
        if record_type not in self._passed_over:
            self._passed_over.add(record_type)
            _events.warning("load.unknown_records", partition=self.shard.partition, type=record_type)

    def __repr__(self) -> str:
        return f"<Replay {self.shard!r} records={self.records}>"


def _decoded(key: bytes, value: bytes | None) -> tuple[CoordinatorKey, CoordinatorValue | None]:
    if key.startswith(_LEGACY_OFFSET_KEY):
        # Brokers of old wrote values of later versions behind the first kind of key too, and 3.9 reads them.
        commit = None if value is None else OffsetCommitValue.from_bytes(value)
        return LegacyOffsetCommitKey.from_bytes(key), commit
    return CONSUMER_OFFSETS.decode(key, value)
