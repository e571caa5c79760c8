"""Records to text, with the properties of kafka-console-consumer.sh (``DefaultMessageFormatter``)."""

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.cli.deserializers import Deserializer, deserializer
from barnabas.cli.options import is_true, known_properties
from barnabas.client.types import ConsumerRecord
from barnabas.records.batch import TimestampType

_DEFAULTS: Final = {
    "print.timestamp": "false",
    "print.key": "false",
    "print.offset": "false",
    "print.partition": "false",
    "print.headers": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": None,
    "value.deserializer": None,
    "headers.deserializer": None,
}


class RecordFormatter:
    """Formats records: the parts that are switched on, between separators. Raises ClickException."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        given = known_properties(properties, _DEFAULTS)
        self._timestamp, self._key, self._offset, self._partition, self._headers, self._value = (
            is_true(given[f"print.{part}"])
            for part in ("timestamp", "key", "offset", "partition", "headers", "value")
        )
        self._separator = given["key.separator"].encode()
        self._end = given["line.separator"].encode()
        self._headers_separator = given["headers.separator"].encode()
        self._null = given["null.literal"].encode()
        self._read_key, self._read_value, self._read_header = (
            self._reader(given[f"{part}.deserializer"]) for part in ("key", "value", "headers")
        )

    def _reader(self, name: str | None) -> Callable[[bytes | None], bytes]:
        """What makes text of a key, value or header;
        Kafka's script hands its deserializer the literal where there is null.
        """
        null = self._null
        if name is None:
            return lambda data: null if data is None else data
        read: Deserializer = deserializer(name)
        return lambda data: null if data is None else read(data)

    def format(self, record: ConsumerRecord) -> bytes:
        """The bytes to print; empty when nothing is switched on. Raises DeserializationError."""
        parts = []
        if self._timestamp:
            parts.append(_timestamp(record))
        if self._partition:
            parts.append(b"Partition:%d" % record.partition)
        if self._offset:
            parts.append(b"Offset:%d" % record.offset)
        if self._headers:
            parts.append(self._format_headers(record))
        if self._key:
            parts.append(self._read_key(record.key))
        if self._value:
            parts.append(self._read_value(record.value))
        return self._separator.join(parts) + self._end if parts else b""

    def _format_headers(self, record: ConsumerRecord) -> bytes:
        pairs = [name.encode() + b":" + self._read_header(value) for name, value in record.headers]
        return self._headers_separator.join(pairs) or b"NO_HEADERS"


def _timestamp(record: ConsumerRecord) -> bytes:
    if record.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        return b"NO_TIMESTAMP"
    return f"{record.timestamp_type.label}:{record.timestamp}".encode()
