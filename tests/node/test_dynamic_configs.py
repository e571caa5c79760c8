"""Settings that change while brokers run:
they take effect, on every broker that they are for, and after a restart.
"""

import socket
import time

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.core.config import Source
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from live_settings import shown
from waiting import until

ALL = ConfigResource.all_brokers()


def test_a_setting_for_all_brokers_is_obeyed_without_a_restart_and_after_one(join_cluster):
    first, second = join_cluster(1), join_cluster(2)
    for server in (first, second):
        server.wait_until_ready()
    topic = ConfigResource.topic("t")
    with Admin(first.bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [2]}))
        admin.configs.alter({ALL: {"log.retention.ms": "123000"}})
        for broker_id in (1, 2):
            resource = ConfigResource.broker(broker_id)
            expected = ("123000", Source.DYNAMIC_DEFAULT_BROKER)
            until(
                lambda resource=resource, expected=expected: (
                    shown(admin, resource, "log.retention.ms") == expected
                )
            )
        assert shown(admin, topic, "retention.ms") == ("123000", Source.DYNAMIC_DEFAULT_BROKER)
        admin.configs.alter({ConfigResource.broker(2): {"message.max.bytes": "2000"}})
        with pytest.raises(KafkaError, match="Cannot update these configs dynamically"):
            admin.configs.alter({ALL: {"log.dir": "/x"}})
    assert second.stop() == 0
    again = join_cluster(2)
    again.wait_until_ready()
    with Admin(again.bootstrap) as admin:
        own = ConfigResource.broker(2)
        assert shown(admin, own, "log.retention.ms") == ("123000", Source.DYNAMIC_DEFAULT_BROKER)
        assert shown(admin, own, "message.max.bytes") == ("2000", Source.DYNAMIC_BROKER)
        admin.configs.alter({ALL: {"log.retention.ms": None}})
        until(lambda: shown(admin, own, "log.retention.ms") == (None, Source.DEFAULT))
    for server in (first, again):
        assert server.stop() == 0


@pytest.mark.parametrize("resource", [ConfigResource.topic("t"), ALL])
def test_allowing_unclean_leaders_brings_offline_partitions_back(join_cluster, resource):
    quick = ("--set", "zookeeper.session.timeout.ms=2000")
    first, second = join_cluster(1, *quick), join_cluster(2, *quick)
    for server in (first, second):
        server.wait_until_ready()
    with Admin(second.bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [2, 1]}))
        first.kill()
        until(lambda: isr_and_leader(admin) == ([2], 2))
    second.kill()
    first = join_cluster(1, *quick)
    first.wait_until_ready()
    with Admin(first.bootstrap) as admin:
        until(lambda: isr_and_leader(admin) == ([2], -1))
        admin.configs.alter({resource: {"unclean.leader.election.enable": "true"}})
        until(lambda: isr_and_leader(admin) == ([1], 1))
    assert first.stop() == 0


def isr_and_leader(admin):
    """None while the broker that is asked does not know:
    on a machine that is busy, a session may end meanwhile.
    """
    found = admin.topics.try_describe(["t"])["t"]
    if isinstance(found, KafkaError):
        return None
    partition = found.partitions[0]
    return list(partition.isr), partition.leader


def test_producers_are_forgotten_as_soon_as_they_may_be(join_cluster):
    often = ("--set", "producer.id.expiration.check.interval.ms=20", "--set", "log.initial.task.delay.ms=0")
    server = join_cluster(1, *often)
    server.wait_until_ready()
    with (
        Admin(server.bootstrap) as admin,
        socket.create_connection(("127.0.0.1", server.port)) as sock,
    ):
        admin.topics.create(NewTopic("t", partitions=1))
        assert produced(sock, sequence=0) == ErrorCode.NONE
        assert produced(sock, sequence=5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        admin.configs.alter({ALL: {"producer.id.expiration.ms": "1"}})
        until(lambda: produced(sock, sequence=9) == ErrorCode.NONE)
    assert server.stop() == 0


def produced(sock, *, sequence):
    """The error code of one record of an idempotent producer."""
    record = Record(0, int(time.time() * 1000), None, b"v")  # a producer is as old as its last record
    records = bytes(build_batch([record], producer_id=7, producer_epoch=0, base_sequence=sequence))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
    sock.sendall(b"".join(map(bytes, encode_request(RequestHeader(ApiKey.PRODUCE, 9, 1, "t"), request))))
    stream = sock.makefile("rb")
    answer = stream.read(int.from_bytes(stream.read(4), "big"))
    _, response = decode_response(ApiKey.PRODUCE, 9, answer)
    return response.responses[0].partition_responses[0].error_code


def test_what_would_mislead_is_refused_and_what_is_odd_is_kept_out_of_sight(join_cluster):
    server = join_cluster(1)
    server.wait_until_ready()
    own = ConfigResource.broker(1)
    with Admin(server.bootstrap) as admin:
        for settings, words in (
            ({"listener.name.new.ssl.engine.factory.class": "Mine"}, "ssl.engine.factory.class"),
            ({"log.retention.ms": "0"}, "must be unlimited"),
            ({"log.segment.bytes": "13"}, "Value must be at least 14"),
            ({"ssl.keystore.location": "/keys"}, "can be dynamically updated only per-listener"),
        ):
            with pytest.raises(KafkaError, match=words):
                admin.configs.alter({own: {**settings, "message.max.bytes": "2000"}})
        assert shown(admin, own, "message.max.bytes") == ("1048588", Source.DEFAULT)

        # A value whose key means nothing may be a secret of something else; its name is shown, as in Kafka.
        admin.configs.alter({own: {"log.retention.hour": "5", "message.max.bytes": "2000"}})
        until(lambda: shown(admin, own, "message.max.bytes") == ("2000", Source.DYNAMIC_BROKER))
        entry = admin.configs.describe(own)[own]["log.retention.hour"]
        assert (entry.value, entry.is_sensitive, entry.source) == (None, True, Source.DYNAMIC_BROKER)
    assert server.stop() == 0
    assert "config.unknown key=log.retention.hour did_you_mean=log.retention.hours" in server.tail()
