"""The first hour goes as its page says: commands, their lines, the program and the test."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from serving import free_port

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "first-hour.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.timeout(120)
def test_the_commands_print_what_the_page_says_and_the_program_runs(shell, tmp_path):
    at = f"127.0.0.1:{free_port()}"
    (serve, ready), work, _ = (
        block.replace("127.0.0.1:9092", at).splitlines() for block in blocks("console")
    )
    shell(f"{serve[2:]} --port {at.partition(':')[2]} &", until=f"^{re.escape(ready)}")
    shell(
        *(line[2:] for line in work if line[0] == "$"),
        until="CLIENT-ID",
    )
    printed = (tmp_path / "shell.out").read_text().splitlines()
    assert {line for line in work if line[0] != "$"} <= set(printed)

    (tmp_path / "program.py").write_text(blocks("python")[0].replace("127.0.0.1:9092", at))
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.startswith("stored in partition ")
    assert done.stdout.count("b'hello") == 2


def test_what_is_said_when_nobody_is_there(shell):
    command, *said = blocks("console")[2].splitlines()
    printed = shell(f"{command[2:]}; echo ended $?", until="^ended 1$")
    assert printed.splitlines()[:-1] == said


def test_the_test_of_the_page_passes(passes):
    passes(blocks("python")[1])


def test_every_example_is_in_the_guides():
    guides = (ROOT / "docs" / "guides.md").read_text()
    shown = set(re.findall(r"literalinclude\} \.\./examples/(\w+\.py)", guides))
    assert shown == {path.name for path in (ROOT / "examples").glob("*.py")}
