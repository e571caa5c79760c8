"""A pipeline whose JVM has ended says so in one line, unless it is to stop;
what py4j raises depends on the moment.
"""

import io
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from rich.console import Console

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.running import supervisor


@pytest.fixture(
    params=[ConnectionRefusedError(111, "refused"), Py4JNetworkError("no answer"), Py4JError("half gone")]
)
def query(request):
    """A query that Python cannot talk to."""

    def fails(*_):
        raise request.param

    return SimpleNamespace(awaitTermination=fails, stop=fails, recentProgress=[])


def watching(stop):
    pipeline = SimpleNamespace(name="flights", log=Path("flights.log"), group=None, metrics_port=None)
    events = SimpleNamespace(emit=lambda *_, **__: None)
    return supervisor._Watch(
        None, pipeline, Console(file=io.StringIO()), stop, supervisor.RunOutcome(), events
    )


def test_it_ends_with_one_line(query):
    with pytest.raises(PipelineError, match=r"^flights: Spark's JVM has ended \(more in flights\.log\)$"):
        watching(threading.Event()).follow(query)


def test_one_that_is_stopped_together_with_its_jvm_ends_well(query):
    stop, fails = threading.Event(), query.awaitTermination

    def stopped(*_):
        stop.set()
        fails()

    query.awaitTermination = stopped
    watch = watching(stop)
    supervisor._supervise(lambda: query, SimpleNamespace(batches=0, failure=None), watch)
    assert watch.outcome.restarts == 0
