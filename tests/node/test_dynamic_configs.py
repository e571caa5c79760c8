"""Settings that change while brokers run: they take effect, on every broker that they are for, and after a restart."""

import time

import pytest

from barnabas.admin.admin import BlockingAdmin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.core.config import Source
from barnabas.core.errors import KafkaError

ALL = ConfigResource.all_brokers()


def shown(admin, resource, key):
    entry = admin.configs.describe(resource)[resource][key]
    return entry.value, entry.source


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_setting_for_all_brokers_is_obeyed_without_a_restart_and_after_one(join_cluster):
    first, second = join_cluster(1), join_cluster(2)
    for server in (first, second):
        server.wait_until_ready()
    topic = ConfigResource.topic("t")
    with BlockingAdmin(first.bootstrap) as admin:
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
    with BlockingAdmin(again.bootstrap) as admin:
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
    with BlockingAdmin(second.bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [2, 1]}))
        first.kill()
        until(lambda: isr_and_leader(admin) == ([2], 2))
    second.kill()
    first = join_cluster(1, *quick)
    first.wait_until_ready()
    with BlockingAdmin(first.bootstrap) as admin:
        until(lambda: isr_and_leader(admin) == ([2], -1))
        admin.configs.alter({resource: {"unclean.leader.election.enable": "true"}})
        until(lambda: isr_and_leader(admin) == ([1], 1))
    assert first.stop() == 0


def isr_and_leader(admin):
    """None while the broker that is asked does not know: on a machine that is busy, a session may end meanwhile."""
    found = admin.topics.try_describe(["t"])["t"]
    if isinstance(found, KafkaError):
        return None
    partition = found.partitions[0]
    return list(partition.isr), partition.leader
