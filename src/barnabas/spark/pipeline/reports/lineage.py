"""A run's events for a catalog of lineage, in the words of OpenLineage and by its own client.

Where they go is the client's business: ``OPENLINEAGE_URL``, ``OPENLINEAGE_API_KEY``, ``openlineage.yml``.
Names of data sets are those that OpenLineage prescribes, so that other tools' events meet ours.

A thread of its own sends them, as the client may wait for a catalog, and try again, for minutes. Some events
wait for it; those that come while so many wait are left out. The end of a run waits a moment for the rest.
"""

import logging
import queue
import re
import threading
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from barnabas.spark.errors import PipelineError, first_line
from barnabas.spark.pipeline.many_tables.named_tables import known

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

    from barnabas.spark.pipeline.file.join_settings import Join
    from barnabas.spark.pipeline.file.settings import Pipeline
    from barnabas.spark.pipeline.file.sink_settings import Sink

_log = logging.getLogger("barnabas.spark")

_PASSWORD: Final = re.compile(r"://[^/\s]*@")
"""In an address, which the client puts into its errors."""
_WAITING_MAX: Final = 100
"""Events that wait for the catalog."""
_END_S: Final = 10
"""How long the end of a run waits for them."""
_STATES: Final = {"started": "START", "batch": "RUNNING", "ended": "COMPLETE", "failed": "FAIL"}
_LAST: Final = frozenset({"ended", "failed"})


class Lineage:
    """The events of one run. One that cannot be sent is a line in the log, and no reason to stop."""

    def __init__(self, pipeline: "Pipeline", namespace: str) -> None:
        try:
            from openlineage.client import OpenLineageClient
        except ImportError as error:
            raise PipelineError(
                f"notify.openLineage needs packages that are not here ({error.name}): pip install "
                "'barnabas[lineage]'"
            ) from error
        self._pipeline = pipeline
        self._namespace = namespace
        self._run = str(uuid.uuid4())
        try:
            self._client = OpenLineageClient()
        except Exception as error:  # what its file and its variables say is read here
            raise PipelineError(f"notify.openLineage: {_reason(error)}") from None
        self._waiting: queue.Queue[tuple[str, RunEvent]] = queue.Queue(_WAITING_MAX)
        threading.Thread(target=self._send, name="lineage", daemon=True).start()

    def emit(self, event: str, at: str, figures: Mapping[str, Any]) -> None:
        """Tells of an event, with the run's figures so far. Waits only behind the last one of a run."""
        if event not in _STATES:
            return
        from openlineage.client import event_v2 as events
        from openlineage.client.facet_v2 import error_message_run, job_type_job

        facets: dict[str, Any] = {}
        if event == "failed":
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=str(figures.get("reason", "")), programmingLanguage="PYTHON"
            )
        streams = "processingTime" in self._pipeline.trigger
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING" if streams else "BATCH", integration="BARNABAS", jobType="PIPELINE"
        )
        try:
            told = events.RunEvent(
                eventType=events.RunState(_STATES[event]),
                eventTime=at,
                run=events.Run(self._run, facets),
                job=events.Job(self._namespace, self._pipeline.name, {"jobType": kind}),
                producer="urn:barnabas:pipeline",
                inputs=self._inputs(),
                outputs=self._outputs(figures),
            )
            self._waiting.put_nowait((event, told))
        except queue.Full:
            self._warn(event, f"the catalog does not answer, and {_WAITING_MAX} events wait for it")
        except Exception as error:  # a namespace or a time that the client does not take
            self._warn(event, _reason(error))
        if event in _LAST:
            self._wait()

    def _send(self) -> None:
        while True:
            event, told = self._waiting.get()
            try:
                self._client.emit(told)
            except Exception as error:  # each transport has errors of its own
                self._warn(event, _reason(error))
            finally:
                self._waiting.task_done()

    def _wait(self) -> None:
        """Until all was sent, or it has taken long enough."""
        ends = time.monotonic() + _END_S
        with self._waiting.all_tasks_done:
            while self._waiting.unfinished_tasks and (left := ends - time.monotonic()) > 0:
                self._waiting.all_tasks_done.wait(left)
            unsent = self._waiting.unfinished_tasks
        if unsent:
            self._warn(f"{unsent} events", f"the catalog has not answered within {_END_S} seconds")

    def _warn(self, what: str, reason: str) -> None:
        _log.warning("the lineage of %s was not told of %s: %s", self._pipeline.name, what, reason)

    def _inputs(self) -> "list[InputDataset]":
        from openlineage.client.event_v2 import InputDataset

        options = self._pipeline.source_options
        topics = options.topics or sorted({tp.topic for tp in options.assigned}) or [str(options.pattern)]
        tables = [InputDataset(*_joined(one)) for one in self._pipeline.joins]
        return [InputDataset(self._brokers(), topic) for topic in topics] + tables

    def _outputs(self, figures: Mapping[str, Any]) -> "list[OutputDataset]":
        tables = known(self._pipeline.sink)
        # How many of the rows each has got is not counted where there are many.
        return [self._output(one, figures if len(tables) == 1 else {}) for one in tables]

    def _output(self, sink: "Sink", figures: Mapping[str, Any]) -> "OutputDataset":
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import output_statistics_output_dataset as statistics

        rows = statistics.OutputStatisticsOutputDatasetFacet(rowCount=figures.get("rows_written"))
        facets = {"outputStatistics": rows} if figures else {}
        if sink.topic:
            return OutputDataset(self._brokers(), sink.topic, outputFacets=facets)
        return OutputDataset(*_place(sink.address or str(sink.path)), outputFacets=facets)

    def _brokers(self) -> str:
        first = self._pipeline.source_options.client["bootstrap.servers"].split(",")[0].strip()
        return f"kafka://{first}"


def _place(table: str) -> tuple[str, str]:
    """The namespace and the name of a folder or an address."""
    at = urlsplit(table) if "://" in table else None
    return (f"{at.scheme}://{at.netloc}", at.path.lstrip("/")) if at is not None else ("file", table)


def _joined(join: "Join") -> tuple[str, str]:
    """The namespace and the name of a table that is joined; of Iceberg its catalog's address is the first."""
    if join.kind != "iceberg":
        return _place(join.table)
    return _PASSWORD.sub("://***@", join.catalog.get("uri", "iceberg")), join.table


def _reason(error: Exception) -> str:
    return _PASSWORD.sub("://***@", first_line(error))
