"""Plants one bug in a copy of the source and finds out what notices:
the nearest tests first, the simulation last.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Protocol, TypeVar

from mutation_table import ROOT

SECONDS_A_TEST = 60
SECONDS_A_RUN = 300
"""A run that has no end by then has noticed: an endless loop is a kill."""
NEAREST = 3
"""So many test files are asked by themselves first:
to collect a whole folder takes longer than most of them.
"""
MEMORY_KB_MAX = 6_000_000
"""Of data: Chromium takes far more addresses than memory, and does not start where these are few."""
SEEDS_IN_TESTS = 200
"""Of the models that tests run; `tests/seeds.py` reads it."""
MODELS = {
    "log": ("nodes", "transactions"),
    "records": ("nodes",),
    "network": ("nodes",),
    "client": ("nodes",),
    "replica": ("nodes", "replication", "transactions"),
    "cluster": ("replication", "nodes"),
    "coordinator": ("transactions",),
    "node": ("transactions",),
    "broker": ("transactions",),
}
"""Which simulations run the code of a folder; `tests/model` does the same to groups."""
FAR = {
    *("benchmarks", "chaos", "clients", "docs", "fuzz", "jvm", "model", "mutation", "packaging"),
    *("parity", "simulation", "spark", "suites"),
}
"""Folders whose tests are asked only where an entry names them."""

MARKS = "not jvm and not spark"
"""A Spark session for each bug would take hours, so the bugs of `spark` are for the other tests, unless an
entry says `spark`: then the tests that it names are run whole, and no others.
"""

_TESTS_FAILED, _NOTHING_COLLECTED = 1, 5


class Planted(Protocol):
    """A bug: which file it is in, that file with the bug, and tests that are asked first."""

    @property
    def folder(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def tests(self) -> tuple[str, ...]: ...
    @property
    def spark(self) -> bool: ...
    def mutated(self) -> str: ...


Bug = TypeVar("Bug", bound=Planted)


def judge_all(
    bugs: Sequence[Bug], report: Callable[[Bug, str | None], None], *, jobs: int, simulation_seeds: int
) -> None:
    """Tells `report` of each bug what killed it, or None;
    so many are judged at a time, each in its own copy.
    """
    with TemporaryDirectory(prefix="barnabas-mutation-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            root = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            copies.put(root)
        turn = threading.Lock()

        def judge(bug: Bug) -> None:
            root = copies.get()
            try:
                killer = _killer(bug, root, simulation_seeds)
            finally:
                copies.put(root)
            with turn:
                report(bug, killer)

        with ThreadPoolExecutor(jobs) as pool:
            for _ in pool.map(judge, bugs):
                pass


def _killer(bug: Planted, root: Path, simulation_seeds: int) -> str | None:
    """What notices the bug; None if nothing does."""
    if bug.spark:
        with _planted(bug, root):
            return _failing_test(bug.tests, root, marks="not jvm")
    tests = tests_of(bug)
    asked_first = max(NEAREST, len(bug.tests))
    with _planted(bug, root):
        failed = _failing_test(tests[:asked_first], root)
        if failed is None and tests[asked_first:]:
            failed = _failing_test(tests[asked_first:], root)
    if failed is not None:
        if "::" in failed and _failing_test([failed], root):
            raise SystemExit(f"{failed} fails without a bug too")
        return failed
    with _planted(bug, root):
        for model in MODELS.get(bug.folder, ()) if simulation_seeds else ():
            seeds = ("--seeds", str(simulation_seeds), "--processes", "1")
            if _run([sys.executable, "-m", "barnabas.testing.simulate", model, *seeds], root)[0]:
                return f"the simulation of {model}"
    return None


@contextmanager
def _planted(bug: Planted, root: Path) -> Iterator[None]:
    target = root / bug.file
    original = target.read_text(encoding="utf-8")
    target.write_text(bug.mutated(), encoding="utf-8")
    try:
        yield
    finally:
        target.write_text(original, encoding="utf-8")


def tests_of(bug: Planted) -> list[str]:
    """The tests that the bug's entry names; then those of its folder and those elsewhere that name its
    module, the nearest first; then the model of groups, for them.
    """
    source = Path(bug.file).relative_to("src/barnabas")
    nearness: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        place = path.relative_to(ROOT / "tests")
        near = _nearness(source, place, path.read_text(encoding="utf-8"))
        if place.parts[0] == bug.folder or (near >= _NAMES_IT and place.parts[0] not in FAR):
            nearness[f"tests/{place}"] = near
    ordered = sorted(nearness, key=lambda test: -nearness[test])
    models = [_MODEL_OF_GROUPS] if bug.folder == "coordinator" else []
    return list(dict.fromkeys([*bug.tests, *ordered, *models]))


_NAMES_IT = 10
_MODEL_OF_GROUPS = "tests/model/test_groups.py::test_no_seed_finds_anything"


def _nearness(source: Path, test: Path, text: str) -> int:
    """How likely a test file is to notice:
    it is named like the module, it imports it, it is named like its folder.
    """
    module = f"barnabas.{'.'.join(source.with_suffix('').parts)}"
    own, folder = set(source.stem.split("_")), set("_".join(source.parts[:-1]).split("_"))
    words = set("_".join(test.with_suffix("").parts).split("_"))
    return (
        _NAMES_IT * (own <= words)
        + _NAMES_IT * (f"{module} " in text)
        + 2 * len(own & words)
        + len(folder & words)
    )


def _failing_test(tests: Sequence[str], root: Path, *, marks: str = MARKS) -> str | None:
    quiet = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", marks)
    limit = f"--timeout={SECONDS_A_TEST}"
    code, output = _run([sys.executable, "-m", "pytest", *quiet, limit, *tests], root)
    if code in (0, _NOTHING_COLLECTED):
        return None
    failed = [
        line.split(" ", 1)[1].partition(" - ")[0]
        for line in output.splitlines()
        if line.startswith(("FAILED tests", "ERROR tests"))
    ]
    if code != _TESTS_FAILED and not failed:
        return f"the end of the test run with exit code {code}"
    return failed[0] if failed else "a test run without an end"


def _run(command: Sequence[str], root: Path) -> tuple[int, str]:
    """Runs a command on the mutated source, in a process group of its own:
    a hang ends with all it started.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(root / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "BARNABAS_TEST_SEEDS": str(SEEDS_IN_TESTS),
    }
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -d {MEMORY_KB_MAX}; exec "$@"', "sh", *command],
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
        return _TESTS_FAILED, ""
    return process.returncode, output
