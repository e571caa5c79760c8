"""What stands behind ``--formatter`` of kafka-console-consumer.sh:
the classes of Kafka that turn a record into text.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import click

from barnabas.cli.record_formatter import RecordFormatter
from barnabas.client.types import ConsumerRecord
from barnabas.operations.message_json import json_text, message_node
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.protocol.versioned import read_prefix

Formatter: TypeAlias = Callable[[ConsumerRecord], bytes]
"""The bytes to print of a record. Raises BarnabasError for one that it cannot read."""

DEFAULT: Final = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_PACKAGE: Final = "org.apache.kafka.tools.consumer."
_RENAMED: Final = {
    "kafka.tools.DefaultMessageFormatter": DEFAULT,
    "kafka.tools.LoggingMessageFormatter": f"{_PACKAGE}LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter": f"{_PACKAGE}NoOpMessageFormatter",
}
_OLD_OFFSETS: Final = "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter"
_REPLACED: Final = {
    _OLD_OFFSETS: f"{_PACKAGE}OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": (
        f"{_PACKAGE}GroupMetadataMessageFormatter"
    ),
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": (
        f"{_PACKAGE}TransactionLogMessageFormatter"
    ),
}
"""Deprecated classes that print in a form of their own."""
_Keys: TypeAlias = Mapping[int, type[CoordinatorKey]]
"""By the type of the record that they begin with."""
_OFFSETS: Final[_Keys] = {0: LegacyOffsetCommitKey, 1: OffsetCommitKey}
_GROUPS: Final[_Keys] = {2: GroupMetadataKey}
_TRANSACTIONS: Final[_Keys] = {0: TransactionLogKey}
_UNKNOWN: Final = "unknown"


def formatter(name: str, properties: Mapping[str, str]) -> Formatter:
    """The formatter of this Java class with these properties. Raises ClickException for another class."""
    found = _RENAMED.get(name, name)
    if found in {DEFAULT, f"{_PACKAGE}LoggingMessageFormatter"}:
        return RecordFormatter(properties).format  # what the second one logs, Kafka's script does not show
    if found == _OLD_OFFSETS:
        return _old_offsets
    others = {
        f"{_PACKAGE}NoOpMessageFormatter": _nothing,
        f"{_PACKAGE}OffsetsMessageFormatter": _as_json(_OFFSETS, OffsetCommitValue),
        f"{_PACKAGE}GroupMetadataMessageFormatter": _as_json(_GROUPS, GroupMetadataValue),
        f"{_PACKAGE}TransactionLogMessageFormatter": _as_json(_TRANSACTIONS, TransactionLogValue),
    }
    if found in others:
        return others[found]
    if found in _REPLACED:
        raise click.ClickException(f"{name} is not there: take {_REPLACED[found]}")
    known = ", ".join((DEFAULT, *others))
    raise click.ClickException(f"{name} is a Java class that this tool cannot run; it knows {known}")


def deprecation(name: str) -> str | None:
    """What to say of a class that is called by its old name."""
    new = _RENAMED.get(name) or _REPLACED.get(name)
    if new is None:
        return None
    return (
        f"WARNING: {name} is deprecated and will be removed in the next major release. Please use {new} "
        "instead"
    )


def _nothing(_record: ConsumerRecord) -> bytes:
    return b""


def _as_json(wanted: _Keys, value_class: type[CoordinatorValue]) -> Formatter:
    """``CoordinatorRecordMessageFormatter`` of Kafka 4: key and value as JSON objects, one behind the other
    on a line that does not end.

    Only the type that a key begins with says what its value is, so a record of any other type, as those of
    groups of the consumer protocol, prints nothing.
    """

    def write(record: ConsumerRecord) -> bytes:
        if record.key is None:
            return b""
        record_type = read_prefix(record.key, "key")
        if record_type not in wanted:
            return b""
        key = message_node(wanted[record_type].from_bytes(record.key), 0)
        node: dict[str, Any] = {"key": {"type": record_type, "data": key}, "value": None}
        if record.value is not None:
            version = read_prefix(record.value, "value")
            data: Any = _UNKNOWN
            if value_class.min_version <= version <= value_class.max_version:
                data = message_node(value_class.from_bytes(record.value), version)
            node["value"] = {"version": version, "data": data}
        return json_text(node).encode()

    return write


def _old_offsets(record: ConsumerRecord) -> bytes:
    """``[group,topic,partition]::OffsetAndMetadata(...)`` for each commit; other records are passed over."""
    if record.key is None:
        return b""
    key_class = _OFFSETS.get(read_prefix(record.key, "key"))
    if key_class is None:
        return b""
    key: Any = key_class.from_bytes(record.key)
    text = "NULL"
    if record.value is not None:
        value = OffsetCommitValue.from_bytes(record.value)
        epoch = "Optional.empty" if value.leader_epoch < 0 else f"Optional[{value.leader_epoch}]"
        expires = "None" if value.expire_timestamp < 0 else f"Some({value.expire_timestamp})"
        text = (
            f"OffsetAndMetadata(offset={value.offset}, leaderEpoch={epoch}, metadata={value.metadata}, "
            f"commitTimestamp={value.commit_timestamp}, expireTimestamp={expires})"
        )
    return f"[{key.group},{key.topic},{key.partition}]::{text}\n".encode()
