"""The plan of a record that is produced."""

import hashlib
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from barnabas.admin import AsyncAdmin
from barnabas.client import AsyncProducer
from barnabas.console.actions.plans import Effect, Planned
from barnabas.console.actions.topics import INT32_MAX, TIMEOUT_MS, Name
from barnabas.operations.errors import OperationError
from barnabas.operations.messages.decoding import json_problem

_VALUE_MAX: Final = 900_000
_SHOWN_MAX: Final = 4_000
PRODUCER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.timeout.ms": 15_000,
    "request.timeout.ms": 10_000,
    "linger.ms": 0,
    "max.block.ms": 10_000,
}
"""Options of the producer that sends it."""


@dataclass(frozen=True, slots=True)
class ProduceRecord:
    """A record; a partition of -1 is chosen by the key, as producers do. Headers are NAME: VALUE, one a
    line.
    """

    topic: Name
    key: Annotated[str, Field(max_length=_VALUE_MAX)] = ""
    key_form: Literal["text", "json", "hex", "null"] = "text"
    value: Annotated[str, Field(max_length=_VALUE_MAX)] = ""
    value_form: Literal["text", "json", "hex", "null"] = "text"
    headers: Annotated[str, Field(max_length=100_000, description="NAME: VALUE, one a line")] = ""
    partition: Annotated[
        int, Field(ge=-1, le=INT32_MAX, description="-1: chosen by the key, as producers do")
    ] = -1

    AREAS: ClassVar = ("value", "headers")
    """Fields with room for several lines."""


async def produce_record(admin: AsyncAdmin, wanted: ProduceRecord) -> Planned:
    """The preview shows the record; the audit log has its size and its digest, never what is in it."""
    described = (await admin.topics.describe([wanted.topic], timeout_ms=TIMEOUT_MS))[wanted.topic]
    if described.is_internal:
        raise OperationError(f"{wanted.topic} is the cluster's own: the console writes nothing to it")
    if wanted.partition >= len(described.partitions):
        raise OperationError(
            f"topic {wanted.topic} has no partition {wanted.partition}: it has {len(described.partitions)}"
        )
    key = _bytes(wanted.key, wanted.key_form, "the key")
    value = _bytes(wanted.value, wanted.value_form, "the value")
    headers = _headers(wanted.headers)
    partition = None if wanted.partition < 0 else wanted.partition

    async def produce(producer: AsyncProducer) -> str:
        stored = await producer.send_and_wait(wanted.topic, value, key, partition=partition, headers=headers)
        return f"stored in {stored.topic}-{stored.partition} at offset {stored.offset}"

    where = "a partition by its key" if partition is None else f"partition {partition}"
    after = f"in {where}: key {_size(key)}, value {_size(value)}, {len(headers)} headers"
    if value is not None:
        after += f", SHA-256 of the value {hashlib.sha256(value).hexdigest()}"
    content = [("key", _shown(key)), ("value", _shown(value))]
    content += [(name, _shown(one)) for name, one in headers]
    return Planned(
        wanted.topic,
        [Effect(f"a record of {wanted.topic}", "not there", after)],
        _nothing,
        ["a record that is produced cannot be taken back; who reads the topic gets it"],
        content=content,
        produce=produce,
    )


async def _nothing(_admin: AsyncAdmin) -> None:
    """A record is sent by a producer."""


def _bytes(text: str, form: str, what: str) -> bytes | None:
    if form == "null":
        if text:
            raise OperationError(f"{what} is null and has a text: take one of them away")
        return None
    if form == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise OperationError(f"{what} is no hexadecimal digits, two a byte") from None
    if form == "json" and (problem := json_problem(text)):
        raise OperationError(f"{what} is no JSON: {problem}")
    return text.encode()


def _headers(text: str) -> list[tuple[str, bytes]]:
    found = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if line.strip() and (not colon or not name.strip()):
            raise OperationError(f"{line.strip()!r} is no NAME: VALUE")
        if line.strip():
            encoded = _bytes(value.strip(), "text", f"the header {name.strip()}")
            assert encoded is not None, "a text has bytes"
            found.append((name.strip(), encoded))
    if len(found) > 100:
        raise OperationError("a record of the console has at most 100 headers")
    return found


def _size(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data):,} bytes"


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.hex(" ")
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]} ... ({len(text):,} characters)"
