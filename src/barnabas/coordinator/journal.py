"""What coordinators write, and the port through which it gets into a partition (``PartitionWriter``)."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue

NO_PRODUCER: Final = (-1, -1)

COORDINATOR_WORDS: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
"""What a client is told of a log that refuses records: of its coordinator, and not of a partition that it never
spoke of. What more there is to say is each kind of record's own business.
"""


class CoordinatorRecord(NamedTuple):
    """A key and what is to be known of it from now on; no value takes back what was known (a tombstone)."""

    key: CoordinatorKey
    value: CoordinatorValue | None = None
    value_version: int = 0


class Journal(Protocol):
    """Appends a coordinator's records to the one partition that is its memory."""

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        acks: int | None = None,
        producer: tuple[int, int] = NO_PRODUCER,
    ) -> Pending[int]:
        """Appends the records as one batch; the offset of the first, once the replicas have them.

        `acks` stands for ``offsets.commit.required.acks`` unless given (0: nobody waits for replicas);
        `producer` (id, epoch) makes the batch transactional. The wait is bounded by
        ``offsets.commit.timeout.ms``.

        Raises KafkaError with the log's own code when the records were *not* appended. The Pending *fails*
        with one when they were, but it is not known whether enough replicas have them.
        """
