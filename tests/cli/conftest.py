"""A fake cluster and its groups, and the command line run in this process."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from barnabas.cli import main as main_module
from fake_groups import FakeGroups


@pytest.fixture
def cluster(background_cluster):
    """A running cluster of one."""
    return background_cluster


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
        mask = os.umask(0o077)
        os.umask(mask)
        try:
            # A bug of a command shows its traceback here, as it does to a user.
            return CliRunner().invoke(entry, [], input=stdin, standalone_mode=True, catch_exceptions=False)
        finally:
            os.umask(mask)  # `serve` sets it for its process, which here is that of other tests too

    return run


@pytest.fixture
def on_terminal():
    """What ``barnabas ARGUMENTS`` writes on a terminal of 200 columns."""

    def run(*arguments):
        command = [sys.executable, "-m", "barnabas", *arguments]
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
                pass  # that is how a terminal says that it has no writer any more
            assert process.wait(20) == 0, shown
        return shown.decode().replace("\r\n", "\n")

    return run
