"""A Spark session that works from pip alone, with the settings that a Python data source wants."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.processors import cores
from barnabas.spark import java
from barnabas.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REDACTED: Final = "spark.sql.redaction.options.regex"
_REDACTED_DEFAULT: Final = "(?i)url"
_REDACTED_PATTERN: Final = "(?i)url|sasl[.]jaas|ssl[.](key|trust)store"
"""Options that Spark leaves out of plans, and so out of its pages and event logs, beside those with a
password or a secret in name or value, which it knows by itself: a private key can be an option as well.
"""

SETTINGS: Final[Mapping[str, str]] = {
    # Halves what a Python task costs: no Nagle, no delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "barnabas.spark.daemon",
    # How long the JVM and Python wait for each other's connection; 15 s are not enough on a busy machine.
    "spark.python.authenticate.socketTimeout": "120s",
    # Hadoop forks `chmod` for each checkpoint file; this saves half of a micro-batch's log writing.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    _REDACTED: _REDACTED_PATTERN,
}
_LOCAL: Final[Mapping[str, str]] = {
    # A machine without a network, or with one whose name leads elsewhere, is no obstacle.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Half a second of every start; on a cluster it is how people see their jobs.
    "spark.ui.enabled": "false",
}
_STREAM_ENVIRONMENT: Final[Mapping[str, str]] = {
    "SPARK_LOCAL_DIRS": "",
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}
"""What Spark puts into the environment of a Python source when a stream of it starts, in place of these; see
`register`.
"""
_STREAMS: Final = frozenset({"barnabas", "barnabas-log", "barnabas-offsets", "barnabas-lag"})
"""The names of our sources."""
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def make(
    name: str = "barnabas",
    *,
    master: str | None = None,
    remote: str | None = None,
    config: Mapping[str, Any] | None = None,
    log_level: str = "ERROR",
    log_file: str | Path | None = None,
) -> "SparkSession":
    """A session that knows the data source.

    `master` is all cores of this machine with four tries a task, unless given here or to ``spark-submit``;
    `remote` is the address of a Spark Connect server (``sc://host:15002``) instead. `config` adds to the
    settings or overrides them; with `remote` nothing but them and the name counts. With `log_file` everything
    that the JVM would print goes there. Raises JavaNotFoundError where neither the machine nor pip has a
    Java.
    """
    if remote is not None:
        return _connect(name, remote, config or {})
    from pyspark.sql import SparkSession

    submitted = _submitted()
    master = master or submitted.get("spark.master") or f"local[{cores()},4]"
    _set_environment(master)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings(master, config or {}, submitted).items():
        builder = builder.config(key, value)
    with _stderr_to(log_file):
        spark: SparkSession = builder.getOrCreate()
    if log_file is not None:
        _accumulator_errors_to(log_file, spark)
        _errors_of_sql_to(log_file)
    spark.sparkContext.setLogLevel(log_level)
    register(spark)
    return spark


def _accumulator_errors_to(log_file: str | Path, spark: "SparkSession") -> None:
    """PySpark's server of accumulators would print a traceback where the JVM ends before this process."""

    def log(*_: object) -> None:
        with Path(log_file).open("a", encoding="utf-8") as target:
            traceback.print_exc(file=target)

    spark.sparkContext._accumulatorServer.handle_error = log  # noqa: SLF001


def _errors_of_sql_to(log_file: str | Path) -> None:
    """PySpark would print an error of SQL with all of Java's stack, besides raising it."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        for handler in [*logger.handlers]:
            logger.removeHandler(handler)
            handler.close()
        logger.addHandler(logging.FileHandler(log_file, encoding="utf-8", delay=True))


def _connect(name: str, remote: str, config: Mapping[str, Any]) -> "SparkSession":
    """A session on a Spark Connect server, which has its own Java, settings and Python workers."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote).appName(name)
    for key, value in config.items():
        builder = builder.config(key, _text(value))
    spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def _submitted() -> dict[str, str]:
    """The settings of ``spark-submit``, whose JVM has started this process; empty elsewhere."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # noqa: SLF001 - a SparkConf made before it does not ask the JVM
    return dict(SparkConf().getAll())


def _set_environment(master: str) -> None:
    """What PySpark reads from the environment when it starts its JVM and its workers."""
    os.environ["JAVA_HOME"] = str(java.java_home())
    if _is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.pop("PYSPARK_PYTHON", None)
    # Without it the workers run `python3` from PATH, which has not what this one has. On a cluster the user
    # may know better: the environment may be in an archive that Spark unpacks there.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def register(spark: "SparkSession") -> None:
    """Makes ``format("barnabas")`` and its kin known to a session that was made elsewhere.

    Spark keeps the environment of a source in one HashMap for all its streams, adds names to it where each of
    them starts, in a thread of its own, and sends it with each task. Two that start at once could leave a map
    whose size is not that of its entries, and from then on every task of the session failed with
    OptionalDataException. Putting a name that is there already only replaces its value: so all of them are
    there from the beginning.
    """
    from barnabas.spark.groups.source import LagSource, OffsetsSource
    from barnabas.spark.logs.source import LogSource
    from barnabas.spark.source import TopicSource

    if hasattr(spark, "sparkContext"):  # not with Spark Connect, whose server has it
        _set_workers_environment(spark.sparkContext.environment)
        _write_in_any_thread()
        _refuse_real_time()
    if spark.conf.get(_REDACTED, _REDACTED_DEFAULT) == _REDACTED_DEFAULT:
        spark.conf.set(_REDACTED, _REDACTED_PATTERN)
    for source in (TopicSource, LogSource, OffsetsSource, LagSource):
        spark.dataSource.register(source)


def _set_workers_environment(environment: dict[str, str]) -> None:
    """What the processes of Python sources get: see `register`, and `early/sitecustomize.py` for the path."""
    environment.update(_STREAM_ENVIRONMENT)
    early = str(Path(__file__).with_name("early"))
    places = [
        place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place not in {"", early}
    ]
    environment["PYTHONPATH"] = os.pathsep.join([early, *places])


def _write_in_any_thread() -> None:
    """Has each write and each start of a stream find our sources, in any thread of Python.

    Spark looks for sources in Python in the session that is active in the JVM's thread, and there alone. A
    thread of Python has a thread of the JVM, in which none is: the source was not found
    (DATA_SOURCE_NOT_FOUND). Reads make their own session active by themselves.
    """
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for kind, names in (
        (DataFrameWriter, ("save", "saveAsTable", "insertInto")),
        (DataStreamWriter, ("start", "toTable")),
    ):
        for name in names:
            call = getattr(kind, name)
            if not hasattr(call, "__wrapped__"):
                setattr(kind, name, _in_its_session(call))


def _refuse_real_time() -> None:
    """Has ``trigger(realTime=...)`` on one of our sources say what to do instead. Spark would name a class of
    its own, when the query has begun.
    """
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    if not hasattr(DataStreamWriter.trigger, "__wrapped__"):
        DataStreamWriter.trigger = _without_real_time(DataStreamWriter.trigger)


def _without_real_time(call: Callable[..., Any]) -> Callable[..., Any]:
    """`DataStreamWriter.trigger`, which raises OptionError for what a source in Python cannot do."""

    @wraps(call)
    def trigger(writer: Any, **given: Any) -> Any:
        if given.get("realTime") is not None:
            leaves = writer._df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001
            # The text of a source of a stream is its name.
            read = {leaves.apply(place).toString() for place in range(leaves.size())}
            if ours := sorted(read & _STREAMS):
                raise OptionError(
                    f"real-time mode takes no source in Python, which {ours[0]} is: read the topic with"
                    ' Spark\'s own connector, format("kafka"), or leave trigger(realTime=...) out'
                )
        return call(writer, **given)

    return trigger


def _in_its_session(call: Callable[..., Any]) -> Callable[..., Any]:
    """A writer's method that runs while the writer's session is the active one of the thread."""

    @wraps(call)
    def active(writer: Any, *args: Any, **kwargs: Any) -> Any:
        spark = writer._spark  # noqa: SLF001 - PySpark has no other name for it
        sessions = spark._jvm.org.apache.spark.sql.classic.SparkSession  # noqa: SLF001
        before = sessions.getActiveSession()
        sessions.setActiveSession(spark._jsparkSession)  # noqa: SLF001
        try:
            return call(writer, *args, **kwargs)
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    return active


def settings(
    master: str, config: Mapping[str, Any], submitted: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All settings of a session with these additions, as Spark's texts;
    what was `submitted` wins over ours.
    """
    given = {key: _text(value) for key, value in config.items()}
    local = {**_LOCAL, "spark.sql.shuffle.partitions": str(cores())} if _is_local(master) else {}
    ours = {key: value for key, value in {**SETTINGS, **local}.items() if key not in (submitted or {})}
    if submitted:
        return {**ours, **given}  # its JVM runs already: options for it would come too late
    quiet = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    options = f"{quiet} {given.pop(_JAVA_OPTIONS, '')}".strip()
    return {**ours, _JAVA_OPTIONS: options, **given}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_local(master: str) -> bool:
    """Whether all of Spark runs in one process here: ``local-cluster`` has workers of its own."""
    return master == "local" or master.startswith("local[")


@contextmanager
def _stderr_to(log_file: str | Path | None) -> Iterator[None]:
    """What is started inside has the file as its standard error: the JVM inherits it for life."""
    if log_file is None:
        yield
        return
    sys.stderr.flush()
    with Path(log_file).open("ab") as target:
        saved = os.dup(2)
        os.dup2(target.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
