"""`Replay`: what was decoded of a partition, put back into its shard by the storey that wrote it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.coordinator.decoding import MARKER, OFFSETS, Step
from barnabas.coordinator.shard import Shard
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.groups import ConsumerGroups
    from barnabas.coordinator.offsets.manager import OffsetManager

_events: Final = EventLog("coordinator.replay")

_CONSUMER_TYPES: Final = frozenset({3, 4, 5, 6, 7, 8, 16})
"""The records of groups that the coordinator assigns (KIP-848)."""


class Replay:
    """Replays one shard's partition; told of each step in the order of the log."""

    __slots__ = ("_classic", "_consumer", "_offsets", "_passed_over", "records", "shard")

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
        self._passed_over: set[int] = set()

    def step(self, step: Step) -> None:
        """Takes in one step."""
        kind, producer_id, content = step
        if kind == OFFSETS:
            self._replay_offsets(content, producer_id)
            self.records += len(content)
        elif kind == MARKER:
            self._offsets.replay_marker(self.shard, producer_id, committed=content)
        else:
            self._replay_records(content)
            self.records += len(content)

    def _replay_offsets(self, entries: Sequence[Any], producer_id: int) -> None:
        for group, topic, partition, journal_offset, value in entries:
            self._offsets.replay(
                self.shard,
                OffsetCommitKey(group=group, topic=topic, partition=partition),
                None
                if value is None
                else OffsetCommitValue(
                    offset=value[0],
                    leader_epoch=value[1],
                    metadata=value[2],
                    commit_timestamp=value[3],
                    expire_timestamp=value[4],
                ),
                producer_id=producer_id,
                journal_offset=journal_offset,
            )

    def _replay_records(self, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            try:
                self._replay_record(key, value)
            except UnknownRecordTypeError as error:
                self._pass_over(error.record_type)
            except BarnabasError as error:
                _events.error("load.record_unreadable", partition=self.shard.partition, reason=error)

    def _replay_record(self, key_bytes: bytes, value_bytes: bytes | None) -> None:
        key, value = CONSUMER_OFFSETS.decode(key_bytes, value_bytes)
        if isinstance(key, GroupMetadataKey):
            self._classic.replay(self.shard, key, cast("GroupMetadataValue | None", value))
        elif self._consumer is not None and key.record_type in _CONSUMER_TYPES:
            self._consumer.replay(self.shard, key, value)
        elif not isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            self._pass_over(key.record_type)

    def _pass_over(self, record_type: int) -> None:
        """Kafka 3.9 does the same: the records stay in the partition for a coordinator that knows them."""
        if record_type not in self._passed_over:
            self._passed_over.add(record_type)
            _events.warning("load.unknown_records", partition=self.shard.partition, type=record_type)

    def __repr__(self) -> str:
        return f"<Replay {self.shard!r} records={self.records}>"
