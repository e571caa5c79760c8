"""Feeding batches to producer state, alike for appends, for loading and for recovery."""

from collections.abc import Iterable

from barnabas.core.chunks import Buffer
from barnabas.log.producers import ProducerStateManager
from barnabas.log.segment import LogSegment
from barnabas.log.txn_index import AbortedTxn
from barnabas.records.batch import BatchHeader, parse_header
from barnabas.records.control import EndTransactionMarker, marker_of, parse_marker


def marker_in(buffer: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker in a control batch; None where the cleaner has emptied it. Raises INVALID_RECORD."""
    record = marker_of(buffer, header)
    return None if record is None else parse_marker(record)


def apply_batch(
    producers: ProducerStateManager,
    header: BatchHeader,
    base_offset: int,
    marker: EndTransactionMarker | None,
) -> AbortedTxn | None:
    """Applies a batch with a producer id; returns the transaction that it aborted, for the index."""
    if not header.is_control:
        producers.apply(header, base_offset)
        return None
    if marker is None:
        return None
    completed = producers.apply_marker(header, marker, offset=base_offset, timestamp=header.max_timestamp)
    if completed is None or not completed.is_aborted:
        return None
    stable = producers.last_stable_offset(completed)
    return AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def replay(producers: ProducerStateManager, segments: Iterable[LogSegment]) -> None:
    """Applies what lies in the segments beyond the state's end. Raises OSError."""
    start = producers.map_end_offset
    for segment in segments:
        place = segment.locate(start)
        if place is None:
            continue
        for header in segment.headers_from(place.position):
            if header.producer_id >= 0:
                marker = None
                if header.is_control:
                    batch = segment.read_batch(header)
                    marker = marker_in(batch, parse_header(batch))
                apply_batch(producers, header, header.base_offset, marker)
