"""A shell that runs the lines of a page as its reader does."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture
def shell(tmp_path):
    """Runs lines in one bash in an empty folder, with `barnabas` on the path, until what is printed matches;
    returns all that was printed. All that it started ends with it.
    """
    command = tmp_path / "bin" / "barnabas"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m barnabas "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    printed = tmp_path / "shell.out"
    with printed.open("wb") as output:
        bash = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            start_new_session=True,
            text=True,
        )

    def run(*lines: str, until: str, times: int = 1) -> str:
        bash.stdin.write("".join(f"{line}\n" for line in lines))
        bash.stdin.flush()
        deadline = time.monotonic() + 100
        while len(re.findall(until, printed.read_text(), re.MULTILINE)) < times:
            assert time.monotonic() < deadline, f"no {until!r}: {printed.read_text()[-2000:]}"
            time.sleep(0.02)
        return printed.read_text()

    yield run
    bash.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(bash.pid, signal.SIGKILL)
    bash.wait()


@pytest.fixture
def passes(tmp_path):
    """Runs the text of a test module, as its reader would; it has one test, which passes."""

    def run(text):
        (tmp_path / "test_page.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
            check=False,
            capture_output=True,
            text=True,
            timeout=110,
            cwd=tmp_path,
        )
        assert "1 passed" in done.stdout, done.stdout

    return run
