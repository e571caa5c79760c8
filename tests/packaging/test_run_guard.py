"""`make test` ends, says why, and leaves no process behind, whatever is done to it:
small runs with the same guard.
"""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from serving import die_with_parent

TESTS = Path(__file__).parents[1]
CONFTEST = """
import run_guard

def pytest_configure(config):
    config.pluginmanager.register(run_guard)
"""
CHILD = """
import subprocess, sys

def child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", {mark!r}], start_new_session=True)
"""
WORKERS = ("-n", "2", "--dist", "loadfile", "--max-worker-restart=0")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what the guard does rests on Linux")


class Run:
    """A suite in a folder of its own, and what has come of it."""

    def __init__(self, folder, **files):
        self.folder = folder
        (folder / "conftest.py").write_text(CONFTEST)
        for name, text in files.items():
            source = CHILD.format(mark=str(folder)) + textwrap.dedent(text)
            (folder / f"{name}.py").write_text(source)

    def start(self, *options, **limits):
        surroundings = {
            "PYTHONPATH": str(TESTS),
            **{f"BARNABAS_TEST_{key}": str(limits[key]) for key in limits},
        }
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            os.devnull,
            "--rootdir",
            ".",
            "-p",
            "no:cacheprovider",
            # It starts in a second: the time of a run is a few.
            "--disable-plugin-autoload",
            "-p",
            "xdist",
        ]
        return subprocess.Popen(
            [*command, *options, "."],
            cwd=self.folder,
            env={**os.environ, **surroundings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes a system call only
        )

    def end(self, *options, **limits):
        """The exit code, and what was printed."""
        process = self.start(*options, **limits)
        output, _ = process.communicate(timeout=90)
        return process.returncode, output

    def left(self):
        """The processes of its tests that are still there."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(self.folder) in path.read_text():
                    found.append(int(path.parent.name))
        return found


FINE = "def test_fine(): child()"


@pytest.mark.parametrize("workers", [WORKERS, ()], ids=["workers", "alone"])
def test_a_run_that_is_fine(tmp_path, workers):
    run = Run(tmp_path, test_a=FINE, test_b=FINE)
    code, output = run.end(*workers)

    assert code == 0, output
    assert "2 passed" in output
    assert run.left() == []


def test_a_worker_that_is_killed_ends_the_run(tmp_path):
    run = Run(
        tmp_path,
        test_a="""
        import os
        def test_killed(): child(); os.kill(os.getpid(), 9)
        """,
        test_b=FINE,
    )
    code, output = run.end(*WORKERS)

    assert code == 1, output
    assert "crashed while running 'test_a.py::test_killed'" in output
    assert "worker restarting disabled" in output
    assert run.left() == []


HUNGRY = """
def test_hungry():
    child()
    kept = []
    while True:
        kept.append(bytearray(1 << 20))
"""


@pytest.mark.parametrize("workers", [WORKERS, ()], ids=["workers", "alone"])
def test_a_test_that_takes_too_much_memory_fails_and_the_others_run(tmp_path, workers):
    run = Run(tmp_path, test_a=HUNGRY, test_b=FINE)
    code, output = run.end(*workers, MEMORY_MB=250)

    assert code == 1, output
    assert "TooMuchMemoryError: test_a.py::test_hungry takes" in output
    assert "1 failed, 1 passed" in output
    assert run.left() == []


def test_a_test_that_gives_no_memory_back_ends_its_worker(tmp_path):
    run = Run(
        tmp_path,
        test_a="""
        def test_greedy():
            kept = []
            while True:
                try:
                    kept.append(bytearray(1 << 20))
                except MemoryError:
                    pass
        """,
        test_b=FINE,
    )
    code, output = run.end(*WORKERS, MEMORY_MB=250)

    assert code == 1, output
    assert "test_greedy takes" in output
    assert "frees nothing" in output
    assert "crashed while running 'test_a.py::test_greedy'" in output
    assert run.left() == []


ENDLESS = """
import time
def test_endless():
    child()
    time.sleep(600)
"""


def test_a_run_that_takes_too_long_ends_and_names_what_was_running(tmp_path):
    run = Run(tmp_path, test_a=ENDLESS, test_b=ENDLESS.replace("endless", "sleepy"))
    for minutes in (0.1, 0.7):
        code, output = run.end(*WORKERS, RUN_MINUTES=minutes)
        if "test_endless for" in output and "test_sleepy for" in output:
            break  # on a busy machine both may not have begun before the time is over

    assert code == 70, output
    assert f"The tests took more than {minutes} minutes (BARNABAS_TEST_RUN_MINUTES)" in output
    assert "test_a.py::test_endless for" in output
    assert "test_b.py::test_sleepy for" in output
    assert run.left() == []


def test_workers_and_what_they_started_end_with_pytest(tmp_path):
    """Their servers do by `die_with_parent`, as every broker of a test does."""
    run = Run(
        tmp_path,
        test_a=f"""
        import subprocess, sys, time
        from serving import die_with_parent
        def test_endless():
            command = [sys.executable, "-c", "import time; time.sleep(600)", {str(tmp_path)!r}]
            subprocess.Popen(command, preexec_fn=die_with_parent)
            open("started", "w").close()
            time.sleep(600)
        """,
    )
    process = run.start(*WORKERS)
    until((tmp_path / "started").exists)
    assert run.left()
    process.send_signal(signal.SIGKILL)
    process.communicate()

    until(lambda: run.left() == [])


def until(true, seconds=30):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
