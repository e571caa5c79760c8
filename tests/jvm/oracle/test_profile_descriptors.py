"""What clients find in the profile 4.4 is what the clients of Kafka 4.4 describe: versions and fields."""

import kafka_harness
import pytest
from descriptor_tools import flexible_from, our_fields, their_fields, versions_in
from kafka_descriptors import descriptors_of

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.protocol.api import ApiKey
from barnabas.protocol.registry import REQUESTS, RESPONSES

pytestmark = pytest.mark.jvm

SERVED = {key: row for key, row in api_table(PROFILE_4_4).items() if key not in PROFILE_4_4.between_brokers}


@pytest.fixture(scope="module")
def described(judge):
    release = kafka_harness.NEWEST_CLIENTS
    return descriptors_of(judge(f"Kafka's clients {release}", kafka_harness.clients_jar), release)


RENAMED = {("TxnOffsetCommitRequest", "generationidormemberepoch"): "generationid"}
"""Names that only Kafka 4.4 has; the wire has none."""


def with_our_names(cls, fields):
    return [(RENAMED.get((cls.__name__, one[0]), one[0]), *one[1:]) for one in fields]


def without_ignorable(fields):
    """Which fields a sender may drop says nothing about the wire."""
    return [(*one[:5], one[6] and without_ignorable(one[6])) for one in fields]


@pytest.mark.parametrize("key", SERVED, ids=lambda key: ApiKey(key).name)
def test_every_version_that_is_shown_has_the_fields_of_kafka_4_4(described, key):
    row = SERVED[key]
    for cls in (REQUESTS[key], RESPONSES[key]):
        theirs = described[cls.__name__].json
        assert cls.flexible_from == flexible_from(theirs)
        versions = set(range(row.min_version, row.max_version + 1)) & set(versions_in(theirs))
        assert row.max_version in versions
        for version in versions:
            ours = without_ignorable(our_fields(cls, version))
            wanted = without_ignorable(with_our_names(cls, their_fields(theirs, version)))
            assert ours == wanted, f"{cls.__name__} v{version}"
