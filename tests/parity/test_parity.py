"""Apache Kafka, 3.9 and 4.4, and Barnabas are asked the same;
what differs is explained, and nothing explained is gone.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from parity.judges import JUDGES

ROOT = Path(__file__).parents[2]
NO_JUDGE = 2


@pytest.mark.jvm
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "asked",
    [
        *(pytest.param(("--profile", profile), id=profile) for profile in JUDGES),
        # The short form of two more that are run whole by hand.
        pytest.param(("--mode", "denied", "--only", "configs"), id="denied"),
        pytest.param(("--mode", "secure", "--only", "topics"), id="secure"),
    ],
)
def test_every_difference_from_kafka_is_explained(asked):
    command = [sys.executable, "-m", "parity", *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=490, check=False)

    if done.returncode == NO_JUDGE and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
