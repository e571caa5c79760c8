"""Commands that need Spark end in the time that they are given, where a cluster does not answer."""

import socket
import time

import pytest
from click.testing import CliRunner

import barnabas.spark.demo.run
import barnabas.spark.pipeline.drafts.draft  # noqa: F401 - read before the time of a command is taken
from barnabas.cli.main import cli
from barnabas.spark import java

GIVEN_MS = 60
MORE_S = 25
"""What a command may take more: flights are read. Less than the demo would wait by itself."""


@pytest.fixture
def silent():
    """The address of somebody who takes connections and says nothing."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen(100)
        yield f"127.0.0.1:{one.getsockname()[1]}"


@pytest.mark.parametrize("command", ["demo --flights 1000 --out {out}", "pipeline init {out}.toml --topic t"])
def test_a_command_ends_in_its_time(command, silent, tmp_path, monkeypatch):
    monkeypatch.setattr(java, "java_home", lambda: "/no/java/is/started")
    arguments = command.format(out=tmp_path / "out").split()
    started = time.monotonic()
    done = CliRunner().invoke(cli, [*arguments, "--bootstrap-server", silent, "--timeout", str(GIVEN_MS)])
    assert time.monotonic() - started < GIVEN_MS / 1000 + MORE_S
    assert f" in {GIVEN_MS} ms" in str(done.exception), done.output
