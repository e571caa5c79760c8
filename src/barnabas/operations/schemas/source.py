"""`SchemaSource`: reads values by the schemas of a registry. The registry is asked before values are read,
and for some time not again when it does not answer.
"""

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.core.extras import extra
from barnabas.operations.schemas.registry import (
    RegisteredSchema,
    RegistryAwayError,
    RegistryClient,
    RegistryError,
    schema_id,
    unframed,
)

_KEPT_MAX: Final = 1_000
_ASKED_MAX: Final = 50
"""New ids of one `prepare`: bytes that only look like a frame are many ids."""
_AGAIN_S: Final = 30.0
"""After this a registry is asked again for what it did not have, or did not answer."""


class UnreadSchemaError(BarnabasError, ValueError):
    """There is no schema for an id, or none that values can be read by; the text says why."""


class SchemaSource:
    """Of one registry. `prepare` asks it, `value` reads by what it said."""

    def __init__(self, client: RegistryClient) -> None:
        self.client = client
        self._known: dict[int, RegisteredSchema] = {}
        self._missing: dict[int, tuple[float, str]] = {}
        self._away: tuple[float, str] | None = None

    async def prepare(self, numbers: Iterable[int]) -> None:
        """Asks for those that are not known. Raises nothing: `value` says what is missing."""
        now = time.monotonic()
        if self._away is not None and self._away[0] > now:
            return
        self._away = None
        wanted = [
            one
            for one in dict.fromkeys(numbers)
            if one not in self._known and self._missing.get(one, (0.0, ""))[0] <= now
        ]
        for number in wanted[:_ASKED_MAX]:
            try:
                found = await asyncio.to_thread(self._ask, number)
            except RegistryAwayError as error:
                self._away = now + _AGAIN_S, str(error)
                return
            except RegistryError as error:
                self._miss(number, str(error))
                continue
            if found is None:
                self._miss(number, f"the registry has no schema with the id {number}")
                continue
            while len(self._known) >= _KEPT_MAX:
                del self._known[next(iter(self._known))]
            self._known[number] = found

    def _ask(self, number: int) -> RegisteredSchema | None:
        found = self.client.schema(number)
        # The text of a .proto file is nothing that a library in Python reads.
        return self.client.schema(number, compiled=True) if found and found.kind == "PROTOBUF" else found

    def _miss(self, number: int, why: str) -> None:
        while len(self._missing) >= _KEPT_MAX:
            del self._missing[next(iter(self._missing))]
        self._missing[number] = time.monotonic() + _AGAIN_S, why

    def value(self, data: bytes) -> tuple[str, Any]:
        """The kind of the schema (AVRO, PROTOBUF or JSON), and the value. Raises UnreadSchemaError, and some
        exception for a malformed value.
        """
        number = schema_id(data)
        schema = self._known.get(number)
        if schema is None:
            missing, away = self._missing.get(number), self._away
            unasked = f"schema {number} was not asked for, or not answered in time"
            raise UnreadSchemaError(missing[1] if missing else away[1] if away else unasked)
        if schema.kind == "AVRO":
            with extra("schemas", "reading values of Avro", "fastavro"):
                from barnabas.operations.schemas.avro import avro_value
            return schema.kind, avro_value(schema, unframed(data))
        if schema.kind == "JSON":
            return schema.kind, json.loads(unframed(data))
        if schema.kind == "PROTOBUF":
            with extra("schemas", "reading values of Protobuf", "google.protobuf"):
                from barnabas.operations.schemas.protobuf import protobuf_value
            return schema.kind, protobuf_value(schema, unframed(data))
        raise UnreadSchemaError(f"schema {number} is of the kind {schema.kind}, which is not read here")
