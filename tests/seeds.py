"""How many seeds a simulation runs in the tests of one form, and what a run draws for itself."""

import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import TypeVar

from barnabas.core.form import describe
from barnabas.testing import simulate
from barnabas.testing.sometimes import never_reached

T = TypeVar("T")


def drawn_by_this_run(choices: Sequence[T], what: str, count: int = 1) -> list[T]:
    """Some of the choices, others from run to run and for each `what`: for judges that take too long to
    make all of them each time. BARNABAS_TEST_ALL=1 takes all.
    """
    if os.environ.get("BARNABAS_TEST_ALL"):
        return list(choices)
    # The workers of one run must collect the same tests.
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    drawn = sorted(range(len(choices)), key=lambda each: zlib.crc32(f"{run} {what} {each}".encode()))[:count]
    return [choices[each] for each in sorted(drawn)]


def examples(anywhere: int) -> int:
    """How many examples a property of logs has: 500 in CI, 2,000 with BARNABAS_TEST_ALL=1; a fifth for the
    compiled form, which is to show that it decides the same. hypothesis draws others in each run, so that
    many runs have what one leaves out.
    """
    count = 500 if os.environ.get("CI") else anywhere
    if os.environ.get("BARNABAS_TEST_ALL"):
        count = 2000
    return len(first_seeds(count if describe() == "pure Python" else count // 5))


def first_seeds(count: int) -> range:
    """The first seeds. BARNABAS_TEST_SEEDS sets an upper bound, for runs that judge the tests themselves."""
    return range(min(count, int(os.environ.get("BARNABAS_TEST_SEEDS", count))))


def check_first_seeds(model: str, count: int) -> None:
    """No seed of the first ones finds anything in a model of `simulate.RUNS`. Where all of them run, each of
    its rare states is reached.
    """
    run, seconds = simulate.RUNS[model]
    verdicts = list(simulate.run_seeds(first_seeds(count), seconds, run=run))
    failed = [verdict for verdict in verdicts if verdict.anomalies]
    assert not failed, "\n".join(map(str, failed))
    if len(verdicts) == count:
        assert not never_reached(model, [verdict.reached for verdict in verdicts])


def printed_histories(program: Sequence[str], hash_seed: str) -> str:
    """What a campaign prints in a process with this seed of hashes, but for the processor time it took."""
    done = subprocess.run(
        [sys.executable, *program, "--verbose"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return "\n".join(line for line in done.stdout.splitlines() if "processor hours" not in line)
