"""`TransactionShard`: the transactional ids of one partition, and how a transition of one is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from barnabas.coordinator.runtime.journal import COORDINATOR_WORDS
from barnabas.coordinator.runtime.state_machine import CoordinatorShard
from barnabas.coordinator.transaction.metadata import ProducerIdAndEpoch, TransactionMetadata, Transition
from barnabas.coordinator.transaction.records import transaction_record
from barnabas.coordinator.transaction.transaction_version import TV_0
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Steps, steps
from barnabas.replica.produce import ACKS_ALL

APPEND_ERRORS: Final = {
    **COORDINATOR_WORDS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The code for the client when a transition was not written (``appendTransactionToLog``)."""


_PARTS: Final = 64


class TransactionalIds:
    """The ids of a shard by their names, in an order of their own.

    A dict of a million grows in one piece, which holds the loop for 40 ms; these are many small ones. Which
    of them has an id does not depend on the process: a simulation replays.
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[dict[str, TransactionMetadata]] = [{} for _ in range(_PARTS)]

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        return self._part(transactional_id).get(transactional_id)

    def add(self, metadata: TransactionMetadata) -> None:
        """In place of one of the same name."""
        transactional_id = metadata.transactional_id
        self._part(transactional_id)[transactional_id] = metadata

    def remove(self, transactional_id: str) -> None:
        """Forgets an id, if it is there."""
        self._part(transactional_id).pop(transactional_id, None)

    def _part(self, transactional_id: str) -> dict[str, TransactionMetadata]:
        return self._parts[crc32(transactional_id.encode()) % _PARTS]

    def clear(self) -> None:
        for part in self._parts:
            part.clear()

    def __iter__(self) -> Iterator[TransactionMetadata]:
        """All of them; ids may come and go meanwhile."""
        for part in self._parts:
            yield from list(part.values())

    def __len__(self) -> int:
        return sum(map(len, self._parts))


@dataclass(slots=True)
class TransactionShard(CoordinatorShard):
    """The ids of one partition that this broker leads. Markers carry its leader epoch."""

    server_version: Callable[[], int] = lambda: TV_0
    """The finalized level of ``transaction.version``."""
    transactions: TransactionalIds = field(default_factory=TransactionalIds)
    unreadable: set[str] = field(default_factory=set)
    """Ids whose last record the load could not read: nobody coordinates them."""
    resigned: bool = False
    """Another broker coordinates the ids: what is still on its way for this shard changes nothing."""

    def require_led(self) -> None:
        """Raises NOT_COORDINATOR where another broker has become coordinator since."""
        if self.resigned:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def named(self, transactional_id: str) -> TransactionMetadata:
        """The id. Raises INVALID_PRODUCER_ID_MAPPING for one that has expired, or never begun."""
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return metadata

    def of_producer(self, transactional_id: str, producer: ProducerIdAndEpoch) -> TransactionMetadata:
        """The id, for a request of its current producer."""
        metadata = self.named(transactional_id)
        self.require_producer(metadata, producer)
        return metadata

    def require_producer(self, metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
        """Raises what a producer is answered that is not the current one of the id."""
        # It has begun again under another producer id.
        if metadata.producer_id != producer.producer_id:
            raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # Another producer of the same id has begun since, or the transaction timed out (KIP-588).
        if metadata.producer_epoch != producer.epoch:
            raise KafkaError(ErrorCode.PRODUCER_FENCED)

    def __repr__(self) -> str:
        return f"<TransactionShard {self.partition} epoch={self.leader_epoch} ids={len(self.transactions)}>"


@steps
def append_transition(
    shard: TransactionShard,
    metadata: TransactionMetadata,
    transition: Transition,
    *,
    may_be_repeated: bool = False,
) -> Steps[None]:
    """Writes a prepared transition, and applies it when the replicas have it (``appendTransactionToLog``).

    Fails with the client's code when they have not got it in the transaction's own time-out. The pending
    state is taken back then, unless the caller repeats what was COORDINATOR_NOT_AVAILABLE.
    """
    try:
        record = transaction_record(metadata.transactional_id, transition, shard.server_version())
        yield shard.journal.append([record], acks=ACKS_ALL, timeout_ms=transition.timeout_ms)
    except KafkaError as error:
        code = APPEND_ERRORS.get(error.code, error.code)
        # Without a pending state the next request of the producer is handled as if this one had not come.
        if not (may_be_repeated and code is ErrorCode.COORDINATOR_NOT_AVAILABLE):
            metadata.take_back()
        raise KafkaError(code) from error
    except Exception:
        # A name that no record has room for, for instance: the id must not stay pending.
        metadata.take_back()
        raise
    # The record may be there, or may be lost with the old leader's log: the new coordinator knows.
    shard.require_led()
    metadata.complete(transition)
