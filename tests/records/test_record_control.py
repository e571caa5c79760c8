import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.records.batch import build_batch, parse_header
from barnabas.records.control import (
    ControlType,
    EndTransactionMarker,
    build_marker,
    control_type,
    marker_of,
    parse_marker,
)
from barnabas.records.record import Record


@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT])
def test_markers_round_trip(kind):
    marker = EndTransactionMarker(kind, coordinator_epoch=12)
    batch = build_marker(marker, timestamp=5, producer_id=77, producer_epoch=3)
    header = parse_header(batch)

    assert header.attributes == 0x30
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, -1)
    assert parse_marker(marker_of(batch, header)) == marker
    assert marker.committed == (kind is ControlType.COMMIT)


def test_marker_bytes_are_kafkas():
    batch = build_marker(
        EndTransactionMarker(ControlType.COMMIT, 1), timestamp=0, producer_id=0, producer_epoch=0
    )
    record = marker_of(batch, parse_header(batch))

    assert record.key == bytes.fromhex("00000001")
    assert record.value == bytes.fromhex("000000000001")


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b""), (b"\0\0", b""), (b"\0\0\0\2", b"\0" * 6), (b"\0\0\0\1", b"\0"), (b"\0\0\0\1", None)],
)
def test_what_is_no_marker(key, value):
    with pytest.raises(KafkaError) as caught:
        parse_marker(Record(0, 0, key, value))
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_types_of_later_versions():
    assert control_type(b"\0\0\0\x63") is ControlType.UNKNOWN
    assert control_type(b"\0\0\xff\xff") is ControlType.UNKNOWN


def test_an_emptied_control_batch_has_no_marker():
    batch = bytearray(build_batch([Record(0, 0, b"\0\0\0\1", b"\0" * 6)], control=True))
    header = parse_header(batch)
    header.count = 0

    assert marker_of(batch, header) is None
