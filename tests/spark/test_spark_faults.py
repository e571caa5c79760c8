"""The short form of the crash matrix: workers, brokers, registries and data fail, and each number is in the
table once.

test_pipeline_killed.py kills drivers; `python tests/spark/faults/run.py` has all of it, on a standalone
cluster too.
"""

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = ["workers", "broker", "registry", "partitions", "retention", "corruption", "secrets"]
pytestmark = pytest.mark.spark


def require_each_number_once(faults, seconds, *options):
    command = Path(__file__).parent / "faults" / "run.py"
    done = subprocess.run(
        [sys.executable, str(command), "--place", "local", *options, "--faults", ",".join(faults)],
        capture_output=True, text=True, check=False, timeout=seconds,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.count("each number once") == len(faults), done.stdout


@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_every_number_is_in_the_table_once_whatever_fails():
    require_each_number_once(FAULTS, 850, "--short")


@pytest.mark.campaign
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", ["broker", "registry"])
def test_twenty_kills_at_the_steps_of_a_batch_leave_each_number_once(fault):
    require_each_number_once([fault], 1750)
