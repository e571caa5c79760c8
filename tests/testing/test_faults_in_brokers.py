"""Faults in running brokers: what a fault names fails, and everything else is served for real."""

import threading
import time

import confluent_kafka
import confluent_kafka.admin
import pytest

from barnabas.admin import Admin
from barnabas.client import BarnabasError, Consumer, KafkaError, Producer, TopicPartition
from barnabas.core.errors import ErrorCode
from barnabas.testing import Fault, FaultTimeoutError, Kafka

A_WHILE_S = 20.0


@pytest.fixture(scope="module")
def broker():
    with Kafka() as kafka:
        yield kafka


@pytest.fixture(autouse=True)
def _no_faults_left(broker):
    yield
    broker.clear_faults()


def values(broker, topic):
    return [record.value for record in broker.records(topic)]


def test_one_partition_of_a_request_is_refused_and_the_other_written(broker):
    topic = broker.create_topic(partitions=2)
    fault = broker.plant(Fault("Produce", topic=topic, partition=1, error="NOT_LEADER_OR_FOLLOWER"))
    with Producer(broker.bootstrap_servers, linger_ms=200) as producer:
        both = [producer.send(topic, b"%d" % each, partition=each) for each in (0, 1)]
        assert [each.result().partition for each in both] == [0, 1]
    fault.wait()
    assert values(broker, topic) == [b"0", b"1"]


def test_the_other_partition_of_the_request_has_its_own_answer(broker):
    topic = broker.create_topic(partitions=2)
    broker.plant(Fault("Produce", topic=topic, partition=1, error="INVALID_RECORD"))
    with Producer(broker.bootstrap_servers, linger_ms=200, enable_idempotence=False) as producer:
        written, refused = (producer.send(topic, b"%d" % each, partition=each) for each in (0, 1))
        assert written.result().offset == 0
        with pytest.raises(BarnabasError):
            refused.result()
    assert values(broker, topic) == [b"0"]


def test_a_refusal_that_is_not_retried_reaches_the_caller_and_nothing_is_written(broker):
    topic = broker.create_topic()
    broker.plant(Fault("Produce", topic=topic, error="TOPIC_AUTHORIZATION_FAILED"))
    with Producer(broker.bootstrap_servers) as producer:
        with pytest.raises(KafkaError) as refused:
            producer.send(topic, b"lost").result()
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        producer.send(topic, b"kept").result()
    assert values(broker, topic) == [b"kept"]


def test_an_answer_that_is_lost_after_the_write_doubles_nothing_with_idempotence(broker):
    topic = broker.create_topic()
    fault = broker.plant(Fault("Produce", topic=topic, when="after", cut=True))
    with Producer(broker.bootstrap_servers, enable_idempotence=True) as producer:
        producer.send(topic, b"once").result()
    assert fault.fired() == 1
    assert values(broker, topic) == [b"once"]


def test_an_answer_that_is_lost_after_the_write_doubles_without_idempotence(broker):
    topic = broker.create_topic()
    broker.plant(Fault("Produce", topic=topic, when="after", error="NOT_ENOUGH_REPLICAS_AFTER_APPEND"))
    with Producer(broker.bootstrap_servers, enable_idempotence=False) as producer:
        producer.send(topic, b"twice").result()
    assert values(broker, topic) == [b"twice", b"twice"]


def test_a_fetch_session_finds_the_fault_and_loses_nothing(broker):
    topic = broker.create_topic(partitions=2)
    with (
        Producer(broker.bootstrap_servers) as producer,
        Consumer(broker.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(topic, each) for each in (0, 1)])
        for each in (0, 1):
            producer.send(topic, b"first", partition=each).result()
        read = []
        while len(read) < 2:
            read += consumer.poll(timeout_ms=500)
        # By now the session remembers both; no request names them again.
        fault = broker.plant(Fault("Fetch", topic=topic, partition=1, error="UNKNOWN_LEADER_EPOCH", count=2))
        for each in (0, 1):
            producer.send(topic, b"second", partition=each).result()
        deadline = time.monotonic() + A_WHILE_S
        while len(read) < 4 and time.monotonic() < deadline:
            read += consumer.poll(timeout_ms=500)
        fault.wait(2)
    assert sorted((each.partition, each.value) for each in read) == [
        (0, b"first"), (0, b"second"), (1, b"first"), (1, b"second"),
    ]  # fmt: skip


def test_librdkafka_meets_the_same_faults(broker):
    topic = broker.create_topic(partitions=2)
    refusals = broker.plant(
        Fault("Produce", topic=topic, partition=0, error="NOT_LEADER_OR_FOLLOWER", count=2)
    )
    metadata = broker.plant(Fault("Metadata", topic=topic, error="LEADER_NOT_AVAILABLE"))
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "retry.backoff.ms": 10}
    )
    for each in (0, 1):
        producer.produce(topic, b"%d" % each, partition=each)
    assert producer.flush(A_WHILE_S) == 0
    refusals.wait()
    metadata.wait()
    assert values(broker, topic) == [b"0", b"1"]


def test_metadata_of_all_topics_has_the_error_at_one(broker):
    topics = [broker.create_topic() for _ in range(2)]
    broker.plant(Fault("Metadata", topic=topics[0], error="INVALID_REPLICATION_FACTOR", count=None))
    listed = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = listed.list_topics(timeout=A_WHILE_S).topics
    assert found[topics[0]].error.code() == ErrorCode.INVALID_REPLICATION_FACTOR
    assert found[topics[1]].error is None
    assert len(found[topics[1]].partitions) == 1


def test_a_group_by_its_id_and_another_is_served(broker):
    topic = broker.create_topic()
    broker.plant(Fault("OffsetCommit", id="fenced", error="FENCED_INSTANCE_ID", count=None))
    tp = TopicPartition(topic, 0)
    with Admin(broker.bootstrap_servers) as admin:
        with pytest.raises(KafkaError) as refused:
            admin.groups.alter_offsets("fenced", {tp: 1})
        assert refused.value.code is ErrorCode.FENCED_INSTANCE_ID
        admin.groups.alter_offsets("free", {tp: 1})
    assert broker.offsets("free")[tp].offset == 1
    assert broker.offsets("fenced") == {}


def test_a_topic_of_a_group_in_a_list_of_groups(broker):
    topics = [broker.create_topic() for _ in range(2)]
    offsets = {TopicPartition(topic, 0): 5 for topic in topics}
    with Admin(broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("several", offsets)
        broker.plant(Fault("OffsetFetch", topic=topics[1], error="UNSTABLE_OFFSET_COMMIT"))
        answered = admin.groups.offsets("several")["several"]  # asked again, since the error passes
        assert {tp.topic: each.offset for tp, each in answered.items()} == dict.fromkeys(topics, 5)


def test_some_requests_are_let_through_first(broker):
    topic = broker.create_topic()
    fault = broker.plant(Fault("Produce", topic=topic, error="INVALID_RECORD", skip=2, count=1))
    outcomes = []
    with Producer(broker.bootstrap_servers) as producer:
        for each in range(4):
            try:
                producer.send(topic, b"%d" % each).result()
                outcomes.append("written")
            except KafkaError as error:
                outcomes.append(error.code.name)
    assert outcomes == ["written", "written", "INVALID_RECORD", "written"]
    assert fault.fired() == 1


def test_a_delay_holds_one_topic_back_and_no_other_client(broker):
    slow, quick = (broker.create_topic() for _ in range(2))
    fault = broker.plant(Fault("Produce", topic=slow, delay_ms=1500))
    with Producer(broker.bootstrap_servers) as one, Producer(broker.bootstrap_servers) as other:
        delayed = one.send(slow, b"late")
        fault.wait()
        other.send(quick, b"soon").result()
        assert not delayed.done()
        assert delayed.result().offset == 0


def test_without_anything_to_do_a_fault_counts(broker):
    topic = broker.create_topic()
    with broker.plant(Fault("Produce", topic=topic, count=None)) as fault:
        with Producer(broker.bootstrap_servers) as producer:
            for _ in range(3):
                producer.send(topic, b"").result()
        assert fault.fired() == 3
    assert len(broker.records(topic)) == 3


def test_a_fault_that_is_removed_hits_no_more(broker):
    topic = broker.create_topic()
    fault = broker.plant(Fault("Produce", topic=topic, error="INVALID_RECORD", count=None))
    with Producer(broker.bootstrap_servers) as producer:
        with pytest.raises(KafkaError):
            producer.send(topic, b"").result()
        fault.remove()
        fault.remove()
        assert producer.send(topic, b"").result().offset == 0


def test_to_wait_for_what_does_not_come_ends_with_the_reason(broker):
    fault = broker.plant(Fault("CreateTopics", error="POLICY_VIOLATION"))
    with pytest.raises(FaultTimeoutError, match=r"0 of 1 requests came within 0.01 s: CREATE_TOPICS"):
        fault.wait(timeout_s=0.01)


def test_a_wait_ends_with_the_request_that_it_waits_for(broker):
    topic = broker.create_topic()
    fault = broker.plant(Fault("Produce", topic=topic))
    ended = threading.Event()

    def wait():
        fault.wait()
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"").result()
    thread.join(A_WHILE_S)
    assert ended.is_set()


def test_several_requests_in_flight_and_one_of_them_hit(broker):
    """Requests that came together are one turn of the broker; what is hit leaves it without disorder."""
    topic = broker.create_topic()
    fault = broker.plant(
        Fault("Produce", topic=topic, when="after", error="NOT_LEADER_OR_FOLLOWER", skip=3, count=5)
    )
    with Producer(broker.bootstrap_servers, batch_size=1, enable_idempotence=True) as producer:
        sent = [producer.send(topic, b"%d" % each) for each in range(50)]
        assert [each.result().offset for each in sent] == list(range(50))
    fault.wait(5)
    assert values(broker, topic) == [b"%d" % each for each in range(50)]


def test_creation_of_one_topic_among_several_is_refused(broker):
    from barnabas.admin import NewTopic

    broker.plant(Fault("CreateTopics", topic="not-me", error="POLICY_VIOLATION"))
    with Admin(broker.bootstrap_servers) as admin:
        results = admin.topics.try_create([NewTopic("me", 1, 1), NewTopic("not-me", 1, 1)])
    assert results["not-me"].code is ErrorCode.POLICY_VIOLATION
    assert not isinstance(results["me"], Exception)
    assert "me" in broker.znodes("/brokers/topics")
    assert "not-me" not in broker.znodes("/brokers/topics")
