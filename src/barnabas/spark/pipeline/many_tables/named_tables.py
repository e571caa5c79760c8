"""The tables of a pipeline that its rows name; see `routes`.

What the values of a column are is known from the rows only, so the tables that there are stand in a note of
the checkpoint, ``tables/_barnabas/tables.json``; each is in it before it has rows.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.file.sink_settings import Sink
from barnabas.spark.pipeline.many_tables.routes import TableRoute, is_name
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.synchronise import synchronise_up
from barnabas.spark.pipeline.tables.table import OURS

_WHAT: Final = "note of a pipeline's tables"


def known(sink: Sink) -> list[Sink]:
    """The tables that the rows of a pipeline go to, as far as there are any: one without braces in its path.
    Raises PipelineError for a note that is damaged or was written with other columns.
    """
    if sink.route is None:
        return [sink]
    return [sink.of(values) for values in values_of(sink, sink.route)]


def values_of(sink: Sink, route: TableRoute) -> list[tuple[str, ...]]:
    """What names the tables that there are."""
    path = _note(sink.path)
    found = read_note(path, _WHAT)
    if found is None:
        return []
    if found.get("columns") != list(route.columns):
        raise PipelineError(
            f"sink.path names tables by {', '.join(route.columns)}, and {path} has others: give the pipeline "
            "another checkpoint"
        )
    tables = found.get("tables")
    if not isinstance(tables, list) or not all(_are_values(one, route) for one in tables):
        raise damaged(path, _WHAT, ValueError("it has no names"))
    return [tuple(one) for one in tables]


def remember(sink: Sink, route: TableRoute, values: Sequence[tuple[str, ...]]) -> None:
    """Has the note say these. Its folder must be there."""
    path = _note(sink.path)
    replace_note(path, {"columns": list(route.columns), "tables": [list(one) for one in values]})
    synchronise_up(path.parent, sink.path)


def _are_values(found: object, route: TableRoute) -> bool:
    return (
        isinstance(found, list)
        and len(found) == len(route.columns)
        and all(isinstance(one, str) and is_name(one, route) for one in found)
    )


def _note(folder: Path) -> Path:
    return folder / OURS / "tables.json"
