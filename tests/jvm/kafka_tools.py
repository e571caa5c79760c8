"""Kafka's tools in one JVM, and ours in this process: many runs of either cost little more than one."""

import base64
import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Self
from unittest import mock

import kafka_harness

from barnabas.cli import main as entry
from serving import die_with_parent

SEPARATOR = "\x1f"


class Run(NamedTuple):
    """What a tool printed, and its exit code."""

    code: int
    out: str
    err: str


class KafkaTools:
    """A JVM that runs tools of Kafka's `bin` folder until it is closed (`KafkaTools.java`)."""

    def __init__(self, version: str = kafka_harness.ZOOKEEPER_ERA) -> None:
        self._version = version
        source = Path(__file__).with_name("KafkaTools.java")
        command = kafka_harness.java_command(version, str(source), kafka_harness.TOOL_OPTIONS)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - no thread runs while it is started
        )

    def __call__(self, name: str, *arguments: str) -> Run:
        """Runs a tool by the name of its script, to its end."""
        line = SEPARATOR.join((kafka_harness.main_class(name, self._version), *arguments))
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        code, out, err = self._process.stdout.readline().rstrip("\n").split("\t")
        return Run(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def ours(*arguments: str) -> Run:
    """Runs ``barnabas ARGUMENTS`` through its entry point."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", ["barnabas", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            entry.main()
        except SystemExit as ended:
            return Run(ended.code, out.getvalue(), err.getvalue())
    raise AssertionError("the entry point returned")
