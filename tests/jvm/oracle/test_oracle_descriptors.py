"""Every schema of ours against the descriptors in Kafka's jars: field by field, version by version."""

import pytest
from descriptor_tools import (
    RENAMED_IN_4,
    class_of,
    flexible_from,
    our_fields,
    their_fields,
    without_ignorable,
)
from kafka_descriptors import FIELDS_OF_4, RELEASES
from kafka_values import RENAMED, RENAMED_IN_TXN
from message_tools import all_messages, versions_of

pytestmark = pytest.mark.jvm

WITHOUT_CLASS = {
    "RequestHeader": "written by hand in framing; compared byte by byte",
    "ResponseHeader": "likewise",
    "EndTxnMarker": "written by hand in records.control; compared byte by byte",
    "KRaftVersionRecord": "in KRaft's metadata log only",
    "LeaderChangeMessage": "likewise",
    "SnapshotFooterRecord": "likewise",
    "SnapshotHeaderRecord": "likewise",
    "VotersRecord": "likewise",
    "AbortedTxn": "written by hand in log.transaction_index; compared byte by byte",
    "ControlRecordTypeSchema": "written by hand in records.control; compared byte by byte",
    "UnregisterControllerRequest": "there is no quorum of KRaft",
    "UnregisterControllerResponse": "likewise",
    "StreamsGroupTopologyDescriptionUpdateRequest": "there are no groups of Streams yet",
    "StreamsGroupTopologyDescriptionUpdateResponse": "likewise",
}

RENAMED_FIELDS = {**dict.fromkeys(RENAMED_IN_4, RENAMED), "TxnOffsetCommitRequest": RENAMED_IN_TXN}


@pytest.mark.parametrize("release", RELEASES)
def test_every_message_of_a_broker_has_a_class(releases, release):
    found = releases[release]
    controllers = {
        one.json["apiKey"]
        for one in found.values()
        if one.json["type"] == "request" and one.is_spoken_by_a_controller_only
    }
    without = {one.name for one in found.values() if not class_of(one.json)}

    reasons = {name for name in without if found[name].json.get("apiKey") in controllers}
    assert without - reasons == set(WITHOUT_CLASS) & set(found)
    assert len(found) > 150


def test_every_version_of_ours_is_described_and_every_described_one_is_ours(pairs_of):
    described = {(pair.cls, pair.version) for pairs in pairs_of.values() for pair in pairs}
    ours = {(cls, version) for cls in all_messages() for version in versions_of(cls)}

    assert described == ours


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_fields_are_those_of_the_descriptors(pairs_of, counts, cls):
    newest = max(pair.theirs.release for pair in pairs_of[cls])
    for pair in pairs_of[cls]:
        assert cls.flexible_from == flexible_from(pair.theirs.json), str(pair)
        theirs = their_fields(pair.theirs.json, pair.their_version)
        theirs = renamed(theirs, RENAMED_FIELDS.get(pair.theirs.name, {}))
        ours = our_fields(cls, pair.version)
        if pair.theirs.release != newest:
            ours = without(ours, FIELDS_OF_4.get(cls.__name__, set()))
            # Which fields a sender may drop changed in 4.x; what lies on the wire did not change by that.
            ours, theirs = without_ignorable(ours), without_ignorable(theirs)
        assert ours == theirs, str(pair)
        counts["fields"] += count(theirs)


def renamed(fields, names):
    """Fields under the names that ours have."""
    return [(names.get(one[0], one[0]), *one[1:6], one[6] and renamed(one[6], names)) for one in fields]


def without(fields, names):
    """Fields that are not named so, in whatever depth."""
    return [(*one[:6], one[6] and without(one[6], names)) for one in fields if one[0] not in names]


def count(fields):
    return sum(1 + count(field[-1] or []) for field in fields)
