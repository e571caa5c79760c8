"""Runs first in each process that Spark starts, and has the one that plans a stream call back at once.

Spark's JVM waits ten seconds for that process, and no setting makes it longer. PySpark calls back when it has
loaded numpy and pyarrow, half a second of a processor: on a machine with twenty times the work that it can
do, that takes the ten seconds. Here the connection is made before anything is loaded. When PySpark opens its
own, it gets this one.

Python imports a module of this name from its path by itself. Another one further on the path runs too.
"""

import os
import sys

_PLANS_STREAMS = "pyspark.sql.streaming.python_streaming_source_runner"


def _call_back() -> None:
    """Connects to the JVM, and has the first connection to the same address be this one."""
    import socket

    path, port = (
        os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH"),
        os.environ.get("PYTHON_WORKER_FACTORY_PORT"),
    )
    if path is None and (port is None or "SPARK_PREFER_IPV6" in os.environ):
        return
    early = socket.socket(socket.AF_UNIX if path is not None else socket.AF_INET)
    address: object = path if path is not None else ("127.0.0.1", int(port or 0))
    connect = socket.socket.connect
    try:
        connect(early, address)  # type: ignore[arg-type]
    except OSError:
        early.close()  # PySpark finds the same, and says so
        return

    def handed_over(other: socket.socket, wanted: object) -> None:
        if wanted != address:
            connect(other, wanted)  # type: ignore[arg-type]
            return
        setattr(socket.socket, "connect", connect)  # noqa: B010 - a type checker lets no method be assigned
        waits = os.get_blocking(other.fileno())
        os.dup2(early.fileno(), other.fileno(), inheritable=False)
        os.set_blocking(other.fileno(), waits)
        early.close()

    setattr(socket.socket, "connect", handed_over)  # noqa: B010


def _run_the_next_one() -> None:
    """The module of this name that would have run without this folder on the path."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(__file__)  # noqa: PTH120 - loads no pathlib
    found = PathFinder.find_spec("sitecustomize", [place for place in sys.path if place != here])
    if found is not None and found.loader is not None:
        found.loader.exec_module(module_from_spec(found))


if _PLANS_STREAMS in sys.orig_argv:
    _call_back()
_run_the_next_one()
