"""A pipeline whose JVM has ended says so in one line; what py4j raises then depends on the moment."""

import io
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from rich.console import Console

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline import supervisor


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), Py4JNetworkError("no answer")])
def test_it_ends_with_one_line(error):
    def fails(*_):
        raise error

    pipeline = SimpleNamespace(name="flights", log=Path("flights.log"), group=None, metrics_port=None)
    query = SimpleNamespace(awaitTermination=fails, stop=fails, recentProgress=[])
    console = Console(file=io.StringIO())
    watch = supervisor._Watch(None, pipeline, console, threading.Event(), supervisor.Outcome())
    with pytest.raises(PipelineError, match=r"^flights: Spark's JVM has ended \(more in flights\.log\)$"):
        watch.follow(query)
