"""A Spark session that works from pip alone, with the settings that a Python data source wants."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final[Mapping[str, str]] = {
    # Halves what a Python task costs: no Nagle, no delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "barnabas.spark.daemon",
    # Hadoop forks `chmod` for each checkpoint file; this saves half of a micro-batch's log writing.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
}
_LOCAL: Final[Mapping[str, str]] = {
    # A machine without a network, or with one whose name leads elsewhere, is no obstacle.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def make(
    name: str = "barnabas",
    *,
    master: str | None = None,
    config: Mapping[str, Any] | None = None,
    log_level: str = "ERROR",
    log_file: str | Path | None = None,
) -> "SparkSession":
    """A session that knows the data source.

    `master` is all cores of this machine with four tries a task, unless given. `config` adds to the settings
    or overrides them. With `log_file` everything that the JVM would print goes there. Raises
    JavaNotFoundError where neither the machine nor pip has a Java.
    """
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java.java_home())
    # Without it the workers run `python3` from PATH, which has not what this one has.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    master = master or f"local[{cores()},4]"
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings(master, config or {}).items():
        builder = builder.config(key, value)
    with _stderr_to(log_file):
        spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level)
    register(spark)
    return spark


def register(spark: "SparkSession") -> None:
    """Makes ``format("barnabas")`` known to a session that was made elsewhere."""
    from barnabas.spark.source import TopicSource

    spark.dataSource.register(TopicSource)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0))


def settings(master: str, config: Mapping[str, Any]) -> dict[str, str]:
    """All settings of a session with these additions, as Spark's texts."""
    given = {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()
    }
    local = _LOCAL if master.startswith("local") else {}
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    options = f"{quiet} {given.pop(_JAVA_OPTIONS, '')}".strip()
    partitions = {"spark.sql.shuffle.partitions": str(cores()), _JAVA_OPTIONS: options}
    return {**SETTINGS, **local, **partitions, **given}


@contextmanager
def _stderr_to(log_file: str | Path | None) -> Iterator[None]:
    """What is started inside has the file as its standard error: the JVM inherits it for life."""
    if log_file is None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    with Path(log_file).open("ab") as target:
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
