"""`Replay`: what was decoded of a partition, handed to the state machine
(``CoordinatorLoaderImpl.doLoad``).
"""

from typing import Any, Final, Generic

from barnabas.coordinator.runtime.decoding import RECORD_PIECE_LENGTH, Step
from barnabas.coordinator.runtime.state_machine import S, StateMachine
from barnabas.core.eventlog import EventLog
from barnabas.protocol.coordinator.record import UnknownRecordTypeError

_events: Final = EventLog("coordinator.replay")


class Replay(Generic[S]):
    """One shard while its partition is read, step by step in the order of the log."""

    __slots__ = ("_memo", "_passed_over", "machine", "records", "shard")

    def __init__(self, machine: StateMachine[S], shard: S) -> None:
        self.machine = machine
        self.shard = shard
        self.records = 0
        self._memo: dict[Any, Any] = {}
        self._passed_over: set[int] = set()

    def step(self, step: Step) -> None:
        producer_id, content = step
        # A marker: what the producer's transaction left pending becomes valid, or is dropped.
        if isinstance(content, bool):
            self.machine.replay_end_transaction_marker(self.shard, producer_id, committed=content)
            return
        if isinstance(content, str):
            _events.error("load.batch_unreadable", partition=self.shard.partition, reason=content)
            self.machine.replay_unreadable(self.shard, None)
            return
        for piece in content:
            # A record as it stood in the log, or what the bulk decoder made of several.
            if len(piece) == RECORD_PIECE_LENGTH:
                self._replay_record(*piece, producer_id)
                self.records += 1
            else:
                self.records += self.machine.replay_bulk(
                    self.shard, piece, producer_id=producer_id, memo=self._memo
                )

    def _replay_record(self, journal_offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
        try:
            decoded = self.machine.decode(key, value)
            self.machine.replay(self.shard, *decoded, producer_id=producer_id, journal_offset=journal_offset)
        except UnknownRecordTypeError as error:
            # Kafka 3.9 does the same: the records stay in the partition for a coordinator that knows them.
            if error.record_type not in self._passed_over:
                self._passed_over.add(error.record_type)
                _events.warning(
                    "load.unknown_records", partition=self.shard.partition, type=error.record_type
                )
        except Exception as error:
            # It cannot be decoded, or says what cannot be (two members of one id). The old coordinators of
            # Kafka 3.9 end the load here and serve what they have; the machine knows what may be served
            # without this record.
            _events.error(
                "load.record_unreadable",
                partition=self.shard.partition,
                offset=journal_offset,
                reason=repr(error),
            )
            self.machine.replay_unreadable(self.shard, key)

    def __repr__(self) -> str:
        return f"<Replay {self.shard!r} records={self.records}>"
