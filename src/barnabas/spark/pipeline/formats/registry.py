"""Which schema a value was written with, by the ids of a schema registry (Confluent's REST API).

An id means one schema for good, so each is asked for once and kept in the checkpoint, where all executors
find it::

    checkpoint/schemas/17.json

A registry that is away stops nothing that is known. A value with an id that is not known holds the batch:
`RegistryAwayError` ends the task, and the pipeline starts the query again until the registry answers. An id
that the registry does not have makes its value malformed.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from barnabas.core.synchronise import synchronise
from barnabas.operations.schemas.registry import RegisteredSchema, RegistryClient, schema_id
from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.formats.decoder import column_of
from barnabas.spark.pipeline.tables.synchronise import synchronise_up

UNREGISTERED: Final = "the registry has no schema with the id"
_known: dict[tuple[Path, int], RegisteredSchema | None] = {}
"""Of this process. None for an id that the registry does not have."""


class ResolvingDecoder(Protocol):
    """A decoder that reads a value by the schema that it was written with."""

    def parse_by(self, writer: RegisteredSchema, body: bytes) -> Any:
        """One value without its frame. Raises some exception for a malformed one."""

    def parse(self, value: bytes) -> Any:
        """As `Decoder`."""

    @property
    def type(self) -> Any:
        """As `Decoder`."""

    def column(self, parsed: Sequence[Any]) -> pa.StructArray:
        """As `Decoder`."""


@dataclass(frozen=True, slots=True)
class RegistrySchemas:
    """Reads each value by the schema of its id, in the place of `SchemaIds`."""

    checkpoint: Path
    registry: RegistryClient

    @property
    def _folder(self) -> Path:
        return self.checkpoint / "schemas"

    def prepare(self) -> None:
        """Makes the folder of the schemas; on the driver, before the first batch."""
        self._folder.mkdir(parents=True, exist_ok=True)
        synchronise_up(self._folder, self.checkpoint)

    def column_of(
        self, decoder: ResolvingDecoder, values: Sequence[bytes | None], topics: Sequence[str]
    ) -> tuple[pa.StructArray, dict[int, str]]:
        """The values as an array, and what is malformed in it. Raises RegistryAwayError."""
        del topics
        schemas: dict[int, RegisteredSchema | None] = {}
        for value in values:
            # Before the first value is read: a registry that is away says nothing of a value.
            if value is not None and len(value) > 4 and value[0] == 0:
                number = schema_id(value)
                if number not in schemas:
                    schemas[number] = self.of(number)

        def parse(_row: int, value: bytes) -> Any:
            number = schema_id(value)
            schema = schemas[number]
            if schema is None:
                raise ValueError(f"{UNREGISTERED} {number}")
            return decoder.parse_by(schema, value[5:])

        return column_of(decoder, values, parse)

    def of(self, number: int) -> RegisteredSchema | None:
        """The schema of an id, None where the registry has none. Raises PipelineError."""
        key = self.checkpoint, number
        if key not in _known:
            path = self._folder / f"{number}.json"
            try:
                _known[key] = RegisteredSchema(**json.loads(path.read_text(encoding="utf-8")))
            except FileNotFoundError:
                found = self.registry.schema(number)
                if found is None:
                    return None  # it may be registered in a moment
                self._keep(path, found)
                _known[key] = found
            except (ValueError, TypeError) as error:
                raise PipelineError(f"{path} is no schema: {error}") from None
        return _known[key]

    def _keep(self, path: Path, found: RegisteredSchema) -> None:
        new = path.with_name(f".{uuid.uuid4().hex}")
        try:
            new.write_text(
                json.dumps({"kind": found.kind, "text": found.text, "references": found.references}),
                encoding="utf-8",
            )
        except FileNotFoundError:
            raise PipelineError(
                f"{self._folder} is not here: the driver and all executors must share the file system of "
                "checkpoint"
            ) from None
        synchronise(new)
        new.replace(path)
