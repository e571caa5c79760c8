"""The jars of Spark's own Kafka connector, fetched by Maven once and kept."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

from bench.sides import UnavailableError, kafka_harness

_ARTIFACT: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_NOT_IN_PYSPARK: Final = ("spark-sql-kafka-*", "spark-token-provider-*", "kafka-clients-*", "commons-pool2-*")


def connector_jars(version: str = pyspark.__version__) -> str:
    """The jars that PySpark lacks, separated by commas, for ``spark.jars``. Raises UnavailableError.

    A release of PySpark may be out before its connector is: then another `version` has to be named.
    """
    folder = kafka_harness.cache_folder() / f"spark-connector-{version}"
    if not folder.is_dir():
        if not shutil.which("mvn"):
            raise UnavailableError("no Maven found to fetch the official connector with")
        folder.parent.mkdir(parents=True, exist_ok=True)
        print(f"fetching the official connector {version} by Maven", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            partial = Path(work, "jars")
            kafka_harness.fetch_jars([f"{_ARTIFACT}:{version}"], partial, Path(work, "pom.xml"))
            partial.rename(folder)
    return ",".join(str(jar) for pattern in _NOT_IN_PYSPARK for jar in sorted(folder.glob(pattern)))
