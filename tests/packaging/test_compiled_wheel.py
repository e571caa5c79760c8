"""The compiled wheel, as its users meet it:
built from the sdist, installed where there is no compiler, run.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from serving import die_with_parent, free_port

ROOT = Path(__file__).parent.parent.parent

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(1200)]


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=1000, **options
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """What `make wheel` builds, from the sdist;
    the compiler and mypy come into an environment of the build's own.
    """
    folder = tmp_path_factory.mktemp("compiled")
    backend = "import hatchling.build, sys; hatchling.build.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", backend, folder, cwd=ROOT)
    (sdist,) = folder.glob("*.tar.gz")
    # The wheel is judged and not its speed: without optimizing, the compiler takes a quarter of the time.
    environment = {**os.environ, "BARNABAS_COMPILE": "1", "CFLAGS": "-O0"}
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps")
    run(*pip, "--wheel-dir", folder, sdist, env=environment)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """(where its commands are, the environment that they run in): no compiler is to be found there."""
    environment = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--quiet")
    run(*pip, "--no-deps", "--no-index", wheel)
    # The dependencies come from this environment; PYTHONPATH runs no .pth files, so the checkout stays out of
    # reach.
    libraries = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    return environment / "bin", {"PATH": str(environment / "bin"), "PYTHONPATH": libraries}


@pytest.fixture
def address(installed, tmp_path):
    """A broker that runs from the wheel."""
    commands, environment = installed
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        broker = subprocess.Popen(
            [commands / "barnabas", "serve", "--data", tmp_path / "data", "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=tmp_path,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it makes a system call only
        )
    assert broker.stdout.readline().startswith(b"ready"), (tmp_path / "log").read_text()
    yield f"127.0.0.1:{port}"
    broker.terminate()
    broker.stdout.close()
    assert broker.wait(10) == 0, (tmp_path / "log").read_text()


def test_it_is_for_this_platform_and_holds_the_sources_too(wheel):
    assert re.search(r"-cp\d+-cp\d+-\w+\.whl$", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")} <= names
    assert any(name.startswith("barnabas/core/pending.") and name.endswith(".so") for name in names)


def test_it_says_that_it_is_compiled(installed, tmp_path):
    commands, environment = installed

    assert "(compiled)" in run(commands / "barnabas", "--version", env=environment, cwd=tmp_path)


def test_a_broker_serves_and_records_come_back(installed, address, tmp_path):
    commands, environment = installed

    def barnabas(*arguments, **options):
        command = (commands / "barnabas", arguments[0], "--bootstrap-server", address, *arguments[1:])
        return run(*command, env=environment, cwd=tmp_path, **options)

    barnabas("topics", "--create", "--topic", "greetings")
    values = [f"hello {number}" for number in range(100)]
    barnabas("produce", "--topic", "greetings", input="\n".join(values) + "\n")
    read = barnabas("consume", "--topic", "greetings", "--from-beginning", "--max-messages", "100")

    assert read.splitlines() == values
