"""What a partition's batches and markers say of its transactions, without the broker's own bookkeeping."""

from dataclasses import dataclass, field

from barnabas.records.batch import batch_headers, decode_records_of
from barnabas.records.control import ControlType, control_type, marker_of

Read = tuple[int, bytes]
"""Offset and value of a record."""


@dataclass(slots=True)
class LogWalk:
    """The records of a partition, by how their transactions ended there."""

    committed: list[Read] = field(default_factory=list)
    """In the order of the log."""
    aborted: list[Read] = field(default_factory=list)
    unfinished: dict[int, list[Read]] = field(default_factory=dict)
    """Of transactions without a marker, by producer id."""


def walk(data: bytes) -> LogWalk:
    """Goes through whole batches from the start of a log; a record outside of transactions is committed."""
    found = LogWalk()
    for header in batch_headers(data):
        if header.is_control:
            marker = marker_of(data, header)
            assert marker is not None, f"a control batch without a marker: {header}"
            ended = found.unfinished.pop(header.producer_id, [])
            is_commit = control_type(marker.key) is ControlType.COMMIT
            (found.committed if is_commit else found.aborted).extend(ended)
            continue
        records = [(each.offset, bytes(each.value or b"")) for each in decode_records_of(data, header)]
        if header.is_transactional:
            found.unfinished.setdefault(header.producer_id, []).extend(records)
        else:
            found.committed += records
    found.committed.sort()
    return found
