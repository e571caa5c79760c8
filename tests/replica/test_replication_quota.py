"""Which partitions the settings of topics throttle."""

import pytest

from barnabas.core.broker_config import broker_config
from barnabas.core.ids import TopicPartition
from barnabas.replica.quota import ReplicationQuotas
from standing_clock import Clock

ME = 1


@pytest.fixture
def quotas():
    return ReplicationQuotas(ME, broker_config({}), Clock())


def throttled(quotas, value):
    """Which of three partitions are throttled on the leader's side."""
    quotas.topic_configured("t", {"leader.replication.throttled.replicas": value})
    return [number for number in range(3) if quotas.leader.is_throttled(TopicPartition("t", number))]


@pytest.mark.parametrize(
    ("value", "partitions"),
    [
        ("0:1,1:2,2:1", [0, 2]),
        (" 0:1 , 2:1,", [0, 2]),
        ("*", [0, 1, 2]),
        # What the check of the key lets through.
        ("*,", [0, 1, 2]),
        (",", []),
        ("", []),
    ],
)
def test_a_value_names_partitions_of_this_broker(quotas, value, partitions):
    assert throttled(quotas, value) == partitions
