"""Runs tests with the oldest and with the newest packages that pyproject.toml allows (`make bounds`).

    python .ci/bounds.py [--end oldest|newest]... [--python PATH] [--keep FOLDER] [TESTS...]

For each end an environment is made with everything that the extra ``dev`` names: at the oldest end each of
these packages in the lowest version that its bound allows, at the newest in the highest. What they need
themselves is the newest at both ends. Then the versions are printed, and the tests run that reach these
packages through the product: codecs and columns, clients of others, TLS, tools, console, Spark, tables.
It takes minutes, and two gigabytes from the package index.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RESOLUTIONS: Final = {"oldest": "lowest-direct", "newest": "highest"}
"""An end, and uv's word for it. pip has none for the oldest."""
TESTS: Final = [
    f"tests/{name}"
    for name in (
        "records",
        "client/test_arrow.py",
        "client/test_telemetry.py",
        "clients/test_aiokafka.py",
        "clients/test_confluent.py",
        "clients/test_kafka_python.py",
        "clients/test_secure_clients.py",
        "network",
        "cli/test_commands.py",
        "cli/test_terminal_lines.py",
        "console/test_views.py",
        "spark/test_source.py",
        "spark/test_sink.py",
        "spark/test_pipeline_formats.py",
        "spark/test_pipeline_lake.py",
        "spark/test_pipeline_lineage.py",
    )
]
_VERSIONS: Final = """
import importlib.metadata, json
there = importlib.metadata.distributions()
print(json.dumps({one.name.lower().replace("_", "-"): one.version for one in there}))
"""


def requirements(root: Path, extra: str) -> Iterator[tuple[str, str]]:
    """The packages that the project names for an extra, through extras of its own too, with their bounds."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    waiting, done = [*project["dependencies"], f"{project['name']}[{extra}]"], set()
    while waiting:
        name, extras, bounds = _parts(waiting.pop())
        if name != project["name"]:
            yield name, bounds
            continue
        for one in extras - done:
            done.add(one)
            waiting += project["optional-dependencies"][one]


def _parts(requirement: str) -> tuple[str, set[str], str]:
    found = re.fullmatch(r"([\w.-]+)(?:\[([\w,-]+)\])?(.*)", requirement)
    assert found is not None, requirement
    return found[1].lower(), set((found[2] or "").split(",")) - {""}, found[3]


def make(folder: Path, end: str, interpreter: Path, uv: Path) -> Path:
    """The environment of an end, with this checkout in it; its Python."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    install = [uv, "pip", "install", "--quiet", "--python", python]
    packages = ["--resolution", RESOLUTIONS[end], "-r", "pyproject.toml", "--extra", "dev"]
    subprocess.run([*install, *packages], cwd=ROOT, check=True)
    subprocess.run([*install, "--no-deps", "--editable", "."], cwd=ROOT, check=True)
    return python


def print_versions(python: Path) -> None:
    """One line for each package that pyproject.toml names: its bounds, and what is there."""
    said = subprocess.run([python, "-c", _VERSIONS], check=True, capture_output=True, text=True).stdout
    there = json.loads(said)
    for name, bounds in sorted(set(requirements(ROOT, "dev"))):
        print(f"  {name:22} {bounds:12} {there[name]}")


def run_tests(python: Path, tests: list[str]) -> int:
    """Pytest's exit code. A warning of an old package is none of our mistakes, so it is no error here."""
    marks = "not campaign and not jvm and not compiled"
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", "-m", marks, *tests]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=ROOT, check=False, env=os.environ | {"PATH": path}).returncode


def main() -> int:
    """The exit code: 0 where the tests pass at each end."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--end", action="append", choices=[*RESOLUTIONS], help="one of the ends alone")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), metavar="PATH")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the environments in this folder")
    parser.add_argument("tests", nargs="*", help="other tests than those of each package")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="barnabas-bounds-") as temporary:
        tools = Path(temporary, "tools")
        subprocess.run([sys.executable, "-m", "venv", tools], check=True)
        subprocess.run([tools / "bin" / "python", "-m", "pip", "--quiet", "install", "uv>=0.5"], check=True)
        for end in given.end or RESOLUTIONS:
            folder = Path(given.keep or temporary, end)
            print(f"{end}: {folder}", flush=True)
            python = make(folder, end, given.python, tools / "bin" / "uv")
            print_versions(python)
            failed |= run_tests(python, given.tests or TESTS)
    return failed


if __name__ == "__main__":
    sys.exit(main())
