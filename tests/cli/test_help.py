"""Help that teaches: every command has examples, each on a line of its own, and its row on the page."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from barnabas.cli.main import COMMANDS, cli


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_stand_on_lines_of_their_own(command):
    shown = CliRunner().invoke(cli, [command, "--help"])

    assert shown.exit_code == 0
    assert "\\b" not in shown.output
    examples = shown.output.partition("Examples:")[2].splitlines()
    assert any(line.strip().startswith(f"barnabas {command}") for line in examples)


def test_each_command_has_its_row_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()

    assert [command for command in COMMANDS if f"\n| `barnabas {command}" not in page] == []
