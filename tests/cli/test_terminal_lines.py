"""Log lines of `serve`: for a person on a terminal, for programs elsewhere."""

import io
import logging
import os
import re
import signal
import subprocess
import sys

import pytest

from barnabas.cli.terminal_lines import line_formatter
from barnabas.core.eventlog import EventLog
from serving import free_port

TROUBLE = ("--set", "no.such.key=1")  # serve warns of it


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def written():
    """The lines that a stream gets from a piece of code that logs."""

    def run(stream, log):
        handler = logging.StreamHandler(stream)
        handler.setFormatter(line_formatter(stream))
        logger = logging.getLogger("barnabas")
        logger.addHandler(handler)
        try:
            log(EventLog("tried"))
        finally:
            logger.removeHandler(handler)
        return stream.getvalue()

    return run


def test_an_event_in_words(written):
    line = written(Terminal(), lambda log: log.warning("broker.ended", broker=2, exit_code=-9))
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d \x1b\[33mwarning \x1b\[0m broker ended  broker 2, exit_code -9\n", line
    )


def test_what_a_client_sends_moves_no_cursor(written):
    line = written(Terminal(), lambda log: log.error("client.odd", name="\x1b[2J\nready"))
    assert "\\x1b[2J\\nready" in line
    assert line.count("\n") == 1


def test_a_bug_keeps_its_traceback(written):
    def fail(log):
        try:
            raise RuntimeError("odd\x07")
        except RuntimeError:
            log.error("serve.bug", exc_info=True)  # noqa: G201 - an EventLog has no `exception`

    line = written(Terminal(), fail)
    assert "Traceback" in line
    assert "RuntimeError: odd\\x07" in line


def test_for_a_program(written):
    line = written(io.StringIO(), lambda log: log.warning("broker.ended", broker=2, exit_code=-9))
    assert line.endswith("WARNING barnabas.tried broker.ended broker=2 exit_code=-9\n")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", line)


def test_serve_on_a_terminal(tmp_path):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "barnabas", "serve", "--data", str(tmp_path / "data")]
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [*command, "--port", str(free_port()), *TROUBLE], stdout=theirs, stderr=theirs, stdin=theirs
        )
        os.close(theirs)
        shown = b""
        while b"ready " not in shown:
            shown += screen.read(65536)
        process.send_signal(signal.SIGTERM)
        try:
            while chunk := screen.read(65536):
                shown += chunk
        except OSError:
            pass  # a terminal without writers
        assert process.wait(30) == 0
    assert re.search(rb"\d\d:\d\d:\d\d \x1b\[33mwarning \x1b\[0m [a-z ]+  .*no\.such\.key", shown), shown
