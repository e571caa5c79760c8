"""A fake cluster on a thread of its own, and the command line run in this process."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
sys.path.insert(0, str(Path(__file__).parent.parent / "admin"))

import pytest
from click.testing import CliRunner
from fake_cluster import FakeCluster
from fake_groups import FakeGroups

from barnabas.cli import main as main_module


@pytest.fixture
def cluster():
    """A running cluster of one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    made = asyncio.run_coroutine_threadsafe(FakeCluster().start(), loop).result(5)
    yield made
    asyncio.run_coroutine_threadsafe(made.stop(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def groups(cluster):
    """The groups that the cluster coordinates, by name."""
    return FakeGroups(cluster)


@pytest.fixture
def barnabas(monkeypatch):
    """Runs ``barnabas ARGUMENTS`` through its real entry point; the result has stdout, stderr, exit_code."""

    def run(*arguments, stdin=""):
        import click

        @click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
        def entry():
            main_module.main()

        monkeypatch.setattr(sys, "argv", ["barnabas", *arguments])
        return CliRunner().invoke(entry, [], input=stdin, standalone_mode=True)

    return run


@pytest.fixture
def on_terminal():
    """What ``barnabas ARGUMENTS`` writes on a terminal of 200 columns."""

    def run(*arguments):
        command = [sys.executable, "-m", "barnabas.cli.main", *arguments]
        ours, theirs = os.openpty()
        surroundings = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
        with os.fdopen(ours, "rb", buffering=0) as screen:
            process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=surroundings)
            os.close(theirs)
            shown = b""
            try:
                while chunk := screen.read(65536):
                    shown += chunk
            except OSError:
                pass  # that is how a terminal says that nobody writes any more
            assert process.wait(20) == 0, shown
        return shown.decode().replace("\r\n", "\n")

    return run
