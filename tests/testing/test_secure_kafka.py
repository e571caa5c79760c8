"""A Kafka for tests whose clients log in and have rights."""

import pytest
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer

from barnabas.client import Producer
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.testing import Kafka

USERS = {"alice": 'a "quoted" \\ secret', "bob": "b"}


def may_write(user, topic):
    pattern = ResourcePattern(Resource.TOPIC, topic, PatternType.LITERAL)
    return AclBinding(pattern, AccessControlEntry(f"User:{user}", "*", Operation.WRITE, Permission.ALLOW))


def test_users_log_in_and_may_do_what_the_test_allows():
    with Kafka(secure=USERS) as kafka:
        topic = kafka.create_topic()
        with Producer(kafka.client("alice")) as producer, pytest.raises(KafkaError) as denied:
            producer.send(topic, b"too early").result(20)
        assert denied.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        kafka.admin.acls.create([may_write("alice", topic)])
        with Producer(kafka.client("alice")) as producer:
            producer.send(topic, b"one")
            producer.flush()
        assert [record.value for record in kafka.records(topic)] == [b"one"]
        with Producer(kafka.client("bob")) as producer, pytest.raises(KafkaError) as denied:
            producer.send(topic, b"two").result(20)
        assert denied.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        # A client of others, by its own words for the same.
        heard = []
        other = ConfluentProducer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "bob",
                "sasl.password": USERS["bob"],
            }
        )
        other.produce(topic, b"three", on_delivery=lambda error, _: heard.append(error.code()))
        other.flush(20)
        assert heard == [ConfluentError.TOPIC_AUTHORIZATION_FAILED]
        assert "secret" not in repr(kafka)


def test_who_has_no_password_is_refused_and_a_restart_changes_nothing():
    with Kafka(2, secure=USERS) as kafka:
        topic = kafka.create_topic(replication_factor=2)
        kafka.admin.acls.create([may_write("alice", topic)])
        kafka.restart(0)
        wrong = kafka.client("alice")
        wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace("quoted", "other")
        with pytest.raises(SaslAuthenticationError), Producer(wrong) as producer:
            producer.send(topic, b"x").result(20)
        with Producer(kafka.client("alice"), acks="all") as producer:
            producer.send(topic, b"one").result(20)
        assert len(kafka.admin.acls.describe(AclFilter(principal="User:alice"))) == 1
        assert [record.value for record in kafka.records(topic)] == [b"one"]


@pytest.mark.parametrize("name", ["", "a b", "ANONYMOUS", "x" * 256, 'a"'])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="is no name of a user"):
        Kafka(secure={name: "x"})
    with pytest.raises(KeyError), Kafka() as kafka:
        kafka.client("nobody")
