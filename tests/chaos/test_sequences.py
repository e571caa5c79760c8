"""The check of what an idempotent producer left in a log finds what it has to find, and nothing else."""

import pytest
from sequences import disorder

from barnabas.records.batch import build_batch, parse_header, stamp
from barnabas.records.record import Record


@pytest.fixture
def found(tmp_path):
    def found(*batches):
        """What is wrong with batches of (epoch, sequence, first number, count)."""
        offset, data = 0, b""
        for epoch, sequence, first, count in batches:
            records = [Record(each, 1000, None, b"%d:." % (first + each)) for each in range(count)]
            batch = bytearray(
                build_batch(records, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
            )
            stamp(batch, parse_header(batch), offset, 0)
            data += batch
            offset += count
        (tmp_path / f"{0:020d}.log").write_bytes(data)
        return list(disorder(tmp_path))

    return found


FIRST = (0, 0, 0, 10)


def test_batches_in_order_are_right(found):
    assert found(FIRST, (0, 10, 10, 5), (0, 15, 15, 1)) == []


def test_a_new_epoch_may_repeat_what_was_not_acknowledged(found):
    assert found(FIRST, (0, 10, 10, 5), (1, 0, 10, 5), (1, 5, 15, 5)) == []


@pytest.mark.parametrize(
    "after",
    [
        FIRST,  # twice
        (0, 20, 20, 5),  # one is missing
        (0, 10, 0, 10),  # the same records with other sequence numbers
        (1, 10, 10, 5),  # an epoch begins with sequence 0
        (1, 0, 11, 5),  # a record is missing between epochs
    ],
)
def test_what_a_broker_must_not_take_is_found(found, after):
    assert len(found(FIRST, after)) == 1


def test_an_old_epoch_is_found(found):
    assert len(found(FIRST, (1, 0, 10, 5), (0, 10, 10, 5))) == 1
