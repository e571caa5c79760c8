"""What coordinators write, and the port through which it gets into a partition (``PartitionWriter``)."""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue

NO_PRODUCER: Final = (-1, -1)


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
