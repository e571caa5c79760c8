"""The comparison of copies finds what it has to find, and nothing else."""

import pytest
from copies import differences

from barnabas.records.batch import build_batch, parse_header, stamp
from barnabas.records.record import Record


def log(*records):
    """The bytes of a log with a batch for each (offset, key, value)."""
    batches = []
    for offset, key, value in records:
        batch = bytearray(build_batch([Record(0, 1000 + offset, key, value)]))
        stamp(batch, parse_header(batch), offset, 0)
        batches.append(bytes(batch))
    return b"".join(batches)


WHOLE = [(0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", None), (4, b"d", b"1")]


@pytest.fixture
def found(tmp_path):
    def found(first, second, topic="t"):
        folders = {number: [tmp_path / f"data-{number}"] for number in (1, 2)}
        for number, records in ((1, first), (2, second)):
            partition = folders[number][0] / f"{topic}-0"
            partition.mkdir(parents=True)
            (partition / f"{0:020d}.log").write_bytes(log(*records))
        return list(differences(folders, {"latest"}))

    return found


def test_copies_are_the_same_byte_for_byte(found):
    assert found(WHOLE, WHOLE) == []


def test_a_partition_that_a_broker_has_in_two_log_directories_is_a_difference(tmp_path):
    folders = {1: [tmp_path / "one", tmp_path / "two"]}
    for name in ("one/t-0", "two/t-0", "one/t-1", "two/t-1.0-future"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / f"{0:020d}.log").write_bytes(log(*WHOLE))
    problems = list(differences(folders, set()))
    assert len(problems) == 1
    assert problems[0].startswith("t-0: broker 1 has it more than once")


def test_a_record_that_one_copy_lacks_is_a_difference(found):
    assert found(WHOLE, WHOLE[1:]) != []


@pytest.mark.parametrize("gone", [{0}, {3}, {0, 3}])
def test_copies_of_a_compacted_partition_may_lack_what_was_superseded_or_deleted(found, gone):
    assert found(WHOLE, [record for record in WHOLE if record[0] not in gone], "latest") == []


@pytest.mark.parametrize(
    "other",
    [
        [record for record in WHOLE if record[0] != 1],  # a last record
        WHOLE[:-1],  # the end
        [*WHOLE[:2], (2, b"a", b"other"), *WHOLE[3:]],
        [(0, b"a", b"other"), *WHOLE[1:]],  # superseded, but both have it
    ],
)
def test_other_differences_of_a_compacted_partition_are_found(found, other):
    assert found(WHOLE, other, "latest") != []
