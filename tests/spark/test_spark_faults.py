"""The short form of the crash matrix: workers, brokers and data fail, and each number is in the table once.

test_pipeline_killed.py kills drivers; `python tests/spark/faults/run.py` has all of it, on a standalone
cluster too.
"""

import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = ["workers", "broker", "partitions", "retention", "corruption", "secrets"]
pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_number_is_in_the_table_once_whatever_fails():
    command = Path(__file__).parent / "faults" / "run.py"
    done = subprocess.run(
        [sys.executable, str(command), "--place", "local", "--short", "--faults", ",".join(FAULTS)],
        capture_output=True, text=True, check=False, timeout=850,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.count("each number once") == len(FAULTS), done.stdout
