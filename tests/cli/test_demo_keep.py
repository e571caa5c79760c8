"""``barnabas demo --keep``: what to do next is printed; on a terminal the console opens, a script goes on.

The demo itself is run by `make demo`; here it has just ended, on a broker that stays.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

pytest.importorskip("fastapi", reason="the console is an extra")

ENDED = """
import sys
from pathlib import Path
import barnabas.spark.demo.run as demo
from barnabas.cli.commands.console import console
from barnabas.spark.demo.next_steps import Run

out = Path({out!r})
left = Run({at!r}, out, broker=False)
demo.run = lambda settings, _console: demo.DemoOutcome(None, out / "report.html", out / "table", None, left)
for option in console.params:
    if option.name == "port":
        option.default = 0  # 8989 may be somebody else's
sys.argv = ["barnabas", "demo", "--keep", "--out", str(out), "--bootstrap-server", {at!r}]
from barnabas.cli.main import main
sys.exit(main())
"""
A_WHILE_S = 60


@pytest.fixture
def ended(kafka, tmp_path):
    """The command and its arguments, for when the demo has ended."""
    return [sys.executable, "-c", ENDED.format(out=str(tmp_path), at=kafka.bootstrap_servers)]


def shown_until(terminal, pattern, shown=""):
    """What a terminal has shown once it matches."""
    deadline = time.monotonic() + A_WHILE_S
    while not re.search(pattern, shown):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, shown
        shown += os.read(terminal, 4096).decode()
    return shown


def test_on_a_terminal_the_console_opens_and_ends_with_ctrl_c(ended, tmp_path):
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        ended, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=tmp_path
    )
    os.close(theirs)
    try:
        shown = shown_until(mine, r"http://127\.0\.0\.1:\d+")
        assert shown.index("The broker is still there. Try:") < shown.index("The console opens now")
        assert "topics --bootstrap-server" in shown
        with urllib.request.urlopen(
            re.search(r"http://127\.0\.0\.1:\d+", shown)[0], timeout=A_WHILE_S
        ) as page:
            assert page.status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(A_WHILE_S) in (0, 1, 130, -signal.SIGINT)
    finally:
        process.kill()
        process.wait()
        os.close(mine)


def test_a_script_goes_on(ended):
    done = subprocess.run(ended, check=False, capture_output=True, text=True, timeout=A_WHILE_S)
    assert done.returncode == 0, done.stderr
    assert "The broker is still there. Try:" in done.stdout
    assert "The console opens now" not in done.stdout
