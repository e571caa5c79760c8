"""What a run tells others: a file of JSON lines, a catalog of lineage, a webhook when it fails, `status`."""

import datetime as dt
import http.client
import json
import logging
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.network.within import within
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.reports.lineage import Lineage
from barnabas.spark.pipeline.tables.notes import read_note
from barnabas.spark.pipeline.tables.table import OURS

if TYPE_CHECKING:
    from barnabas.spark.pipeline.file.settings import Pipeline

_log = logging.getLogger("barnabas.spark")

_WEBHOOK_S: Final = 10
RUN_FILE: Final = "run.json"
"""In the table's folder of ours: the last event, with the figures of the run."""


class Events:
    """The events of one run: started, batch, restart, failed and ended.

    An event that cannot be written or sent is a line in the log, and no reason to stop.
    """

    def __init__(self, pipeline: "Pipeline") -> None:
        self._name = pipeline.name
        self._file = pipeline.events
        self._webhook = pipeline.webhook
        self._run = pipeline.sink.path / OURS / RUN_FILE
        self._figures: dict[str, Any] = {}
        self._lineage = Lineage(pipeline, pipeline.lineage) if pipeline.lineage is not None else None

    def emit(self, event: str, **more: Any) -> None:
        """Tells of an event; numbers and texts of `more` are kept for those that follow."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        found = {"time": now, "pipeline": self._name, "event": event, **more}
        self._figures |= more
        try:
            if self._file is not None:
                _append(self._file, json.dumps(found, ensure_ascii=False))
            self._keep({**self._figures, "time": now, "event": event})
        except OSError as error:
            _log.warning("an event of %s was not written: %s", self._name, error)
        if self._lineage is not None:
            self._lineage.emit(event, now, self._figures)
        if event == "failed" and self._webhook is not None:
            self._send(self._webhook, found)

    def _keep(self, found: dict[str, Any]) -> None:
        if self._run.parent.is_dir():
            new = self._run.with_suffix(".new")
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(self._run)

    def _send(self, address: str, found: dict[str, Any]) -> None:
        request = urllib.request.Request(  # noqa: S310 - the file's check allows http and https only
            address, json.dumps(found).encode(), {"Content-Type": "application/json"}
        )

        def tell() -> None:
            with urllib.request.urlopen(request, timeout=_WEBHOOK_S):  # noqa: S310
                pass

        try:
            within(_WEBHOOK_S + 1, tell)
        except (
            OSError,
            ValueError,
            http.client.HTTPException,
        ) as error:  # the address may have a password: it is not shown
            reason = error.code if isinstance(error, urllib.error.HTTPError) else type(error).__name__
            _log.warning("the webhook of %s was not told of the failure: %s", self._name, reason)


def _append(path: Path, line: str) -> None:
    """Adds a line, also behind one that a kill has torn."""
    with path.open("a+b") as file:
        is_torn = False
        if file.seek(0, 2):
            file.seek(-1, 2)
            is_torn = file.read(1) != b"\n"
        file.write(("\n" * is_torn + line + "\n").encode(errors="replace"))


def last_event(folder: Path) -> dict[str, Any]:
    """What the last run of a table has told, empty where there was none, and without what no run tells."""
    try:
        found = read_note(folder / OURS / RUN_FILE, "event") or {}
    except (OSError, PipelineError):  # a status without it says more than an error
        return {}
    texts = {name: found[name] for name in ("event", "reason") if isinstance(found.get(name), str)}
    return texts | {
        name: value
        for name, value in found.items()
        if type(value) in {int, float} and name not in {"event", "reason"}
    }
