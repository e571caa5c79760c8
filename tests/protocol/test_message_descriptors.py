"""Our schemas against Kafka's own descriptors, field by field and version by version.

The descriptors inside the kafka-python distribution are of the time of Kafka 4.2 and 4.3: they lack the
messages between brokers and the versions that KIP-896 removed. Those inside Kafka's jars have everything:
`tests/jvm/oracle` asks them.
"""

from importlib.resources import files

import pytest
from descriptor_tools import (
    class_of,
    flexible_from,
    our_fields,
    parse,
    their_fields,
    versions_in,
    without_ignorable,
)
from message_tools import versions_of

DESCRIPTORS = [
    parse(entry.read_text())
    for entry in files("kafka.protocol.schemas").joinpath("resources").iterdir()
    if entry.name.endswith(".json")
]
MESSAGES = [descriptor for descriptor in DESCRIPTORS if class_of(descriptor)]

WITHOUT_CLASS = {
    "RequestHeader": "written by hand in framing",
    "ResponseHeader": "written by hand in framing",
}
REMOVED_IN_4 = {
    "AlterReplicaLogDirs": 1,
    "CreateAcls": 1,
    "CreateTopics": 2,
    "DeleteAcls": 1,
    "DeleteTopics": 1,
    "DescribeAcls": 1,
    "DescribeConfigs": 1,
    "DescribeLogDirs": 1,
    "Fetch": 4,
    "ListOffsets": 1,
    "OffsetCommit": 2,
    "OffsetFetch": 1,
    "OffsetForLeaderEpoch": 2,
    "Produce": 3,
    "WriteTxnMarkers": 1,
}
"""The first version that KIP-896 left of an API whose first ones it removed; 3.9 has them from 0 on."""
LAST_OF_THEIRS = {"DescribeLogDirs": 5, "ApiVersions": 4, "DeleteGroups": 2, "TxnOffsetCommit": 5}
"""The newest version there: one of Kafka 4.3 that ours do not know, or one before what Kafka 4.4 brought."""


def named(descriptor):
    return descriptor["name"]


def api_name(descriptor):
    return descriptor["name"].removesuffix("Request").removesuffix("Response")


@pytest.mark.parametrize("descriptor", MESSAGES, ids=named)
def test_versions_differ_only_where_kafka_4_differs(descriptor):
    cls, name = class_of(descriptor), api_name(descriptor)
    theirs = versions_in(descriptor)

    assert cls.__name__ == descriptor["name"]
    assert cls.flexible_from == flexible_from(descriptor)
    assert cls.min_version == 0
    assert theirs.start == REMOVED_IN_4.get(name, 0)
    assert theirs.stop - 1 == LAST_OF_THEIRS.get(name, cls.max_version)


@pytest.mark.parametrize("descriptor", MESSAGES, ids=named)
def test_fields_are_those_of_the_descriptor(descriptor):
    cls = class_of(descriptor)
    for version in set(versions_of(cls)) & set(versions_in(descriptor)):
        ours, theirs = our_fields(cls, version), their_fields(descriptor, version)
        if api_name(descriptor) == "TxnOffsetCommit":
            # Since Kafka 4.4 a sender may drop a name, which does not change what lies on the wire.
            ours, theirs = without_ignorable(ours), without_ignorable(theirs)
        assert ours == theirs, f"version {version}"


def test_every_descriptor_has_a_class_or_a_reason():
    assert {named(descriptor) for descriptor in DESCRIPTORS if not class_of(descriptor)} == set(WITHOUT_CLASS)
