"""What coordinators keep and consumers tell each other: bytes that name their type or version themselves."""

import subprocess
import sys

import pytest
from message_tools import TOPICS, filled, versions_of

from barnabas.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from barnabas.protocol.coordinator.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.coordinator.offset_commit import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.coordinator.record import UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.envelope import DefaultPrincipalData

TYPES = [(topic, record_type) for topic in TOPICS for record_type in topic]


def test_a_key_starts_with_its_type_and_a_value_with_its_version():
    key = OffsetCommitKey(group="g", topic="flights", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=5, metadata="m", commit_timestamp=7)

    assert key.to_bytes() == b"\x00\x01\x00\x01g\x00\x07flights\x00\x00\x00\x03"
    assert value.to_bytes(3) == (
        b"\x00\x03" + (42).to_bytes(8) + (5).to_bytes(4) + b"\x00\x01m" + (7).to_bytes(8)
    )
    assert CONSUMER_OFFSETS.decode(key.to_bytes(), value.to_bytes(3)) == (key, value)


@pytest.mark.parametrize(("topic", "record_type"), TYPES, ids=str)
def test_every_type_comes_back_from_its_topic(topic, record_type):
    key_class, value_class = topic.classes(record_type)
    key = filled(key_class, 0)

    assert topic.decode(key.to_bytes(), None) == (key, None)
    for version in versions_of(value_class):
        value = filled(value_class, version)
        assert topic.decode(memoryview(key.to_bytes()), value.to_bytes(version)) == (key, value)


def test_the_newest_version_is_written_unless_another_is_asked_for():
    value = TransactionLogValue(producer_id=1, transaction_partitions=None)

    assert value.to_bytes() == value.to_bytes(1)
    assert value.to_bytes(0)[:2] == b"\x00\x00"


def test_what_only_a_later_version_can_say_is_refused_in_an_earlier_one():
    with pytest.raises(ProtocolError, match="previous_producer_id"):
        TransactionLogValue(previous_producer_id=7).to_bytes(0)


def test_a_type_of_a_later_kafka_is_told_apart_from_damage():
    with pytest.raises(
        UnknownRecordTypeError, match="__transaction_state has no records of type 9"
    ) as caught:
        TRANSACTION_STATE.decode(b"\x00\x09whatever", b"")
    assert caught.value.record_type == 9
    with pytest.raises(ProtocolError, match="__share_group_state key, byte 0: 1 bytes, too few"):
        SHARE_GROUP_STATE.decode(b"\x00", None)


def test_a_value_of_an_unknown_version_is_refused():
    key = TransactionLogKey(transactional_id="t").to_bytes()

    with pytest.raises(ProtocolError, match="TransactionLogValue v2: there is no such version"):
        TRANSACTION_STATE.decode(key, b"\x00\x02")


def test_a_key_of_another_type_is_refused():
    key = LegacyOffsetCommitKey(group="g", topic="t").to_bytes()

    with pytest.raises(ProtocolError, match="a record of type 0, not 1"):
        OffsetCommitKey.from_bytes(key)
    with pytest.raises(ProtocolError, match="a record of type 0, not 2"):
        GroupMetadataKey.from_bytes(key)


def test_a_topic_shows_its_types():
    assert repr(SHARE_GROUP_STATE) == "<CoordinatorTopic __share_group_state types=[0, 1]>"


def test_null_in_a_tagged_struct_is_told_from_a_struct_at_its_defaults():
    """Kafka writes null as the byte 0 there, and nothing at all for a struct at its defaults."""
    null = ConsumerGroupMemberMetadataValue(classic_member_metadata=None).to_bytes()
    default = ConsumerGroupMemberMetadataValue(classic_member_metadata=ClassicMemberMetadata()).to_bytes()

    assert null.endswith(b"\x01\x00\x01\x00")
    assert null[:-4] == default[:-1]
    assert ConsumerGroupMemberMetadataValue.from_bytes(null).classic_member_metadata is None
    assert ConsumerGroupMemberMetadataValue.from_bytes(default).classic_member_metadata is not None


def test_a_subscription_of_each_version_comes_back():
    owned = [TopicPartition(topic="flights", partitions=[0, 2])]
    subscription = ConsumerProtocolSubscription(
        topics=["flights"], user_data=b"u", owned_partitions=owned, generation_id=4, rack_id="r"
    )

    assert ConsumerProtocolSubscription.from_bytes(subscription.to_bytes()) == subscription
    assert subscription.to_bytes(0) == b"\x00\x00" + b"\x00\x00\x00\x01\x00\x07flights" + b"\x00\x00\x00\x01u"
    assert ConsumerProtocolSubscription.from_bytes(subscription.to_bytes(1)).generation_id == -1


def test_a_consumer_of_a_later_version_is_read_as_far_as_it_is_known():
    assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="t", partitions=[1])])
    later = b"\x00\x63" + assignment.to_bytes()[2:] + b"and more"

    assert ConsumerProtocolAssignment.from_bytes(later) == assignment


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x01\x00\x00\x00\x05"])
def test_what_is_no_subscription_is_refused(data):
    with pytest.raises(ProtocolError, match="ConsumerProtocolSubscription"):
        ConsumerProtocolSubscription.from_bytes(data)


def test_a_principal_comes_back():
    principal = DefaultPrincipalData(type="User", name="alice", token_authenticated=True)

    assert principal.to_bytes() == b"\x00\x00\x05User\x06alice\x01\x00"
    assert DefaultPrincipalData.from_bytes(principal.to_bytes()) == principal


def test_schemas_are_loaded_when_they_are_asked_for():
    program = (
        "import sys; import barnabas.protocol.framing; from barnabas.protocol.coordinator.topics import *;"
        "TRANSACTION_STATE.classes(0);"
        "print(*(name for name in sys.modules if name.startswith(('barnabas.protocol.messages.',"
        " 'barnabas.protocol.coordinator.'))))"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout

    names = {name.rpartition(".")[2] for name in loaded.split()}
    assert names == {"record", "topics", "transaction_log"}
