"""``barnabas analyze``: what fills the disk of a broker, how keys spread, what other codecs would take."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import admin_options, api_timeout_option, command_config_option
from barnabas.core.extras import extra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.spark.analyses import Analysis, Retention

_WEEK_MS: Final = 7 * 24 * 3600 * 1000


@click.group()
def analyze() -> None:
    """Analyse the logs of brokers, Apache Kafka's or ours: tables here, a page with charts and Parquet files
    in --out.

    Needs the extra "spark" and Java 17, or the extra "jvm". Directories are only read; the broker may run.

    \b
    Examples:
      barnabas analyze disk /var/lib/kafka
      barnabas analyze disk /var/lib/kafka --topics orders,payments --out usage
      barnabas analyze skew /var/lib/kafka
      barnabas analyze codecs /var/lib/kafka
    """


def _reporting(command: Any) -> Any:
    """What all analyses take: directories, topics, and where the tables go."""
    for option in (
        click.option("--rows", type=click.IntRange(min=1), default=10, show_default=True,
            help="Rows of each table to print."),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            help="Write report.html and a Parquet file for each table there.",
        ),
        click.option("--topics", default="", metavar="LIST", help="These topics only, with commas.  "
                                                                  "[default: all]"),
        click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY..."),
    ):  # fmt: skip
        command = option(command)
    return command


def _brokers(command_config: Path | None, bootstrap: str) -> dict[str, Any]:
    return admin_options(command_config, bootstrap, "barnabas-analyze")


@analyze.command()
@_reporting
@bootstrap_option(has_default=False)
@api_timeout_option()
@command_config_option
@click.option(
    "--retention-ms",
    type=click.IntRange(min=-1),
    default=_WEEK_MS,
    show_default=True,
    metavar="MS",
    help="retention.ms of topics whose brokers are not asked.",
)
@click.option(
    "--retention-bytes",
    type=click.IntRange(min=-1),
    default=-1,
    show_default=True,
    metavar="BYTES",
    help="retention.bytes of such topics.",
)
@click.option("--key-prefix", metavar="REGEX", help="What of a key is its prefix.")
def disk(
    directories: tuple[str, ...],
    topics: str,
    out: Path | None,
    rows: int,
    bootstrap_server: str | None,
    command_config: Path | None,
    retention_ms: int,
    retention_bytes: int,
    key_prefix: str | None,
) -> None:
    """Show what fills log directories: by topic, partition, codec, age, size of records and prefix of keys,
    each as bytes on the disk and without compression; and which segments retention drops next, and when.

    The retention of topics is asked of --bootstrap-server, if there is one: directories do not hold it.

    \b
    Examples:
      barnabas analyze disk /var/lib/kafka
      barnabas analyze disk /disk1/kafka /disk2/kafka --out usage
      barnabas analyze disk /var/lib/kafka --topics orders --key-prefix '^[^-]*'
    """
    with _spark_failures():
        from barnabas.spark import analyses
        from barnabas.spark.analyses.disk_passes import KEY_PREFIX

        found = analyses.directories(directories, topics=_names(topics))
        retention: dict[str, Retention] = {}
        if bootstrap_server:
            retention = analyses.retention_of(_brokers(command_config, bootstrap_server), found.names)
        with _session("reading the directories") as spark:
            usage = analyses.disk_usage(
                spark,
                found,
                retention=retention,
                default_retention=analyses.Retention(retention_ms, retention_bytes),
                key_prefix=key_prefix or KEY_PREFIX,
            )
    _show(usage, out, rows)


@analyze.command()
@_reporting
@bootstrap_option(has_default=False)
@api_timeout_option()
@command_config_option
@click.option(
    "--keys",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="COUNT",
    help="Hot keys of each topic.",
)
@click.option(
    "--more-partitions",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="Partitions that each topic gets in the what-if.  [default: as many as it has]",
)
def skew(
    directories: tuple[str, ...],
    topics: str,
    out: Path | None,
    rows: int,
    bootstrap_server: str | None,
    command_config: Path | None,
    keys: int,
    more_partitions: int | None,
) -> None:
    """Show how records and bytes spread over the partitions of each topic, and its hot keys, with exact
    counts; which keys lie in several partitions, or not where Java's default partitioner puts them; and what
    more partitions would change.

    How many partitions a topic has is asked of --bootstrap-server, if there is one; else it is the highest
    number in the directories that counts.

    \b
    Examples:
      barnabas analyze skew /var/lib/kafka
      barnabas analyze skew /disk1/kafka /disk2/kafka --topics orders --keys 100 --out skew
      barnabas analyze skew /var/lib/kafka --more-partitions 6 --bootstrap-server 127.0.0.1:9092
    """
    with _spark_failures():
        from barnabas.spark import analyses

        found = analyses.directories(directories, topics=_names(topics))
        counts: dict[str, int] = {}
        if bootstrap_server:
            counts = analyses.partition_counts(_brokers(command_config, bootstrap_server), found.names)
        with _session("counting keys") as spark:
            analysis = analyses.skew(
                spark, found, partitions=counts, more_partitions=more_partitions, hot_keys=keys
            )
    _show(analysis, out, rows)


@analyze.command()
@_reporting
@click.option(
    "--codecs",
    default="none,gzip,snappy,lz4,zstd",
    show_default=True,
    metavar="LIST",
    help="Codecs to try, with commas, each with a level where it should not be the default: zstd:9.",
)
@click.option(
    "--batch-sizes",
    default="16384,65536,262144",
    show_default=True,
    metavar="LIST",
    help="Bytes of a batch before compression, with commas.",
)
@click.option(
    "--sample-bytes",
    type=click.IntRange(min=1),
    default=8 << 20,
    show_default=True,
    metavar="BYTES",
    help="At most so much of each topic is packed again.",
)
def codecs(
    directories: tuple[str, ...],
    topics: str,
    out: Path | None,
    rows: int,
    codecs: str,
    batch_sizes: str,
    sample_bytes: int,
) -> None:
    """Show what each topic would take with other codecs and batch sizes, by packing a sample of its batches
    again, and the processor time of that.

    The sample is spread over the segments of the topic. A topic of at most --sample-bytes is packed as a
    whole.

    \b
    Examples:
      barnabas analyze codecs /var/lib/kafka
      barnabas analyze codecs /var/lib/kafka --topics orders --codecs lz4,zstd,zstd:9 --out codecs
      barnabas analyze codecs /var/lib/kafka --batch-sizes 16384,131072,1000000 --sample-bytes 67108864
    """
    try:
        sizes = [int(size) for size in _names(batch_sizes)]
    except ValueError:
        raise click.BadParameter(f"{batch_sizes!r} is no list of bytes", param_hint="--batch-sizes") from None
    with _spark_failures():
        from barnabas.spark import analyses
        from barnabas.spark.analyses.codec_choices import check_choices

        check_choices(_names(codecs), sizes)  # before Spark starts
        found = analyses.directories(directories, topics=_names(topics))
        with _session("packing batches") as spark:
            analysis = analyses.codecs(
                spark, found, codecs=_names(codecs), batch_sizes=sizes, sample_bytes=sample_bytes
            )
    _show(analysis, out, rows)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


@contextlib.contextmanager
def _session(doing: str) -> "Iterator[SparkSession]":
    """A Spark session whose messages are seen only when it fails, and what it does meanwhile."""
    from rich.console import Console

    from barnabas.spark import session

    with (
        tempfile.TemporaryDirectory(prefix="barnabas-analyze-") as folder,
        Console(stderr=True).status(f"{doing} ..."),
    ):
        spark = session("barnabas analyze", log_file=Path(folder) / "spark.log")
        try:
            yield spark
        finally:
            spark.stop()


@contextlib.contextmanager
def _spark_failures() -> Iterator[None]:
    """An error of Spark or of the system becomes one line."""
    with extra("spark,jvm", "an analysis", "pyarrow"):
        from py4j.protocol import Py4JError  # type: ignore[import-untyped, unused-ignore]
        from pyspark.errors import PySparkException

        from barnabas.spark import analyses  # noqa: F401 - here, so that what is missing shows
        from barnabas.spark.errors import first_line
    try:
        yield
    except (PySparkException, Py4JError) as failure:
        raise click.ClickException(f"Spark failed: {first_line(failure)}") from failure
    except OSError as failure:
        place = f" ({failure.filename})" if failure.filename else ""
        raise click.ClickException(f"{failure.strerror or failure}{place}") from failure


def _show(analysis: "Analysis", out: Path | None, rows: int) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = 160  # a file or a pipe has no edge at which lines would break
    for one in analysis.printable(rows):
        console.print(one)
    if out is not None:
        try:
            page = analysis.write(out)
        except OSError as error:
            raise click.ClickException(f"cannot write to {out}: {error.strerror}") from error
        click.echo(f"\nReport: {page.resolve()}")
