"""Some jobs of the short form of `python -m parity.connectors`, others in each run:
Spark's Kafka connector and ours give the same tables and errors.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from parity.connectors import differences
from parity.connectors.differences import Difference, Entry, Outcome

from seeds import drawn_by_this_run

ROOT = Path(__file__).parents[2]
NO_JUDGE = 2


@pytest.mark.jvm
@pytest.mark.timeout(300)
def test_both_connectors_of_spark_do_the_same_jobs():
    from parity.connectors.run import JOBS  # which imports PySpark

    jobs = drawn_by_this_run(list(JOBS), "jobs of both connectors", 6)
    command = [sys.executable, "-m", "parity.connectors", "--quick", "--jobs", ",".join(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)

    if done.returncode == NO_JUDGE and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


ENTRY = Entry("sink", "update: *", "barnabas", "[(*", "[]", "a reason")


@pytest.mark.parametrize(
    ("theirs", "ours", "connector", "explained"),
    [
        ([(0, b"k")], [], "barnabas", True),
        ([(0, b"k")], [(1, b"k")], "barnabas", False),
        ([(0, b"k")], [], "kafka", False),
    ],
)
def test_an_entry_explains_only_what_it_says(theirs, ours, connector, explained):
    assert ENTRY.fits(Difference("sink", "update: stored", connector, theirs, ours)) is explained


def outcome(*found):
    return Outcome("sink", "kafka", [("barnabas", "update: stored")], list(found), 0.1)


def test_an_entry_that_explains_nothing_any_more_is_told():
    different = Difference("sink", "update: stored", "barnabas", [(0, b"k")], [])

    assert differences.unused([ENTRY], [outcome()]) == [ENTRY]
    assert differences.unused([ENTRY], [outcome(different)]) == []
    assert differences.unused([ENTRY], [outcome(different), outcome()]) == [ENTRY]  # on one broker alone
    assert differences.unused([ENTRY], []) == []  # its job was not asked
