"""`CompletedFetch`: the record batches of one partition from one answer, taken out piece by piece.

Control batches are never handed out. With ``read_committed`` the answer lists the aborted transactions in
the range; a batch of one of these producers is dropped, from the transaction's first offset to its abort
marker (``CompletedFetch.nextFetchedRecord`` of Kafka's consumer).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.client.record_decoder import decode_consumer_records
from barnabas.client.record_parser import RecordParser
from barnabas.client.types import AbortedTransaction, ConsumerRecord
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import MAGIC, BatchHeader, batch_headers
from barnabas.records.control import ControlType, control_type, marker_of

if TYPE_CHECKING:
    from barnabas.client.errors import RecordDeserializationError


class CompletedFetch:
    """Records that have arrived and were not handed out yet."""

    __slots__ = (
        "_aborted",
        "_aborting",
        "_behind",
        "_check_crcs",
        "_failure",
        "_left",
        "_parser",
        "_records",
        "_runs",
        "next_offset",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        position: int,
        records: memoryview,
        aborted: Sequence[AbortedTransaction],
        *,
        check_crcs: bool,
        parser: RecordParser | None = None,
    ) -> None:
        self.tp = tp
        self.next_offset = position
        """The position after what was handed out so far."""
        self._records = records
        self._runs = self._decoded()
        self._aborted = deque(sorted(aborted, key=lambda one: one.first_offset))
        self._aborting: set[int] = set()
        self._check_crcs = check_crcs
        self._parser = parser
        self._left: list[ConsumerRecord] = []
        self._behind = position
        self._failure: KafkaError | RecordDeserializationError | None = None

    @property
    def is_damaged(self) -> bool:
        """Whether the next `take` will raise."""
        return self._failure is not None and not self._left

    def take(self, limit: int) -> list[ConsumerRecord]:
        """The next records, at most `limit`; fewer only when there are no more, or none before damage.

        Raises `KafkaError` when a damaged batch is next, `RecordDeserializationError` when a record is that
        does not parse; `next_offset` is then in front of it.
        """
        taken: list[ConsumerRecord] = []
        while len(taken) < limit and (self._left or self._advance(raising=not taken)):
            piece = self._left[: limit - len(taken)]
            self._left = self._left[len(piece) :]
            taken += piece
            self.next_offset = piece[-1].offset + 1 if self._left else self._behind
        return taken

    def _advance(self, *, raising: bool) -> bool:
        """Decodes the next records; False when there are none, or damaged ones and `raising` is not asked
        for.
        """
        try:
            run = None if self._failure else next(self._runs, None)
            if run is not None:
                self._left, behind = run
                self._behind = max(self.next_offset, behind)
                if self._parser is not None:
                    self._left, failure = self._parser.parse(self._left)
                    if failure is not None:
                        # The records before it are handed out first, and the position stays in front of it.
                        self._failure, self._behind = failure, failure.offset
                return True
        except KafkaError as error:
            self._failure = error
        if raising and self._failure is not None:
            raise self._failure
        return False

    def _decoded(self) -> Iterator[tuple[list[ConsumerRecord], int]]:
        """The records in runs, each with the position behind it."""
        for header in batch_headers(self._records):
            if header.magic != MAGIC:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                    f"Records of {self.tp} at offset {header.base_offset} have the old format {header.magic};"
                    " this client reads format 2 (Kafka 0.11 and later)",
                )
            if self._is_dropped(header):
                yield [], header.next_offset
            else:
                yield from decode_consumer_records(
                    self._records, header, self.tp, self.next_offset, check_crc=self._check_crcs
                )

    def _is_dropped(self, header: BatchHeader) -> bool:
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.popleft().producer_id)
        if header.is_control:
            if header.producer_id in self._aborting and self._is_abort(header):
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting

    def _is_abort(self, header: BatchHeader) -> bool:
        marker = marker_of(self._records, header)
        return marker is not None and control_type(marker.key) is ControlType.ABORT

    def __repr__(self) -> str:
        return f"<CompletedFetch {self.tp} from {self.next_offset}>"
