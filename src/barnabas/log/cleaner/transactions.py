"""Which batches belong to aborted transactions, and on which markers nothing depends.

The batches of a log are shown to it in the order of their offsets (``CleanedTransactionMetadata``). A marker
may go once no record of its transaction is left, and that is known when the marker is read: the batches
before it were all seen.
"""

from collections.abc import Iterable

from barnabas.core.chunks import Buffer
from barnabas.log.txn_index import AbortedTxn
from barnabas.records.batch import BatchHeader
from barnabas.records.control import ControlType, control_type, marker_of


class CleanedTransactions:
    """The transactions on the way through a log."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = sorted(set(aborted), key=lambda txn: txn.first_offset, reverse=True)
        """Aborted transactions that begin further on; the next one last."""
        self._committed: set[int] = set()
        """Producers with records of a transaction that is not aborted, and its marker still to come."""
        self._aborted: dict[int, AbortedTxn] = {}
        self._with_records: set[int] = set()
        """Producers whose aborted transaction still had records."""
        self.retained: list[AbortedTxn] = []
        """What belongs into the index of the cleaned segment."""

    def on_batch(self, header: BatchHeader) -> bool:
        """``onBatchRead``: whether the data of this batch was aborted."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        # Its records go with this cleaning, but its marker is needed until the next one finds none.
        if header.producer_id in self._aborted:
            self._with_records.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def on_control_batch(self, buffer: Buffer, header: BatchHeader) -> bool:
        """``onControlBatchRead``: whether nothing that is left depends on this marker."""
        self._advance(header.last_offset)
        marker = marker_of(buffer, header)
        if marker is None:
            return True  # an earlier cleaning has emptied it
        kind, producer_id = control_type(marker.key), header.producer_id
        if kind is ControlType.ABORT:
            txn = self._aborted.pop(producer_id, None)
            # None of its records were left in what was read: the marker says nothing to any reader.
            if txn is None or producer_id not in self._with_records:
                return True
            self._with_records.discard(producer_id)
            self.retained.append(txn)
            return False
        # Kept while a batch of its transaction was seen: whoever reads the batch waits for its end.
        if kind is ControlType.COMMIT:
            had_records = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_records
        return False

    def _advance(self, offset: int) -> None:
        # A transaction counts from its first record on, until `on_control_batch` sees its marker.
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted.setdefault(txn.producer_id, txn)
