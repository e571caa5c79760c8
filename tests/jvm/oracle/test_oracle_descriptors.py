"""Every schema of ours against the descriptors in Kafka's jars: field by field, version by version."""

import pytest
from descriptor_tools import RENAMED_IN_4, class_of, flexible_from, our_fields, their_fields
from kafka_descriptors import FIELDS_OF_4_2, RELEASES
from kafka_values import RENAMED
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
}

BROUGHT_BY_4_4 = {
    (f"{name}{kind}", version)
    for name, version in (("ApiVersions", 5), ("DeleteGroups", 3), ("TxnOffsetCommit", 6))
    for kind in ("Request", "Response")
}
"""Versions that are newer than the newest release that is asked here."""


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
    newer = {(cls, version) for cls, version in ours if (cls.__name__, version) in BROUGHT_BY_4_4}

    assert described == ours - newer
    assert len(newer) == len(BROUGHT_BY_4_4)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_fields_are_those_of_the_descriptors(pairs_of, counts, cls):
    newest = max(pair.theirs.release for pair in pairs_of[cls])
    for pair in pairs_of[cls]:
        assert cls.flexible_from == flexible_from(pair.theirs.json), str(pair)
        theirs = their_fields(pair.theirs.json, pair.their_version)
        if pair.theirs.name in RENAMED_IN_4:
            theirs = renamed(theirs)
        ours = our_fields(cls, pair.version)
        if pair.theirs.release != newest:
            ours = without(ours, FIELDS_OF_4_2.get(cls.__name__, set()))
            # Which fields a sender may drop changed in 4.x; what lies on the wire did not change by that.
            ours, theirs = without_ignorable(ours), without_ignorable(theirs)
        assert ours == theirs, str(pair)
        counts["fields"] += count(theirs)


def renamed(fields):
    """Fields under the names that Kafka 4 gave them."""
    return [(RENAMED.get(one[0], one[0]), *one[1:6], one[6] and renamed(one[6])) for one in fields]


def without(fields, names):
    """Fields that are not named so, in whatever depth."""
    return [(*one[:6], one[6] and without(one[6], names)) for one in fields if one[0] not in names]


def without_ignorable(fields):
    return [(*one[:5], one[6] and without_ignorable(one[6])) for one in fields]


def count(fields):
    return sum(1 + count(field[-1] or []) for field in fields)
