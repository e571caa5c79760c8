"""The process that Spark forks the workers of its tasks from, with everything heavy loaded before the fork.

pyspark's own daemon imports nothing, so each worker pays 0.4 s for pyarrow and numba and each task a garbage
collection over their objects. Here they are loaded, the machine code too, and then frozen: a task costs 24-28
ms instead of 35-46. Spark starts it with ``-m`` (``spark.python.daemon.module``), for tasks only: each step
of planning has a daemon of pyspark's own, so what they import (`source`, `kafka`, `sink`) does not import
numba.
"""

import gc
import importlib

from pyspark import daemon

from barnabas.records import columnar, columnar_encoder


def preload() -> None:
    """Loads what every task of the data source needs. Starts no thread: what forks must not have any."""
    for name in ("groups.history", "kafka", "reading", "sink", "source"):
        importlib.import_module(f"barnabas.spark.{name}")
    columnar.warm()
    columnar_encoder.warm()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    daemon.manager()
