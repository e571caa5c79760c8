"""Records of the cluster's own topics as objects of JSON (``DumpLogSegments.OffsetsMessageParser``)."""

from typing import Any, Final

from barnabas.core.errors import BarnabasError
from barnabas.operations.message_json import message_node
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.protocol.versioned import Versioned, read_prefix

_CONSUMER_PROTOCOL: Final = "consumer"
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""By the number in the record."""


class UnreadableRecordError(BarnabasError):
    """A record's bytes are not what their type says; the text is Kafka's."""


def offsets_key_node(key: bytes) -> dict[str, Any]:
    """A key of ``__consumer_offsets``. Raises UnknownRecordTypeError, UnreadableRecordError."""
    record_type = _record_type(key)
    key_class, _ = CONSUMER_OFFSETS.classes(record_type)
    message = _read(key_class, key, record_type, "key")
    return {"type": str(record_type), "data": message_node(message, 0)}


def offsets_value_node(key: bytes, value: bytes) -> dict[str, Any]:
    """The value of this key. Raises UnknownRecordTypeError, UnreadableRecordError."""
    record_type = _record_type(key)
    # Offsets of the first type of key have been written with values of every version.
    _, value_class = CONSUMER_OFFSETS.classes(max(record_type, 1))
    if len(value) < 2:
        raise UnreadableRecordError("Could not read version from value's buffer.")
    version = read_prefix(value, "value")
    message = _read(value_class, value, version, "value")
    node = message_node(message, version)
    if node.get("protocolType") == _CONSUMER_PROTOCOL:
        for shown, member in zip(node["members"], getattr(message, "members"), strict=True):  # noqa: B009
            _open(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _open(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return {"version": str(version), "data": node}


def transaction_key_node(key: bytes) -> dict[str, Any]:
    """A key of ``__transaction_state``. Raises ProtocolError."""
    return message_node(TransactionLogKey.from_bytes(key), 0)


def transaction_value_node(value: bytes) -> dict[str, Any]:
    """Its value, with the name of its state. Raises ProtocolError."""
    message = TransactionLogValue.from_bytes(value)
    node = message_node(message, read_prefix(value, "TransactionLogValue"))
    status = message.transaction_status
    if 0 <= status < len(TRANSACTION_STATES):
        node["state"] = TRANSACTION_STATES[status]
    return node


def _record_type(key: bytes) -> int:
    if len(key) < 2:
        raise UnreadableRecordError("Could not read version from key's buffer.")
    return read_prefix(key, "key")


def _read(
    message: type[CoordinatorKey] | type[CoordinatorValue], data: bytes, version: int, what: str
) -> CoordinatorKey | CoordinatorValue:
    known = what == "key" or message.min_version <= version <= message.max_version
    try:
        if not known:
            raise UnreadableRecordError(f"Can't read version {version} of {message.__name__}")
        return message.from_bytes(data)
    except BarnabasError as error:
        raise UnreadableRecordError(
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
