"""The process that Spark forks its Python workers from, with everything heavy loaded before the fork.

pyspark's own daemon imports nothing, so each worker pays 0.4 s for pyarrow and numba and each task a garbage
collection over their objects. Here they are loaded, the decoder's machine code too, and then frozen: a task
costs 24-28 ms instead of 35-46. Spark starts it with ``-m`` (``spark.python.daemon.module``).
"""

import gc
import importlib

from pyspark import daemon

from barnabas.records import columnar


def preload() -> None:
    """Loads what every task of the data source needs. Starts no thread: what forks must not have any."""
    for name in ("kafka", "reading", "sink", "source"):
        importlib.import_module(f"barnabas.spark.{name}")
    columnar.warm()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    preload()
    daemon.manager()
