"""The embedded store on a disk that refuses one call: a short form of store_refusals.py.

The day chooses which of all calls are refused.
"""

import errno
import tempfile
import time
from pathlib import Path

import pytest
import refusing
import store_refusals

PARTS = 60
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder(tmp_path):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as made:
        yield Path(made)


def test_whichever_call_is_refused_nothing_is_lost_and_the_next_try_goes_on(folder):
    part = int(time.time()) // 86_400 % PARTS
    done = store_refusals.run(folder, of=PARTS, part=part)
    if done is None:
        pytest.skip("there is no C compiler (cc, gcc) for the library that refuses calls")
    problems, figures = done

    assert problems == [], f"python tests/chaos/store_refusals.py --of {PARTS} --part {part}"
    assert figures["refused"] > 50
    assert figures["told"] > 20


@pytest.fixture
def sweep(folder):
    library = refusing.build(folder)
    if library is None:
        pytest.skip("there is no C compiler (cc, gcc) for the library that refuses calls")
    made = store_refusals.Sweep(folder, library)
    yield made
    made.close()


def test_a_transaction_whose_sync_was_refused_does_not_come_back_after_a_kill(sweep):
    """It was in the write-ahead log; a reader saw that it had not happened, and after the kill it had."""
    calls, _, problems = sweep.round("no file", "closed")
    assert problems == []
    told = 0
    for number in range(calls["sync"]):
        _, errors, problems = sweep.round("no file", "at once", ("sync", number, errno.EIO))
        assert problems == [], f"sync {number}"
        told += bool(errors)
    assert told > 5
