"""Which types of records each of Kafka's internal topics has, and how one of them is read."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from barnabas.core.chunks import Buffer
from barnabas.protocol.coordinator.record import CoordinatorKey, CoordinatorValue, UnknownRecordTypeError
from barnabas.protocol.versioned import read_prefix


class CoordinatorTopic:
    """The record types of one topic. A module is loaded when the first of its records is read."""

    def __init__(self, name: str, types: Mapping[int, str]) -> None:
        self.name = name
        self._places = types
        self._classes: dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def classes(self, record_type: int) -> tuple[type[CoordinatorKey], type[CoordinatorValue]]:
        """The classes of key and value of a type. Raises UnknownRecordTypeError."""
        if record_type not in self._classes:
            if record_type not in self._places:
                raise UnknownRecordTypeError(self.name, record_type)
            place, _, name = self._places[record_type].partition(".")
            module = import_module(f"barnabas.protocol.coordinator.{place}")
            self._classes[record_type] = getattr(module, name + "Key"), getattr(module, name + "Value")
        return self._classes[record_type]

    def decode(self, key: Buffer, value: Buffer | None) -> tuple[CoordinatorKey, CoordinatorValue | None]:
        """Key and value of a record; no value when there is none.

        Raises UnknownRecordTypeError, and ProtocolError for bytes that are not what their type says.
        """
        key_class, value_class = self.classes(read_prefix(key, f"{self.name} key"))
        decoded = key_class.from_bytes(key)
        return decoded, None if value is None else value_class.from_bytes(value)

    def __repr__(self) -> str:
        return f"<CoordinatorTopic {self.name} types={list(self)}>"


CONSUMER_OFFSETS: Final = CoordinatorTopic(
    "__consumer_offsets",
    {
        0: "offset_commit.LegacyOffsetCommit",
        1: "offset_commit.OffsetCommit",
        2: "group_metadata.GroupMetadata",
        3: "consumer_group.ConsumerGroupMetadata",
        4: "consumer_group.ConsumerGroupPartitionMetadata",
        5: "consumer_group.ConsumerGroupMemberMetadata",
        6: "consumer_group.ConsumerGroupTargetAssignmentMetadata",
        7: "consumer_group.ConsumerGroupTargetAssignmentMember",
        8: "consumer_group.ConsumerGroupCurrentMemberAssignment",
        9: "share_group.ShareGroupPartitionMetadata",
        10: "share_group.ShareGroupMemberMetadata",
        11: "share_group.ShareGroupMetadata",
        12: "share_group.ShareGroupTargetAssignmentMetadata",
        13: "share_group.ShareGroupTargetAssignmentMember",
        14: "share_group.ShareGroupCurrentMemberAssignment",
        15: "share_group.ShareGroupStatePartitionMetadata",
        16: "consumer_group.ConsumerGroupRegularExpression",
        17: "streams_group.StreamsGroupMetadata",
        19: "streams_group.StreamsGroupMemberMetadata",
        20: "streams_group.StreamsGroupTargetAssignmentMetadata",
        21: "streams_group.StreamsGroupTargetAssignmentMember",
        22: "streams_group.StreamsGroupCurrentMemberAssignment",
        23: "streams_group.StreamsGroupTopology",
    },
)
"""Groups and their offsets. Type 18 never left Kafka's development."""
TRANSACTION_STATE: Final = CoordinatorTopic("__transaction_state", {0: "transaction_log.TransactionLog"})
"""Transactional ids."""
SHARE_GROUP_STATE: Final = CoordinatorTopic(
    "__share_group_state", {0: "share_state.ShareSnapshot", 1: "share_state.ShareUpdate"}
)
"""What became of the records that share groups read."""
