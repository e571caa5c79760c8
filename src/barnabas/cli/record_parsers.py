"""What ``dump-log`` prints of a record's key and value: the decoders of kafka-dump-log.sh.

A parser gives the texts of key and payload; None is not printed at all.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import click

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import partition_hash, partition_order
from barnabas.operations.message_json import json_text
from barnabas.operations.messages.internal_records import (
    TRANSACTION_STATES,
    offsets_key_node,
    offsets_value_node,
)
from barnabas.protocol.coordinator.record import UnknownRecordTypeError
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.protocol.versioned import read_prefix
from barnabas.records.record import Record

Texts: TypeAlias = tuple[str | None, str | None]
RecordParser: TypeAlias = Callable[[Record], Texts]

DELETED: Final = "<DELETE>"
_SMALL_SET: Final = 4

# Records of offsets and groups (``DumpLogSegments.OffsetsMessageParser``)


def parse_offsets(record: Record) -> Texts:
    """A record of ``__consumer_offsets`` as JSON. Raises ClickException for one without a key."""
    if record.key is None:
        raise click.ClickException(
            f"Failed to decode message at offset {record.offset} using offset topic decoder "
            "(message had a missing key)"
        )
    try:
        return json_text(offsets_key_node(record.key)), _value_text(record.key, record.value)
    except UnknownRecordTypeError as error:
        return f"Unknown record type {error.record_type} at offset {record.offset}, skipping.", None
    except BarnabasError as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _value_text(key: bytes, value: bytes | None) -> str:
    return DELETED if value is None else json_text(offsets_value_node(key, value))


# Records of transactions (``TransactionLog.formatRecordKeyAndValue``)


def parse_transaction(record: Record) -> Texts:
    """A record of ``__transaction_state``. Raises ProtocolError when it cannot be read."""
    key = record.key or b""
    version = read_prefix(key, "TransactionLogKey")
    if version != TransactionLogKey.record_type:
        return f"unknown::version={version}", None
    text = f"transaction_metadata::transactionalId={TransactionLogKey.from_bytes(key).transactional_id}"
    if record.value is None:
        return text, DELETED
    return text, _transaction_text(TransactionLogValue.from_bytes(record.value))


def _transaction_text(value: TransactionLogValue) -> str:
    state = TRANSACTION_STATES[value.transaction_status]
    # Kafka's tool looks at no partitions of a transaction that has not begun.
    schemas = [] if state == "Empty" else value.transaction_partitions or []
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={state},"
        f"partitions=[{','.join(str(tp) for tp in _as_scala_iterates(schemas))}],"
        f"txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


def _as_scala_iterates(schemas: Iterable[PartitionsSchema]) -> list[TopicPartition]:
    """In the order of the ``mutable.HashSet`` that Kafka's tool puts the partitions of each topic into.

    It is Java's, but for two things: a bucket is sorted by hash, and the table grows for the size of each
    topic's set, or one by one for sets of up to four, which Scala keeps without hashes.
    """
    partitions: set[TopicPartition] = set()
    buckets = 16
    for schema in schemas:
        added = {TopicPartition(schema.topic, partition) for partition in schema.partition_ids}
        partitions |= added
        while buckets < int((len(added) + 1) / 0.75) or (
            len(added) <= _SMALL_SET and len(partitions) >= buckets * 3 // 4
        ):
            buckets *= 2
    return partition_order(sorted(partitions, key=_folded_hash), buckets)


def _folded_hash(tp: TopicPartition) -> int:
    value = partition_hash(tp) & 0xFFFFFFFF
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


# Other records (``o.a.k.tools.api.Decoder``)


def _integer(size: int) -> Callable[[bytes], str]:
    def decode(data: bytes) -> str:
        if len(data) < size:
            raise click.ClickException(f"{len(data)} bytes are no number of {size} bytes")
        return str(int.from_bytes(data[:size], "big", signed=True))

    return decode


_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "LongDecoder": _integer(8),
    "IntegerDecoder": _integer(4),
}
_PACKAGE: Final = "org.apache.kafka.tools.api."
_OLD_PACKAGE: Final = "kafka.serializer."


def decoding_parser(key_decoder: str, value_decoder: str) -> RecordParser:
    """A parser out of two of Kafka's decoder classes. Raises ClickException for another class."""
    decode_value, decode_key = _decoder(value_decoder), _decoder(key_decoder)

    def parse(record: Record) -> Texts:
        key = None if record.key is None else decode_key(record.key)
        return key, None if record.value is None else decode_value(record.value)

    return parse


def deprecations(*decoders: str) -> list[str]:
    """What to say of decoders that are called by their old names."""
    return [
        f"{name} is deprecated. Please use {_new_name(name)} instead"
        for name in decoders
        if name.startswith(_OLD_PACKAGE)
    ]


def _new_name(name: str) -> str:
    return name.replace(_OLD_PACKAGE, _PACKAGE, 1) if name.startswith(_OLD_PACKAGE) else name


def _decoder(name: str) -> Callable[[bytes], str]:
    package, _, short_name = _new_name(name).rpartition(".")
    if f"{package}." != _PACKAGE or short_name not in _DECODERS:
        known = ", ".join(_PACKAGE + known for known in _DECODERS)
        raise click.ClickException(f"{name} is a Java class that this tool cannot run; it knows {known}")
    return _DECODERS[short_name]
