"""Plants the bugs of the table one at a time and tells which ones the tests see.

    python tests/mutation/run.py [FOLDER ...] [--only NAME] [--sample N [--seed S]] [--simulation-seeds N]

A bug is planted in a copy of the source. It is killed when the tests of its folder (`tests/FOLDER`), those that its
entry names, or the simulation fail. One that nothing sees survives. The command fails when fewer than nine in ten are
killed, when a survivor has no reason in the table, or when one that is said to survive is killed.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutation_table import ROOT, Mutation, load

KILLED_SHARE_MIN = 0.9
SECONDS_A_RUN = 600
SIMULATED = ("log", "replica", "cluster", "client", "network", "records")
"""Folders whose code the simulation runs; `tests/model` does the same to groups."""
ALSO = {
    "coordinator": ("tests/model",),
    "replica": ("tests/simulation/test_replication.py",),
    "cluster": ("tests/simulation/test_replication.py",),
}

MARKS = {"spark": "not jvm and not spark"}
"""Tests that are left out: a Spark session for each bug would take hours, so the bugs of `spark` are for the others."""

_TESTS_FAILED, _NOTHING_COLLECTED = 1, 5


def main() -> int:
    """Runs what was asked for; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="tables to run; all without any")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="one mutation, like log-3"
    )
    parser.add_argument(
        "--simulation-seeds", type=int, default=60, metavar="N", help="0 leaves it out (default 60)"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (default 1)")
    options = parser.parse_args()
    try:
        mutations = [each for each in load(options.folders) if not options.only or each.name in options.only]
        if options.sample is not None and options.sample < len(mutations):
            mutations = random.Random(options.seed).sample(mutations, options.sample)
        for mutation in mutations:
            mutation.check_that_it_changes_what_runs()
    except (SyntaxError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    wrong: list[str] = []
    killed = 0
    with tempfile.TemporaryDirectory(prefix="barnabas-mutation-") as folder:
        root = Path(folder)
        shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for place, mutation in enumerate(mutations, 1):
            started = time.monotonic()
            killer = _killer(mutation, root, options.simulation_seeds)
            killed += killer is not None
            outcome = (
                f"killed by {killer}" if killer else f"SURVIVES ({mutation.survives or 'no reason given'})"
            )
            seconds = time.monotonic() - started
            print(
                f"[{place}/{len(mutations)}] {mutation.name}: {mutation.why}: {outcome}, {seconds:.0f} s",
                flush=True,
            )
            if (killer is None) != (mutation.survives is not None):
                wrong.append(
                    f"{mutation.name} {'is killed but said to survive' if killer else 'has no reason'}"
                )
    print(f"{killed} of {len(mutations)} killed ({killed / max(1, len(mutations)):.0%})")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong or killed < KILLED_SHARE_MIN * len(mutations) else 0


def _killer(mutation: Mutation, root: Path, simulation_seeds: int) -> str | None:
    """What notices the bug: the quick tests are asked first. None if nothing does."""
    target = root / mutation.file
    original = target.read_text(encoding="utf-8")
    target.write_text(mutation.mutated(), encoding="utf-8")
    own = (f"tests/{mutation.folder}", *mutation.tests)
    try:
        for tests in (own, ALSO.get(mutation.folder, ())):
            marks = MARKS.get(mutation.folder, "not jvm")
            if tests and (failed := _failing_test(tests, root, marks)):
                return failed
        if simulation_seeds and mutation.folder in SIMULATED:
            command = [sys.executable, "-m", "barnabas.testing.simulate", "--seeds", str(simulation_seeds)]
            if _run(command, root)[0]:
                return "the simulation"
        return None
    finally:
        target.write_text(original, encoding="utf-8")


def _failing_test(tests: Sequence[str], root: Path, marks: str) -> str | None:
    quiet = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", marks)
    code, output = _run([sys.executable, "-m", "pytest", *quiet, *tests], root)
    if code == 0:
        return None
    if code == _NOTHING_COLLECTED:
        raise SystemExit(f"no tests in {' '.join(tests)}")
    failed = [
        line.split(" ")[1] for line in output.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))
    ]
    if code != _TESTS_FAILED and not failed:
        return f"the end of the test run with exit code {code}"
    return failed[0] if failed else "a failing test"


def _run(command: Sequence[str], root: Path) -> tuple[int, str]:
    """Runs a command on the mutated source, in a process group of its own: a hang ends with all it started."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS_A_RUN)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _TESTS_FAILED, "FAILED (no end)"
    return process.returncode, output


if __name__ == "__main__":
    sys.exit(main())
