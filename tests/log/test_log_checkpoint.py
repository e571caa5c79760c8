"""Offset checkpoints are written when they say something new, and only what surely was written counts."""

import pytest

from barnabas.core.ids import TopicPartition
from barnabas.log.checkpoint import OffsetCheckpoint

PATH = "/data/recovery-point-offset-checkpoint"
ORDERS = TopicPartition("orders", 0)


class Disk:
    """Keeps what is written, and refuses it while it is full."""

    def __init__(self):
        self.writes = []
        self.is_full = False

    def write_atomic(self, path, data, *, sync):
        self.writes.append((path, data))
        self.synced = sync
        if self.is_full:
            raise OSError("no room")


@pytest.fixture
def disk():
    return Disk()


def test_what_the_file_says_already_is_not_written_again(disk):
    checkpoint = OffsetCheckpoint(disk, PATH)

    for offset in (1, 1, 2, 2, 1):
        checkpoint.write({ORDERS: offset})

    assert [data for _, data in disk.writes] == [b"0\n1\norders 0 %d\n" % offset for offset in (1, 2, 1)]
    OffsetCheckpoint(disk, PATH).write({ORDERS: 1})
    assert len(disk.writes) == 4, "a broker that starts does not know what the file says"


def test_what_was_written_without_a_sync_is_written_again_with_one(disk):
    checkpoint = OffsetCheckpoint(disk, PATH)
    checkpoint.write({ORDERS: 1}, sync=False)
    assert not disk.synced
    checkpoint.write({ORDERS: 1})
    checkpoint.write({ORDERS: 1})

    assert (len(disk.writes), disk.synced) == (2, True)


def test_what_could_not_be_written_is_tried_again(disk):
    checkpoint = OffsetCheckpoint(disk, PATH)
    checkpoint.write({})
    disk.is_full = True
    with pytest.raises(OSError, match="no room"):
        checkpoint.write({ORDERS: 1})
    disk.is_full = False
    checkpoint.write({ORDERS: 1})
    checkpoint.write({})

    assert len(disk.writes) == 4
