"""What ``dump-log`` prints of a record's key and value: the decoders of kafka-dump-log.sh.

A parser gives the texts of key and payload; None is not printed at all.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import click

from barnabas.cli.message_json import json_text, message_node
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import partition_hash, partition_order
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue, UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from barnabas.protocol.versioned import Versioned, read_prefix
from barnabas.records.record import Record

Texts: TypeAlias = tuple[str | None, str | None]
RecordParser: TypeAlias = Callable[[Record], Texts]

DELETED: Final = "<DELETE>"
CONSUMER_PROTOCOL: Final = "consumer"
_SMALL_SET: Final = 4

# Records of offsets and groups (``DumpLogSegments.OffsetsMessageParser``)


class _UnreadableError(Exception):
    """A record's bytes are not what their type says; the text is Kafka's."""


def parse_offsets(record: Record) -> Texts:
    """A record of ``__consumer_offsets`` as JSON. Raises ClickException for one without a key."""
    if record.key is None:
        raise click.ClickException(
            f"Failed to decode message at offset {record.offset} using offset topic decoder "
            "(message had a missing key)"
        )
    try:
        return _key_text(record.key), _value_text(record.key, record.value)
    except UnknownRecordTypeError as error:
        return f"Unknown record type {error.record_type} at offset {record.offset}, skipping.", None
    except (BarnabasError, _UnreadableError) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _record_type(key: bytes) -> int:
    if len(key) < 2:
        raise _UnreadableError("Could not read version from key's buffer.")
    return read_prefix(key, "key")


def _key_text(key: bytes) -> str:
    record_type = _record_type(key)
    key_class, _ = CONSUMER_OFFSETS.classes(record_type)
    message = _read(key_class, key, record_type, "key")
    return json_text({"type": str(record_type), "data": message_node(message, 0)})


def _value_text(key: bytes, value: bytes | None) -> str:
    if value is None:
        return DELETED
    record_type = _record_type(key)
    # Offsets of the first type of key have been written with values of every version.
    _, value_class = CONSUMER_OFFSETS.classes(max(record_type, 1))
    if len(value) < 2:
        raise _UnreadableError("Could not read version from value's buffer.")
    version = read_prefix(value, "value")
    message = _read(value_class, value, version, "value")
    node = message_node(message, version)
    if node.get("protocolType") == CONSUMER_PROTOCOL:
        for shown, member in zip(node["members"], getattr(message, "members"), strict=True):  # noqa: B009
            _open(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _open(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return json_text({"version": str(version), "data": node})


def _read(
    message: type[CoordinatorKey] | type[CoordinatorValue], data: bytes, version: int, what: str
) -> CoordinatorKey | CoordinatorValue:
    known = what == "key" or message.min_version <= version <= message.max_version
    try:
        if not known:
            raise _UnreadableError(f"Can't read version {version} of {message.__name__}")
        return message.from_bytes(data)
    except (BarnabasError, _UnreadableError) as error:
        raise _UnreadableError(
            f"Could not read record with version {version} from {what}'s buffer due to: {error}."
        ) from error


def _open(shown: dict[str, Any], name: str, message: type[Versioned], data: bytes) -> None:
    """Shows what consumers sent each other; what cannot be read stays base64."""
    try:
        version = read_prefix(data, name)
        if 0 <= version <= message.max_version:
            shown[name] = message_node(message.from_bytes(data), version)
    except BarnabasError:
        return


# Records of transactions (``TransactionLog.formatRecordKeyAndValue``)

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


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
    state = _STATES[value.transaction_status]
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
