"""Which schema a value was written with, by the ids of a schema registry (Confluent's REST API).

An id means one schema for good, so each is asked for once and kept in the checkpoint, where all executors
find it::

    checkpoint/schemas/17.json

A registry that is away stops nothing that is known. A value with an id that is not known holds the batch:
`RegistryAwayError` ends the task, and the pipeline starts the query again until the registry answers. An id
that the registry does not have makes its value malformed.
"""

import base64
import json
import ssl
import urllib.error
import urllib.request
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import pyarrow as pa

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.formats.decoder import column_of
from barnabas.spark.pipeline.formats.schema_ids import schema_id
from barnabas.spark.pipeline.tables.synchronise import synchronise, synchronise_up

_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_BYTES_MAX: Final = 8 << 20
"""A schema with more is refused."""
_REFERENCES_MAX: Final = 100
AWAY: Final = "[SCHEMA_REGISTRY_AWAY]"
_NOT_FOUND: Final = 404
_known: dict[tuple[Path, int], "RegisteredSchema | None"] = {}
"""Of this process. None for an id that the registry does not have."""


class RegistryAwayError(PipelineError):
    """The registry does not answer, or answers with an error of its own."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{AWAY} the schema registry {address} does not answer: {reason}")


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """Where a registry is, and how to log in to it. It travels to the executors by pickle."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)
    """The PEM of the authorities that its certificate is checked by; empty for those of the system."""
    timeout_s: float = 10.0

    def get(self, path: str) -> Any:
        """What it says of a path, None where it has none. Raises RegistryAwayError, and PipelineError where
        it refuses the log-in.
        """
        request = urllib.request.Request(f"{self.url}{path}", headers={"Accept": _ACCEPT})  # noqa: S310
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        context = ssl.create_default_context(cadata=self.ca or None) if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s, context=context) as answer:  # noqa: S310
                text = answer.read(_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return None
            if error.code in {401, 403}:
                raise PipelineError(
                    f"format.registry: {self.url} refuses the user {self.username or 'without a name'} "
                    f"(HTTP {error.code})"
                ) from None
            raise RegistryAwayError(self.url, f"HTTP {error.code}") from None
        except (OSError, ValueError) as error:
            raise RegistryAwayError(self.url, str(getattr(error, "reason", error))) from None
        if len(text) > _BYTES_MAX:
            raise PipelineError(f"format.registry: {self.url}{path} has more than {_BYTES_MAX:,} bytes")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise RegistryAwayError(self.url, "its answer is no JSON") from None

    def schema(self, number: int) -> "RegisteredSchema | None":
        """The schema of an id with those that it refers to, None where there is none."""
        found = self.get(f"/schemas/ids/{number}")
        return None if found is None else self._whole(found)

    def _whole(self, found: Any) -> "RegisteredSchema":
        try:
            named: dict[tuple[str, int], str] = {}
            self._collect(found, named)
            return RegisteredSchema(
                str(found.get("schemaType", "AVRO")), str(found["schema"]), list(named.values())
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RegistryAwayError(self.url, f"its answer is no schema ({error})") from None

    def _collect(self, found: Any, named: dict[tuple[str, int], str]) -> None:
        """The schemas that one refers to, each behind those that it refers to itself."""
        for reference in found.get("references") or ():
            key = str(reference["subject"]), int(reference["version"])
            if key in named:
                continue
            if len(named) >= _REFERENCES_MAX:
                raise PipelineError(f"a schema of {self.url} refers to more than {_REFERENCES_MAX} others")
            one = self.get(f"/subjects/{quote(key[0], safe='')}/versions/{key[1]}")
            if one is None:
                raise PipelineError(
                    f"{self.url} has no version {key[1]} of {key[0]}, which a schema refers to"
                )
            named[key] = ""  # a circle ends here
            self._collect(one, named)
            del named[key]
            named[key] = str(one["schema"])


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """What an id means."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: list[str]
    """The texts of those that it refers to, each behind those that it refers to itself."""


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
                raise ValueError(f"the registry has no schema with the id {number}")
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
