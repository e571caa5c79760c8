"""The process that plans a stream calls back to Spark's JVM before it loads anything that is large."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas.spark
from barnabas.spark import sessions

EARLY = str(Path(barnabas.spark.__file__).with_name("early"))
RUNNER = """
import json, os, socket, sys
from pyspark.worker_util import get_sock_file_to_executor
def other(name):
    with socket.create_connection(("127.0.0.1", int(sys.argv[-1]))) as connection:
        connection.sendall(name)
other(b"early")
with get_sock_file_to_executor(timeout=None) as file:
    other(b"later")
    file.write(json.dumps({"pid": os.getpid()}).encode() + b"\\n")
    file.flush()
    assert file.readline() == b"bye\\n"
"""


def started(listener, environment, *arguments):
    """A process as Spark starts it, with an argument that makes it one that plans streams."""
    host = listener.getsockname()
    address = (
        {"PYTHON_WORKER_FACTORY_SOCK_PATH": host}
        if isinstance(host, str)
        else {"PYTHON_WORKER_FACTORY_PORT": str(host[1]), "PYTHON_WORKER_FACTORY_SECRET": "secret"}
    )
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, *arguments],
        env={**os.environ, **environment, **address, "PYTHONPATH": EARLY, "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.fixture(params=["unix", "tcp"])
def listener(request, tmp_path):
    """Where the JVM would listen."""
    kind = socket.AF_UNIX if request.param == "unix" else socket.AF_INET
    with socket.socket(kind) as found:
        found.settimeout(60)
        found.bind(str(tmp_path / "jvm") if kind == socket.AF_UNIX else ("127.0.0.1", 0))
        found.listen()
        yield found


@pytest.mark.parametrize("plans", [True, False])
def test_pyspark_gets_the_connection_and_all_others_are_as_ever(listener, plans):
    names = ["pyspark.sql.streaming.python_streaming_source_runner"] if plans else []
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(60)
        with started(listener, {}, *names, str(other.getsockname()[1])) as process:
            connection, _ = listener.accept()
            listener.close()  # as Spark does: there is one connection
            connection.settimeout(60)
            with connection, connection.makefile("rwb") as file:
                if listener.family == socket.AF_INET:
                    assert file.read(int.from_bytes(file.read(4))) == b"secret"
                    file.write((2).to_bytes(4) + b"ok")
                    file.flush()
                assert int.from_bytes(file.read(4)) == process.pid
                assert json.loads(file.readline())["pid"] == process.pid
                for name in (b"early", b"later"):
                    one, _ = other.accept()
                    with one:
                        assert one.recv(5) == name
                file.write(b"bye\n")
                file.flush()
                assert process.wait(60) == 0


def test_it_is_made_while_nothing_large_is_loaded(tmp_path):
    """What was loaded at that moment counts, not how long it took."""
    program = (
        "import sys, socket\n"
        "connect = socket.socket.connect\n"
        "def told(self, address):\n"
        "    print(sorted({'numpy', 'pyarrow', 'pyspark'} & sys.modules.keys()))\n"
        "    return connect(self, address)\n"
        "socket.socket.connect = told\n"
    )
    (tmp_path / "site").mkdir()
    # Runs before: its folder comes first on the path, and it runs the other one itself.
    (tmp_path / "site" / "sitecustomize.py").write_text(
        program + f"import runpy; runpy.run_path({str(Path(EARLY) / 'sitecustomize.py')!r})\n"
    )
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "jvm"))
        listener.listen()
        run = subprocess.run(
            [sys.executable, "-c", "print('main')", "pyspark.sql.streaming.python_streaming_source_runner"],
            env={
                "PYTHONPATH": str(tmp_path / "site"),
                "PYTHON_WORKER_FACTORY_SOCK_PATH": str(tmp_path / "jvm"),
            },
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert run.stdout.splitlines()[0] == "[]"
    assert run.stdout.splitlines()[-1] == "main"


@pytest.mark.parametrize("address", [{}, {"PYTHON_WORKER_FACTORY_SOCK_PATH": "/nowhere/jvm"}])
def test_where_nobody_listens_pyspark_says_so(address):
    run = subprocess.run(
        [sys.executable, "-c", "print('main')", "pyspark.sql.streaming.python_streaming_source_runner"],
        env={"PYTHONPATH": EARLY, **address}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (run.stdout, run.stderr) == ("main\n", "")


def test_a_sitecustomize_of_the_users_runs_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    run = subprocess.run(
        [sys.executable, "-c", "print('main')"], env={"PYTHONPATH": os.pathsep.join([EARLY, str(tmp_path)])},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert run.stdout.split() == ["mine", "main"]


def test_the_users_path_of_workers_stays():
    environment = {"PYTHONPATH": "/a:/b"}
    for _ in range(2):  # a second session registers again
        sessions._set_workers_environment(environment)
    assert environment["PYTHONPATH"] == os.pathsep.join([EARLY, "/a", "/b"])
    assert environment["SPARK_PYTHON_RUNTIME"] == "PYTHON_WORKER"
