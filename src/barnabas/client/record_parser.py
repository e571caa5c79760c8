"""`RecordParser`: makes objects of the keys and values that were read, and deals with what does not parse.

What does not parse is dealt with as ``deserialization.errors`` says: `poll` raises (``raise``), and the
position stays in front of the record; it is left out with a line in the log (``skip``); or an `UnparsedValue`
stands in the place of key or value (``keep``).
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.errors import RecordDeserializationError
from barnabas.client.serialization import Convert, converter
from barnabas.client.types import ConsumerRecord
from barnabas.core.config import Config
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition

_KEEP: Final = "keep"
_SKIP: Final = "skip"

_log = EventLog("client.consumer")


class UnparsedValue(NamedTuple):
    """Stands for a key or value that did not parse: its bytes, and what the deserializer raised."""

    data: bytes
    error: Exception


class Parsed(NamedTuple):
    """What became of some records: those in front of the first failure, and that."""

    records: list[ConsumerRecord]
    failure: RecordDeserializationError | None


class RecordParser:
    """That of one consumer."""

    def __init__(self, key: Convert | None, value: Convert | None, on_error: str) -> None:
        self._key = key
        self._value = value
        self._on_error = on_error

    def parse(self, records: Sequence[ConsumerRecord]) -> Parsed:
        """The records, all of one partition, with parsed keys and values."""
        parsed: list[ConsumerRecord] = []
        skipped: list[RecordDeserializationError] = []
        for record in records:
            try:
                parsed.append(self._parse(record))
            except RecordDeserializationError as error:
                if self._on_error != _SKIP:
                    return Parsed(parsed, error)
                skipped.append(error)
        if skipped:
            # One line for all that came together: a topic full of them does not fill the disk.
            first = skipped[0]
            _log.warning(
                "record.skipped", partition=first.tp, offset=first.offset, records=len(skipped), error=first
            )
        return Parsed(parsed, None)

    def _parse(self, record: ConsumerRecord) -> ConsumerRecord:
        return record._replace(
            key=self._part(record, "key", self._key, record.key),
            value=self._part(record, "value", self._value, record.value),
        )

    def _part(self, record: ConsumerRecord, part: str, convert: Convert | None, data: Any) -> Any:
        if convert is None or data is None:
            return data
        try:
            return convert(record.topic, data)
        except Exception as error:
            if self._on_error == _KEEP:
                return UnparsedValue(data, error)
            tp = TopicPartition(record.topic, record.partition)
            raise RecordDeserializationError(tp, record, part, error) from error


def parser_of(config: Config) -> RecordParser | None:
    """The parser that these options ask for; None where bytes are handed out."""
    key, value = config["key.deserializer"], config["value.deserializer"]
    if key is None and value is None:
        return None
    key, value = (one if one is None else converter(one, "deserialize") for one in (key, value))
    return RecordParser(key, value, config["deserialization.errors"])
