"""`GroupStateMachine`: what the records of ``__consumer_offsets`` mean (``GroupCoordinatorShard.replay``)."""

from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.coordinator.offsets.bulk import decode_commits
from barnabas.coordinator.offsets.commits import complete_transaction
from barnabas.coordinator.offsets.replay import place_groups, replay_commit, replay_commits
from barnabas.coordinator.runtime.journal import Journal
from barnabas.coordinator.shard import Shard
from barnabas.core.clock import Clock
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import GROUP_METADATA_TOPIC
from barnabas.core.pending import Steps, steps
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue, UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS

if TYPE_CHECKING:
    from barnabas.coordinator.classic.groups import ClassicGroups
    from barnabas.coordinator.consumer.groups import ConsumerGroups

_events: Final = EventLog("coordinator")

_BEHIND_ALL: Final = 2**63 - 1
"""The place of a marker that is replayed: all that was replayed so far lies before it."""
_LEGACY_OFFSET_KEY: Final = LegacyOffsetCommitKey.record_type.to_bytes(2, "big")


class GroupStateMachine:
    """Groups of both protocols, and offsets; implements `runtime.state_machine.StateMachine`."""

    topic = GROUP_METADATA_TOPIC
    load_task = "group-metadata-manager-0"
    bulk = staticmethod(decode_commits)

    def __init__(self, classic: "ClassicGroups", consumer: "ConsumerGroups | None", clock: Clock) -> None:
        self._classic = classic
        self._consumer = consumer
        self._clock = clock

    def new_shard(self, partition: int, leader_epoch: int, journal: Journal) -> Shard:
        return Shard(partition, leader_epoch, journal)

    def decode(self, key: bytes, value: bytes | None) -> tuple[CoordinatorKey, CoordinatorValue | None]:
        if key.startswith(_LEGACY_OFFSET_KEY):
            # Early brokers wrote values of later versions behind the first kind of key too, and 3.9 reads
            # them.
            commit = None if value is None else OffsetCommitValue.from_bytes(value)
            return LegacyOffsetCommitKey.from_bytes(key), commit
        return CONSUMER_OFFSETS.decode(key, value)

    def replay(
        self,
        shard: Shard,
        key: CoordinatorKey,
        value: CoordinatorValue | None,
        *,
        producer_id: int,
        journal_offset: int,
    ) -> None:
        if isinstance(key, (OffsetCommitKey, LegacyOffsetCommitKey)):
            commit = cast("OffsetCommitValue | None", value)
            replay_commit(shard, key, commit, producer_id=producer_id, journal_offset=journal_offset)
        elif isinstance(key, GroupMetadataKey):
            self._classic.replay(shard, key, cast("GroupMetadataValue | None", value))
        elif self._consumer is not None:
            self._consumer.replay(shard, key, value)
        else:
            raise UnknownRecordTypeError(self.topic, key.record_type)

    def replay_bulk(self, shard: Shard, piece: Any, *, producer_id: int, memo: dict[Any, Any]) -> int:
        return replay_commits(shard, piece, producer_id=producer_id, memo=memo)

    def replay_end_transaction_marker(self, shard: Shard, producer_id: int, *, committed: bool) -> None:
        complete_transaction(shard, producer_id, _BEHIND_ALL, committed=committed)

    def replay_unreadable(self, shard: Shard, key: bytes | None) -> None:
        """Passed over: a group continues from the offset that it committed before, and reads some records
        again. Kafka 3.9 would serve none of the partition's groups, and all begin where they never were.
        """

    @steps
    def loaded(self, shard: Shard) -> Steps[None]:
        """Groups that only kept offsets get a place among the groups; sessions begin."""
        yield place_groups(shard, self._clock, self._classic.create_simple)
        yield self._classic.loaded(shard)
        if self._consumer is not None:
            yield self._consumer.loaded(shard)

    def unloaded(self, shard: Shard) -> None:
        """Answers NOT_COORDINATOR to all who wait in a group; they find an empty shard."""
        groups = list(shard.groups.values())
        shard.groups.clear()
        shard.offsets.clear()
        shard.open_transactions.clear()
        for group in groups:
            group.close()
        _events.info("unload.finished", partition=shard.partition, groups=len(groups))

    def __repr__(self) -> str:
        return f"<GroupStateMachine consumer={self._consumer is not None}>"
