"""`PartitionJournal`: a coordinator's records into a partition that this broker leads (``appendForGroup``).

One call makes one batch. It carries the time of the call (CREATE_TIME, whatever the topic says of timestamps),
is compressed by ``offsets.topic.compression.codec``, and waits for replicas in the same purgatory as a
producer's. A commit of one offset on a broker without followers costs no timer and no `Pending` of its own.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from barnabas.coordinator.journal import NO_PRODUCER, CoordinatorRecord
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.log.producers import AppendOrigin
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey
from barnabas.records.batch import NO_SEQUENCE, build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.replica.produce import AppendResult, Results

_COORDINATOR: Final = AppendOrigin.COORDINATOR


class Replicas(Protocol):
    """What a journal needs of the `replica.manager.ReplicaManager`."""

    @property
    def append(self) -> Callable[[TopicPartition, bytearray, int, AppendOrigin], AppendResult]:
        """See `replica.produce.Appender.append`."""

    @property
    def acknowledge(self) -> Callable[[Results, int, int], Results | Pending[Results]]:
        """See `replica.produce.Appender.acknowledge`."""


class PartitionJournal:
    """The journal of one partition of ``__consumer_offsets``."""

    __slots__ = ("_codec", "_now_ms", "_replicas", "_required_acks", "_timeout_ms", "_tp")

    def __init__(
        self, tp: TopicPartition, replicas: Replicas, settings: GroupSettings, now_ms: Callable[[], int]
    ) -> None:
        self._tp = tp
        self._replicas = replicas
        self._codec = Codec(settings.offsets_compression_codec)
        self._required_acks = settings.offsets_commit_required_acks
        self._timeout_ms = settings.offsets_commit_timeout_ms
        self._now_ms = now_ms

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        acks: int | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
    ) -> Pending[int]:
        """As `Journal.append`."""
        required_acks = self._required_acks if acks is None else acks
        batch = self._batch(records, producer)
        result = self._replicas.append(self._tp, batch, required_acks, _COORDINATOR)
        if result.error:
            raise KafkaError(result.error, f"{self._tp} refused {len(records)} records")
        outcome = self._replicas.acknowledge([result], required_acks, self._timeout_ms)
        if isinstance(outcome, Pending):
            return outcome.then(lambda results: _first_offset(results[0]))
        if result.error:
            return Pending.failed(KafkaError(result.error))
        return Pending.of(result.info.first_offset)

    def _batch(self, records: Sequence[CoordinatorRecord], producer: tuple[int, int]) -> bytearray:
        now_ms = self._now_ms()
        producer_id, producer_epoch = producer
        return bytearray(
            build_batch(
                [
                    Record(place, now_ms, key.to_bytes(), None if value is None else value.to_bytes(version))
                    for place, (key, value, version) in enumerate(records)
                ],
                codec=self._codec,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=_base_sequence(records[0]),
                transactional=producer != NO_PRODUCER,
            )
        )

    def __repr__(self) -> str:
        return f"<PartitionJournal {self._tp} acks={self._required_acks}>"


def _first_offset(result: AppendResult) -> int:
    if result.error:
        raise KafkaError(result.error)
    return result.info.first_offset


def _base_sequence(first: CoordinatorRecord) -> int:
    """Kafka numbers batches of commits from 0, though no producer counts them, and no others."""
    is_commit = isinstance(first.key, OffsetCommitKey) and first.value is not None
    return 0 if is_commit else NO_SEQUENCE
