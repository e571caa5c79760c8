"""The wheel and the sdist: built, installed into an environment of their own, run outside the checkout."""

import importlib.metadata
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


def test_the_sdist_holds_what_git_has_so_that_its_tests_run(distributions):
    _, sdist = distributions
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    if not (ROOT / ".git").exists():
        pytest.skip("this is an sdist itself")
    there = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    assert names == {*there, "PKG-INFO"}


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """An environment that has the wheel, and the folder in it where the wheel is."""
    wheel, _ = distributions
    environment = tmp_path_factory.mktemp("installed") / "environment"
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
    return environment, site


def test_the_installed_wheel_runs_outside_the_checkout(installed, tmp_path):
    environment, site = installed
    python = environment / "bin" / "python"
    elsewhere = {**os.environ, "PYTHONPATH": _without_editable_source()}

    version = run(environment / "bin" / "barnabas", "--version", cwd=tmp_path, env=elsewhere)
    home = run(python, "-c", "import barnabas; print(barnabas.__file__)", cwd=tmp_path, env=elsewhere)

    assert version.startswith("barnabas 0.")
    assert Path(home.strip()).is_relative_to(site)


OF_A_PROJECT = """
import barnabas
from barnabas.client import Producer

def test_the_fixture_is_there(kafka, kafka_topic):
    with Producer(kafka.bootstrap_servers) as producer:
        assert producer.send(kafka_topic, b"").result().offset == 0
    assert barnabas.__file__.startswith({site!r})
"""


def test_pytest_finds_the_fixtures_of_the_installed_wheel(installed, tmp_path):
    environment, site = installed
    (ours,) = (each for each in importlib.metadata.distributions(path=[str(site)]) if each.name == "barnabas")
    (plugin,) = ours.entry_points.select(group="pytest11")
    assert (plugin.name, plugin.value) == ("barnabas", "barnabas.testing.plugin")
    (tmp_path / "test_of_a_project.py").write_text(OF_A_PROJECT.format(site=str(site)))
    elsewhere = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    elsewhere["PYTHONPATH"] = _without_editable_source()
    said = run(
        environment / "bin" / "python",
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path),
        cwd=tmp_path,
        env=elsewhere,
    )
    assert "1 passed" in said


def _without_editable_source():
    # PYTHONPATH does not run .pth files, so the editable install of the checkout stays out of reach.
    return os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
