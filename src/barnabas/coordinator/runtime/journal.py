"""What coordinators write, and how it gets into a partition (``PartitionWriter``, ``appendForGroup``).

One call of `PartitionJournal.append` makes one batch. It carries the time of the call as CREATE_TIME, also if
the topic's ``message.timestamp.type`` is LogAppendTime, is compressed as configured, and waits for replicas
in the same purgatory as a producer's. A commit of one offset on a broker without followers costs no timer and
no `Pending` of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.producers import AppendOrigin
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.records.batch import NO_SEQUENCE, build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.replica.produce import ACKS_ALL, Appender, AppendResult

NO_PRODUCER: Final = (-1, -1)

COORDINATOR_WORDS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""The code for the client when the log refuses records. The error is that of the coordinator's partition,
which the client knows nothing of. Each kind of record adds codes of its own.
"""

_COORDINATOR: Final = AppendOrigin.COORDINATOR


class CoordinatorRecord(NamedTuple):
    """A key and its new value; without a value it is a tombstone."""

    key: CoordinatorKey
    value: CoordinatorValue | None = None
    value_version: int = 0
    encoded: tuple[bytes, bytes | None] | None = None
    """Key and value as bytes, if they were made ahead: those of a large commit are made in slices."""

    def encode(self) -> tuple[bytes, bytes | None]:
        key, value, version, encoded = self
        return encoded or (key.to_bytes(), None if value is None else value.to_bytes(version))


class Journal(Protocol):
    """Appends a coordinator's records to the partition that holds its state."""

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        acks: int | None = None,
        timeout_ms: int | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
        base_sequence: int = NO_SEQUENCE,
    ) -> Pending[int]:
        """Appends the records as one batch; the offset of the first, once the replicas have them.

        Of groups, `acks` stands for ``offsets.commit.required.acks`` unless given (0: do not wait for
        replicas), and the wait is bounded by ``offsets.commit.timeout.ms``. `producer` (id, epoch) makes the
        batch transactional.

        Raises KafkaError with the log's own code when the records were *not* appended. The Pending *fails*
        with one when they were, but it is not known whether enough replicas have them.
        """

    def end_offset(self) -> int:
        """The offset that the next batch gets; -1 where none can be appended."""

    def replicated(self, timeout_ms: int) -> Pending[None]:
        """Done when the in-sync replicas have all that is in the partition now; fails as `append` does."""


class PartitionJournal:
    """The journal of a partition that this broker leads."""

    __slots__ = ("_appender", "_codec", "_now_ms", "_required_acks", "_timeout_ms", "_tp")

    def __init__(
        self,
        tp: TopicPartition,
        appender: Appender,
        now_ms: Callable[[], int],
        *,
        codec: Codec,
        required_acks: int,
        timeout_ms: int,
    ) -> None:
        self._tp = tp
        self._appender = appender
        self._now_ms = now_ms
        self._codec = codec
        self._required_acks = required_acks
        self._timeout_ms = timeout_ms

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        acks: int | None = None,
        timeout_ms: int | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
        base_sequence: int = NO_SEQUENCE,
    ) -> Pending[int]:
        required_acks = self._required_acks if acks is None else acks
        now_ms = self._now_ms()
        batch = build_batch(
            [Record(place, now_ms, *record.encode()) for place, record in enumerate(records)],
            codec=self._codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=base_sequence,
            transactional=producer != NO_PRODUCER,
        )
        # Nothing is in the log if this fails: the caller's state stays as it is (plan, append, apply).
        result = self._appender.append(self._tp, bytearray(batch), required_acks, _COORDINATOR)
        if result.error:
            raise KafkaError(result.error, f"{self._tp} refused {len(records)} records")
        # The records are in the log from here on. An error now only says that it is not known who has them.
        wait_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        outcome = self._appender.acknowledge([result], required_acks, wait_ms)
        # Replicas are waited for: the purgatory completes it, or the time-out does.
        if isinstance(outcome, Pending):
            return outcome.then(lambda results: _first_offset(results[0]))
        # No wait was needed, and the append failed the check behind it (too few replicas in sync, for
        # instance).
        if result.error:
            return Pending.failed(KafkaError(result.error))
        return Pending.of(result.info.first_offset)

    def end_offset(self) -> int:
        info = self._appender.whole_log(self._tp).info
        return info.last_offset + 1

    def replicated(self, timeout_ms: int) -> Pending[None]:
        # Nothing is appended: it waits as an acks=all append of the last record would.
        result = self._appender.whole_log(self._tp)
        outcome = self._appender.acknowledge([result], ACKS_ALL, timeout_ms)
        waited = outcome if isinstance(outcome, Pending) else Pending.of(outcome)
        return waited.then(lambda results: _raise_error(results[0]))

    def __repr__(self) -> str:
        return f"<PartitionJournal {self._tp} acks={self._required_acks}>"


def _raise_error(result: AppendResult) -> None:
    if result.error:
        raise KafkaError(result.error)


def _first_offset(result: AppendResult) -> int:
    if result.error:
        raise KafkaError(result.error)
    return result.info.first_offset
