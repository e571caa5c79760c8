"""One connector in a session of its own: the processes that its first stream starts, and the memory behind a
read.

python -m bench.spark.alone FORMAT HOST:PORT TOPIC FOLDER JARS

FORMAT `bare` is a Python source that does nothing: the processes that it has are what PySpark's API takes.
Prints a line of JSON.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from barnabas.spark import sessions
from bench.processes import command_of, proportional_mb, tree_of
from bench.spark.streams import batches_of, started, trickle
from bench.spark.world import PARTITIONS, Connector, World

_LOOK_S = 0.03  # a worker lives longer, and looking takes time from it


class _BareReader(DataSourceReader):
    def partitions(self):
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition):
        yield (b"x", partition.value)


class _BareStream(DataSourceStreamReader):
    """A row in each partition whenever it is asked."""

    def initialOffset(self):  # noqa: N802 - PySpark's names
        return {"at": 0}

    def latestOffset(self, start, limit):  # noqa: ARG002, N802
        return {"at": start["at"] + 1}

    def partitions(self, start, end):  # noqa: ARG002
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition):
        yield (b"x", partition.value)


class Bare(DataSource):
    """A source that has a stream and does nothing."""

    @classmethod
    def name(cls):
        return "bare"

    def schema(self):
        return "value binary, partition int"

    def reader(self, schema):  # noqa: ARG002
        return _BareReader()

    def streamReader(self, schema):  # noqa: ARG002, N802
        return _BareStream()


@contextlib.contextmanager
def python_processes() -> Iterator[dict[tuple[int, str], str]]:
    """The Python processes that are below this one at some moment of the block, and were not before it.

    By process id and start; each as the module that it runs, of a forked one with that of its daemon.
    """
    found: dict[tuple[int, str], str] = {}
    before = set(_pythons())
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(_LOOK_S):
            for key, module in _pythons().items():
                if key not in before:
                    found.setdefault(key, module)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


def _pythons() -> dict[tuple[int, str], str]:
    found = {}
    for pid in tree_of(os.getpid())[1:]:
        command = command_of(pid)
        if command and "python" in Path(command[0]).name:
            with contextlib.suppress(OSError):
                since = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
                found[pid, since] = " ".join(command[command.index("-m") + 1 :])
    return found


def _jvm() -> int:
    """The process id of the JVM of this session."""
    return next(pid for pid in tree_of(os.getpid()) if Path((command_of(pid) or [""])[0]).name == "java")


def _session(format_name: str, jars: str, folder: Path) -> SparkSession:
    config = {"spark.driver.memory": "2g"} | ({"spark.jars": jars} if jars else {})
    return sessions.make("alone", master="local[2]", config=config, log_file=folder / f"{format_name}.log")


def main() -> int:
    """Prints what was found."""
    format_name, address, topic, folder, jars = sys.argv[1:]
    spark = _session(format_name, jars, Path(folder))
    spark.dataSource.register(Bare)
    side = Connector(format_name, format_name, World(spark, address, Path(folder), None, jars, 0, topic))
    with trickle(address, topic), python_processes() as processes:
        begun = time.monotonic()
        with started(side, topic) as query:
            batches_of(query, 1)
            first_batch_s = time.monotonic() - begun
    side.read(topic).write.format("noop").mode("overwrite").save()
    jvm = _jvm()
    workers = [pid for pid in tree_of(jvm) if pid != jvm]
    found = {
        "processes": sorted(processes.values()),
        "first_batch_s": first_batch_s,
        "jvm_mb": proportional_mb([jvm]),
        "driver_mb": proportional_mb([os.getpid()]),
        "workers_mb": proportional_mb(workers),
    }
    spark.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
