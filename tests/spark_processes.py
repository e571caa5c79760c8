"""Spark's own processes for tests:
a standalone master with workers, and a Spark Connect server, on the loopback.
"""

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pyspark

import barnabas
from barnabas.spark.java import java_home

HOME = Path(pyspark.__file__).parent
_START_S = 90


def environment(**more):
    """What a process of Spark needs: a Java, and this code for the Python workers that it starts."""
    sources = str(Path(barnabas.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH")]))
    fixed = {"SPARK_HOME": str(HOME), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
    fixed["PYSPARK_PYTHON"] = sys.executable
    return {**os.environ, **fixed, "PYTHONPATH": path, "SPARK_DAEMON_MEMORY": "192m", **more}


def run_to_its_end(script, file, *point):
    """Runs a program that stands beside the tests of Spark on a pipeline's file, until it dies at that point
    or, without one, has nothing left to do.
    """
    program = Path(__file__).parent / "spark" / script
    return subprocess.run(
        [sys.executable, str(program), str(file), *map(str, point)],
        capture_output=True, text=True, check=False, env=environment(), timeout=600,
    )  # fmt: skip


class SparkProcess:
    """One process; `match` is what its log said when it was ready."""

    def __init__(self, folder, name, command, ready, **variables):
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdout=log,
                stderr=log,
                env=environment(**variables),
                cwd=folder,
            )
        try:
            self.match = self._wait(ready)
        except BaseException:
            self.stop()
            raise

    def _wait(self, ready):
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            found = re.search(ready, self._log.read_text(errors="replace"))
            if found:
                return found
            time.sleep(0.1)
        raise RuntimeError(f"it did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def stop(self):
        """Ends the process."""
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(15)
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def standalone_cluster(folder, workers=2):
    """A master and workers of one core each; yields the master's address."""
    spark_class = HOME / "bin" / "spark-class"
    with contextlib.ExitStack() as stack:

        def start(name, *arguments, ready):
            process = SparkProcess(folder, name, [spark_class, *arguments], ready)
            stack.callback(process.stop)
            return process.match

        place = ["--host", "127.0.0.1", "--port", 0, "--webui-port", 0]
        master = start(
            "master",
            "org.apache.spark.deploy.master.Master",
            *place,
            ready=r"Starting Spark master at (spark://\S+)",
        )[1]
        for number in range(workers):
            worker = ["org.apache.spark.deploy.worker.Worker", *place, "-c", 1, "-m", "640m"]
            start(
                f"worker-{number}", *worker, "-d", folder / f"work-{number}", master,
                ready="Successfully registered with master",
            )  # fmt: skip
        yield master


@contextlib.contextmanager
def connect_server(folder, port):
    """A Spark Connect server; yields its address."""
    command = [
        HOME / "bin" / "spark-submit", "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false",
        "spark-internal",
    ]  # fmt: skip
    # The server runs the jobs itself, and takes this memory instead of a driver's.
    server = SparkProcess(
        folder, "connect", command, "Spark Connect server started", SPARK_DAEMON_MEMORY="768m"
    )
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()
