"""The wheel and the sdist: built, installed into an environment of their own, run outside the checkout."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

BUILD = "import hatchling.build, sys; hatchling.build.build_{}(sys.argv[1])"

pytestmark = pytest.mark.timeout(300)


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """(wheel, sdist), built by the backend that pyproject names, from what is in the checkout."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-c", BUILD.format("sdist"), folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    # The wheel comes from the sdist: what is missing in one is missing in the other.
    run(sys.executable, "-c", BUILD.format("wheel"), folder, cwd=unpacked)
    (wheel,) = folder.glob("*.whl")
    return wheel, sdist


def test_the_wheel_holds_the_package_and_its_type_marker(distributions):
    wheel, _ = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert sources - names == set()
    assert "barnabas/py.typed" in names
    assert wheel.name.endswith("-py3-none-any.whl"), "what nobody asked to compile works everywhere"
    assert not {name for name in names if name.endswith((".so", "compiled.json"))}
    assert not {name for name in names if name.startswith(("tests", "bench", "docs"))}


def test_the_sdist_holds_what_a_packager_needs(distributions):
    _, sdist = distributions
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"} <= names
    assert not {name for name in names if "__pycache__" in name or name.endswith(".pyc")}


def test_the_installed_wheel_runs_outside_the_checkout(distributions, tmp_path):
    wheel, _ = distributions
    environment = tmp_path / "environment"
    # The dependencies come from this environment: what is tested is our wheel, not the index.
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    )
    (site,) = environment.glob("lib/python*/site-packages")
    elsewhere = {**os.environ, "PYTHONPATH": _without_editable_source()}

    version = run(environment / "bin" / "barnabas", "--version", cwd=tmp_path, env=elsewhere)
    home = run(python, "-c", "import barnabas; print(barnabas.__file__)", cwd=tmp_path, env=elsewhere)

    assert version.startswith("barnabas 0.")
    assert Path(home.strip()).is_relative_to(site)


def _without_editable_source():
    # PYTHONPATH does not run .pth files, so the editable install of the checkout stays out of reach.
    return os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
