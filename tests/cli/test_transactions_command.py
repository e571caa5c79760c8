"""``barnabas transactions`` and `admin.transactions` on a running broker."""

import pytest

from barnabas.admin import BlockingAdmin, NewTopic
from barnabas.client import Producer, TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError

HEADER = (
    "ProducerId\tProducerEpoch\tLatestCoordinatorEpoch\tLastSequence\tLastTimestamp\t"
    "CurrentTransactionStartOffset\t"
)


@pytest.fixture
def topic(broker, topic_name):
    """A topic with three records of one producer in partition 0, and nothing in partition 1."""
    name = topic_name("remembered")
    with BlockingAdmin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=2))
    with Producer(broker.bootstrap) as producer:
        for number in range(3):
            producer.send(name, "v", partition=0, timestamp_ms=1_600_000_000_000 + number)
    return name


@pytest.fixture
def describe(barnabas, broker):
    server = ("--bootstrap-server", broker.bootstrap)
    return lambda *flags: barnabas("transactions", *server, "describe-producers", *flags)


def test_the_table_of_producers(describe, broker, topic):
    done = describe("--topic", topic, "--partition", "0")

    assert (done.exit_code, done.stderr) == (0, "")
    header, row = done.stdout.splitlines()
    with BlockingAdmin(broker.bootstrap) as admin:
        tp = TopicPartition(topic, 0)
        [state] = admin.transactions.describe_producers([tp])[tp]
        [broker_id] = [each.node_id for each in admin.cluster.describe().brokers]
    assert header == HEADER
    assert [value.strip() for value in row.split("\t")] == [
        f"{state.producer_id}", "0", "-1", "2", "1600000000002", "None", ""
    ]  # fmt: skip
    assert describe("--topic", topic, "--partition", "0", "--broker-id", f"{broker_id}").stdout == done.stdout


def test_a_partition_without_producers(describe, topic):
    assert describe("--topic", topic, "--partition", "1").stdout == f"{HEADER}\n"


def test_a_topic_that_cannot_be(describe):
    done = describe("--topic", "a b", "--partition", "3", "--broker-id", "0")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "Failed to describe producers for partition a b-3 on broker 0: Failed to fetch "
    )
    assert done.stderr.endswith("'.', '_' and '-'. Enable debug logging for additional detail.\n")


def test_the_admin_client_names_each_error(broker, topic):
    known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 9)
    with BlockingAdmin(broker.bootstrap) as admin:
        found = admin.transactions.try_describe_producers([known, unknown], timeout_ms=1000)

    assert len(found[known]) == 1
    assert isinstance(found[unknown], KafkaError)
    assert found[unknown].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
