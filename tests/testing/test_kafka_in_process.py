"""`Kafka`: brokers in the process of a test, their ends, their time, and what is to be seen inside."""

import pytest

from barnabas.client import Consumer, Producer
from barnabas.core.errors import BarnabasError, ConfigError
from barnabas.testing import Fault, Kafka
from waiting import eventually, until


def test_three_brokers_survive_the_death_of_a_leader():
    with Kafka(3) as kafka:
        topic = kafka.create_topic()
        leader = kafka.leader(topic)
        with Producer(kafka.bootstrap_servers, acks="all") as producer:
            producer.send(topic, b"before").result()
            kafka.kill(leader)
            assert leader not in kafka.brokers
            producer.send(topic, b"without").result()
            kafka.restart(leader)
            producer.send(topic, b"after").result()
        assert kafka.brokers == (0, 1, 2)
        assert [record.value for record in kafka.records(topic)] == [b"before", b"without", b"after"]
        kafka.move_leader(topic, 0, leader)
        eventually(
            lambda: kafka.leader(topic), leader
        )  # another broker may be asked, which hears a moment later


def test_a_fault_at_one_node_leaves_the_others_alone():
    with Kafka(3) as kafka:
        topics = {kafka.leader(topic): topic for topic in (kafka.create_topic() for _ in range(6))}
        one, other = list(topics)[:2]
        fault = kafka.plant(Fault("Produce", node=one, error="INVALID_RECORD", count=None))
        with Producer(kafka.bootstrap_servers) as producer:
            with pytest.raises(BarnabasError):
                producer.send(topics[one], b"").result()
            producer.send(topics[other], b"").result()
        assert fault.fired() == 1


def test_followers_are_hit_only_where_the_fault_says_so():
    with Kafka(2) as kafka:
        topic = kafka.create_topic()
        clients = kafka.plant(Fault("Fetch", topic=topic, count=None))
        everyone = kafka.plant(Fault("Fetch", topic=topic, brokers=True, count=None))
        with Producer(kafka.bootstrap_servers, acks="all") as producer:
            producer.send(topic, b"").result()
        everyone.wait(1)
        assert clients.fired() == 0


def test_data_in_a_folder_is_there_for_the_next_one(tmp_path):
    with Kafka(data=tmp_path) as kafka:
        topic = kafka.create_topic("kept")
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"kept").result()
    with Kafka(data=tmp_path) as kafka:
        assert [record.value for record in kafka.records("kept")] == [b"kept"]


def test_a_killed_broker_recovers_its_log(tmp_path):
    with Kafka(data=tmp_path) as kafka:
        topic = kafka.create_topic()
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"one").result()
            kafka.kill(0)
            assert not (tmp_path / "broker-0" / ".kafka_cleanshutdown").exists()
            kafka.restart(0)
            producer.send(topic, b"two").result()
        assert [record.value for record in kafka.records(topic)] == [b"one", b"two"]


def test_time_moves_on_and_records_expire():
    settings = {"log.retention.check.interval.ms": 600_000, "log.initial.task.delay.ms": 600_000}
    with Kafka(settings=settings) as kafka:
        topic = kafka.create_topic(configs={"retention.ms": 3_600_000})
        with Producer(kafka.bootstrap_servers) as producer:
            producer.send(topic, b"old").result()
            kafka.advance(3000)
            assert [record.value for record in kafka.records(topic)] == [b"old"]
            kafka.advance(3000)
            until(lambda: kafka.records(topic) == [])
            assert producer.send(topic, b"new").result().offset == 1


def test_a_member_that_says_nothing_is_removed_when_its_time_is_over():
    with Kafka() as kafka:
        topic = kafka.create_topic()
        with Consumer(kafka.bootstrap_servers, group_id="g", enable_auto_commit=False) as consumer:
            consumer.subscribe([topic])
            consumer.poll(timeout_ms=5000)
            kafka.wait_for_group("g", members=1)
            # From here on its heartbeats are lost.
            kafka.plant(Fault("Heartbeat", id="g", cut=True, count=None))
            kafka.advance(60)
            assert kafka.wait_for_group("g", state="Empty", members=0).members == []
            kafka.clear_faults()


def test_what_is_refused():
    with pytest.raises(ValueError, match="brokers=0"):
        Kafka(0)
    with pytest.raises(ConfigError, match=r"num\.partitions"), Kafka(settings={"num.partitions": "many"}):
        pass
    with pytest.raises(BarnabasError, match="does not run"):
        _ = Kafka().bootstrap_servers
    with Kafka() as kafka:
        with pytest.raises(ValueError, match="no broker 7"):
            kafka.kill(7)
        with pytest.raises(ValueError, match="state='Steady'"):
            kafka.wait_for_group("g", state="Steady")
        with pytest.raises(KeyError):
            kafka.znode("/no/such")
        kafka.kill(0)
        with pytest.raises(BarnabasError, match="broker 0 is down"):
            kafka.node(0)


def test_several_side_by_side_and_one_after_the_other():
    with Kafka() as one, Kafka() as other:
        one.create_topic("of-one")
        assert other.znodes("/brokers/topics") == []
        assert one.bootstrap_servers != other.bootstrap_servers
    again = Kafka()
    for _ in range(3):
        with again:
            assert again.znodes("/brokers/topics") == []


def test_a_misspelt_field_of_a_fault_is_said_with_what_was_meant():
    with Kafka() as kafka:
        with pytest.raises(ValueError, match="no field 'topik': did you mean topic"):
            kafka.plant(apis="Produce", topik="orders")
        with pytest.raises(ValueError, match="count=-1"):
            kafka.plant(apis=["Fetch", "Produce"], count=-1)
