"""Help that teaches: every command has examples, each on a line of its own."""

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
