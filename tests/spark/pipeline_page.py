"""A reader of a page about a pipeline: writes its files, types its commands, and sees what they must print.

A block of code behind a line such as "`flights.toml`:" is a file. In a block ``console`` a line that begins
with ``$ `` is a command, with its here-document, and the others are what it prints: each line, where ``...``
stands for any text and the width of gaps does not count.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from barnabas.cli.main import cli
from barnabas.core.errors import BarnabasError

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"(?:`([\w.-]+)`[^\n`]*:\n\n)?^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_END_OF_ARROW = "terminate called without an active exception"
"""What C++ may say on a busy machine where a thread of Arrow's is left when Python has ended."""
_DOCUMENT = re.compile(r"<<(\w+)$")


class Reader:
    """Does a page in a folder, with the addresses that it names replaced by others."""

    def __init__(self, page: str, folder: Path, addresses: dict[str, str]) -> None:
        self.folder = folder
        self.text = (DOCS / page).read_text(encoding="utf-8")
        for named, real in addresses.items():
            self.text = self.text.replace(named, real)
        tools = folder / "bin"
        tools.mkdir()
        for name, words in (("barnabas", "-m barnabas "), ("python", "")):
            path = tools / name
            path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words}"$@"\n')
            path.chmod(0o755)
        self._environment = os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}

    def read(self) -> int:
        """Goes through the page; how many commands it had."""
        commands = 0
        for name, language, text in _BLOCK.findall(self.text):
            if language == "console":
                for command, printed in _commands(text):
                    commands += 1
                    self._compare(command, printed)
            else:
                (self.folder / name).write_text(text, encoding="utf-8")
        return commands

    def _compare(self, command: str, expected: list[str]) -> None:
        found = self.run(command)
        fits = len(found) == len(expected) and all(map(_fits, found, expected))
        assert fits, "\n".join([f"$ {command}", "prints", *found, "and the page says", *expected])

    def run(self, command: str) -> list[str]:
        """What a command prints. Those of pipelines run in this process, in the one Spark of the tests."""
        words = [] if "|" in command or "<" in command else shlex.split(command)
        if words[:2] == ["barnabas", "pipeline"]:
            done = CliRunner().invoke(cli, words[1:])
            lines = done.output.splitlines()
            if isinstance(done.exception, BarnabasError):
                lines.append(f"Error: {done.exception}")
            elif done.exception is not None and not isinstance(done.exception, SystemExit):
                raise done.exception
            return lines
        shell = subprocess.run(
            ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            cwd=self.folder, env=self._environment, timeout=100,
        )  # fmt: skip
        lines = shell.stdout.splitlines()
        return lines[:-1] if lines[-1:] == [_END_OF_ARROW] else lines


def _commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it prints."""
    lines = iter(text.splitlines())
    command, printed = "", list[str]()
    for line in lines:
        if not line.startswith("$ "):
            printed.append(line)
            continue
        if command:
            yield command, printed
        command, printed = line[2:], []
        if document := _DOCUMENT.search(line):
            for more in lines:
                command += f"\n{more}"
                if more == document[1]:
                    break
    yield command, printed


def _fits(found: str, expected: str) -> bool:
    parts = " ".join(expected.split()).split("...")
    return re.fullmatch(".*".join(map(re.escape, parts)), " ".join(found.split())) is not None
