"""The text of a first file: what was found in the topic, and in comments what else there is."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.spark.ddl import quoted
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.drafts.draft import Draft
from barnabas.spark.pipeline.drafts.types import ddl

_SECRET: Final = re.compile(r"password|jaas|secret|\.key$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableChoice:
    """What the user asks for; empty is for the draft to say."""

    sink: str = ""
    mode: str = ""
    key: tuple[str, ...] = ()


def text(draft: Draft, wanted: TableChoice, client: Mapping[str, str]) -> str:
    """The file. Raises PipelineError for what does not go together."""
    mode = wanted.mode or ("merge" if draft.debezium else "append")
    sink = wanted.sink or ("parquet" if mode == "append" else "delta")
    if draft.debezium and mode == "append":
        raise PipelineError(
            f"{draft.topic} has a database's changes, as Debezium writes them: mode must be merge or history"
        )
    if mode != "append" and sink == "parquet":
        raise PipelineError(f"mode {mode} needs a table that changes: give --sink delta or iceberg")
    key = _key(draft, wanted) if mode != "append" else ()
    return "\n".join([
        *_head(draft), *_source(draft, client), *_format(draft, mode), *_transform(draft, mode),
        *_sink(draft, sink, mode, key), *_rest(draft),
    ])  # fmt: skip


def _key(draft: Draft, wanted: TableChoice) -> tuple[str, ...]:
    known = {**draft.columns, **draft.key}
    for name in wanted.key:
        if known and name not in known:
            raise PipelineError(
                f"--key {name}: the records have no such column; they have {', '.join(known)}"
            )
    if wanted.key or draft.key:
        return wanted.key or tuple(draft.key)
    raise PipelineError(f"the records of {draft.topic} have no keys: name the columns of the key with --key")


def _head(draft: Draft) -> Iterator[str]:
    yield f"# {draft.topic} into a table, by its newest {draft.records:,} records."
    yield "# docs/pipeline.md has every key."
    yield "#   barnabas pipeline try FILE    shows rows, types and what does not fit, and writes nothing"
    yield "#   barnabas pipeline run FILE    writes the table; run it again and it continues"
    yield ""
    yield "# Where it continues. It belongs to the table: remove both or none."
    yield f"checkpoint = {_quoted(f'{draft.topic}.checkpoint')}"
    yield '# trigger = "10s"    # a batch each 10 seconds until Ctrl-C; else what is there now, and the end'
    yield f"# events = {_quoted(f'{draft.topic}.events')}    # a line of JSON for each batch and failure"


def _source(draft: Draft, client: Mapping[str, str]) -> Iterator[str]:
    yield ""
    yield "[source]"
    for name, value in client.items():
        if _SECRET.search(name):
            variable = re.sub(r"\W", "_", name).upper()
            yield f"kafka.{name} = {_quoted(f'${{{variable}}}')}    # of the environment"
        else:
            yield f"kafka.{name} = {_quoted(value.replace('${', '$${'))}"
    yield f"subscribe = {_quoted(draft.topic)}"
    yield 'startingOffsets = "earliest"'
    yield "# maxOffsetsPerTrigger = 1000000    # how many records a batch has at most"


def _format(draft: Draft, mode: str) -> Iterator[str]:
    yield ""
    yield "[format]"
    yield f'kind = "{draft.kind}"'
    if draft.debezium:
        yield 'envelope = "debezium"    # before, after, op; deletes, truncates and tombstones are applied'
    if draft.debezium and not draft.registry:
        yield f'times = "{draft.times}"    # "micros", "millis" or "nanos", as the connector has them'
        yield f'decimals = "{draft.decimals}"    # the connector\'s decimal.handling.mode'
    if draft.registry:
        yield 'header = "confluent"'
        yield 'schema = "latest"    # the newest version when a run begins; or a file'
        yield f"registry = {{ url = {_quoted(draft.registry)} }}    # username, password, ca, timeout"
    elif draft.columns:
        yield "# Types are guessed from a sample, correct them: a value that does not fit ends the run."
        yield f"schema = {_quoted(ddl(draft.columns))}"
    if draft.kind == "csv":
        yield f"delimiter = {_quoted(draft.delimiter)}"
    if draft.key and mode != "append":
        kind = 'kind = "text", ' if draft.key_kind == "text" else ""
        yield f"key = {{ {kind}schema = {_quoted(ddl(draft.key))} }}"


def _transform(draft: Draft, mode: str) -> Iterator[str]:
    yield ""
    if mode != "append":
        yield "# [transform]    # _change must be handed on as it is"
        yield f'# sql = "SELECT {_fields(draft)}, _change FROM source"'  # noqa: S608 - a file's own text
        return
    yield "[transform]"
    yield 'sql = """'
    if draft.columns or draft.registry:
        yield f"SELECT {_fields(draft)}, timestamp AS record_time"
    else:
        yield "SELECT topic, partition, offset, timestamp AS record_time, key, value"
    yield "FROM source"
    yield '"""'


def _fields(draft: Draft) -> str:
    return ", ".join(f"value.{quoted(name)}" for name in draft.columns) or "value.*"


def _sink(draft: Draft, sink: str, mode: str, key: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "[sink]"
    yield f'kind = "{sink}"'
    yield f"path = {_quoted(draft.topic)}"
    if sink == "iceberg":
        yield f"table = {_quoted('lake.' + draft.topic.replace('.', '_'))}"
        yield 'catalog = "sqlite:///catalog.db"    # or { type = "rest", uri = "http://127.0.0.1:8181" }'
    if mode == "append":
        yield 'eventTime = { column = "record_time", by = "day" }    # a folder each day'
    else:
        yield f'mode = "{mode}"'
        yield f"key = [{', '.join(map(_quoted, key))}]"
    yield "# compactEvery = 100    # after so many batches small files become large ones"


def _rest(draft: Draft) -> Iterator[str]:
    yield ""
    yield "# [deadLetter]    # where records go that do not fit; without it the first one ends the run"
    yield '# kind = "parquet"'
    yield f"# path = {_quoted(f'{draft.topic}~dlq')}"
    yield ""
    yield "# [notify]"
    yield '# webhook = "${HOOK}"    # is told when the pipeline fails'
    yield ""


def _quoted(value: str) -> str:
    """A text as TOML has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
