"""Completion in bash, by the script that docs/tools.md names."""

import shlex
import shutil
import subprocess
import sys

import pytest

from barnabas.cli.main import COMMANDS

COMPLETE = """
eval "$(_BARNABAS_COMPLETE=bash_source barnabas)"
COMP_WORDS=({words}) COMP_CWORD={last}
_barnabas_completion barnabas
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def completed(tmp_path):
    """What bash offers after these words."""
    command = tmp_path / "barnabas"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m barnabas "$@"\n')
    command.chmod(0o755)

    def offers(*words):
        text = COMPLETE.format(words=" ".join(map(shlex.quote, ["barnabas", *words])), last=len(words))
        path = f"{tmp_path}:/usr/bin:/bin"
        done = subprocess.run(
            [shutil.which("bash"), "-c", text],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == ""
        return done.stdout.split()

    return offers


def test_commands(completed):
    assert completed("") == list(COMMANDS)
    assert completed("gro") == ["groups"]


def test_options_of_a_command(completed):
    assert completed("topics", "--desc") == ["--describe"]
    assert completed("explain", "coord") == ["coordinator"]


def test_values_of_an_option(completed):
    assert completed("leader-election", "--election-type", "p") == ["preferred"]


def test_names_of_commands_are_offered_without_importing_them():
    script = (
        "import sys\n"
        "sys.argv = ['barnabas']\n"
        "import os\n"
        "os.environ['_BARNABAS_COMPLETE'] = 'bash_complete'\n"
        "os.environ.update(COMP_WORDS='barnabas ', COMP_CWORD='1')\n"
        "from barnabas.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('barnabas.cli.commands')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
