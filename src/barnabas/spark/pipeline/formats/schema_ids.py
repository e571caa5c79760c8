"""Which schemas the values of a topic may have, by the ids of a schema registry (``header = "confluent"``).

No registry is asked what an id means. A value of another schema would be decoded by the pipeline's, and its
fields could change places without an error. So the first id of each topic is pinned, and a value with another
one is malformed.

A pin is a file in the checkpoint, so it lives as long as the query's offsets do and is seen by all
executors::

    checkpoint/schema-ids/flights      17

Several tasks may look for the pin of a topic at one moment. Each writes its own id to a file and links that
to the pin's name: one link succeeds, and the others take what is there. The pin is on the disk before a value
that rests on it is.
"""

import contextlib
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from barnabas.core.synchronise import synchronise
from barnabas.operations.schemas.registry import schema_id
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.formats.decoder import Decoder, column_of
from barnabas.spark.pipeline.tables.synchronise import synchronise_up


@dataclass(frozen=True, slots=True)
class SchemaIds:
    """The ids that a pipeline reads. It travels to the executors by pickle."""

    checkpoint: Path
    named: tuple[int, ...] = ()
    """``schemaIds`` of the file: these and no others, in all topics.

    Empty to pin the first one of each topic.
    """

    @property
    def _folder(self) -> Path:
        return self.checkpoint / "schema-ids"

    def prepare(self) -> None:
        """Makes the folder of the pins; on the driver, before the first batch."""
        self._folder.mkdir(parents=True, exist_ok=True)
        synchronise_up(self._folder, self.checkpoint)

    def column_of(
        self, decoder: Decoder, values: Sequence[bytes | None], topics: Sequence[str]
    ) -> tuple[pa.StructArray, dict[int, str]]:
        """The values as an array, and what is malformed in it; an id that the topic does not have is, too."""
        allowed = {topic: self.of(topic) for topic in set(topics)}
        first: dict[str, int] = {}

        def parse(row: int, value: bytes) -> Any:
            topic, found = topics[row], schema_id(value)
            _require(found, allowed[topic] or (first.get(topic, found),), topic)
            parsed = decoder.parse(value)
            # What cannot be decoded pins nothing: its id may be as wrong as the rest of it.
            first.setdefault(topic, found)
            return parsed

        column, malformed = column_of(decoder, values, parse)
        new = {topic: found for topic, found in first.items() if not allowed[topic]}
        if any(self._pin(topic, found) != found for topic, found in new.items()):
            # A task of another partition was first, with another id: all is judged again by that one.
            return self.column_of(decoder, values, topics)
        return column, malformed

    def of(self, topic: str) -> tuple[int, ...]:
        """The ids that values of a topic may have; empty before its first one. Raises PipelineError."""
        if self.named:
            return self.named
        path = self._folder / topic
        try:
            return (int(path.read_text(encoding="ascii")),)
        except FileNotFoundError:
            if self._folder.is_dir():
                return ()
            raise PipelineError(
                f"{self._folder} is not here: the driver and all executors must share the file system of "
                "checkpoint"
            ) from None
        except ValueError as error:
            raise PipelineError(f"{path} is no id of a schema: {error}") from None

    def _pin(self, topic: str, found: int) -> int:
        """Pins the id unless the topic has one by now; the one that it has then."""
        mine = self._folder / f".{uuid.uuid4().hex}"
        mine.write_text(f"{found}\n", encoding="ascii")
        try:
            synchronise(mine)
            with contextlib.suppress(FileExistsError):
                os.link(mine, self._folder / topic)
            synchronise(self._folder)
        finally:
            mine.unlink()
        (pinned,) = self.of(topic)
        return pinned


def _require(found: int, allowed: Sequence[int], topic: str) -> None:
    if found not in allowed:
        ids = ", ".join(map(str, allowed))
        both = ", ".join(map(str, sorted({*allowed, found})))
        raise ValueError(
            f"its schema has the id {found}, and of {topic} this pipeline reads {ids}. Where both have the "
            f"schema of the file, say schemaIds = [{both}]"
        )
