"""Who would forget groups of the consumer protocol."""

import logging

import pytest
from brokers_fake import FakeClock

from barnabas.cluster.brokers import Broker
from barnabas.cluster.metadata.features import FEATURES, forgetful_brokers
from barnabas.cluster.metadata.registration import BrokerRegistration, ensure_persistent_paths
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ConfigError
from barnabas.network.endpoints import Endpoint
from barnabas.node.peer_brokers import PeerBrokers

KAFKA_39 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:9093"],"jmx_port":-1,"port":9093,"host":"127.0.0.1",'
    b'"version":5,"timestamp":"1700000000000"}'
)


@pytest.fixture
def store(loop, cluster):
    store = cluster.session()
    loop.wait(ensure_persistent_paths(store))
    ours = Broker(1, (Endpoint("PLAINTEXT", "127.0.0.1", 9092),), features=FEATURES)
    loop.wait(BrokerRegistration(store, ours, FakeClock(loop)).register())
    return store


def peers(store, *, protocols="classic,consumer", zookeeper="zk:2181"):
    config = {"group.coordinator.rebalance.protocols": protocols, "zookeeper.connect": zookeeper}
    return PeerBrokers(store, broker_config(config))


def kafka_joins(loop, store, broker_id):
    loop.wait(store.create(f"/brokers/ids/{broker_id}", KAFKA_39, ephemeral=True))


def test_ours_remember_kafka_forgets(loop, store):
    assert loop.wait(forgetful_brokers(store)) == []

    kafka_joins(loop, store, 3)
    kafka_joins(loop, store, 2)

    assert loop.wait(forgetful_brokers(store)) == [2, 3]


def test_no_start_beside_one_that_forgets(loop, store):
    loop.wait(peers(store).check())
    kafka_joins(loop, store, 2)

    with pytest.raises(ConfigError, match=r"group\.coordinator\.rebalance\.protocols: broker 2 "):
        loop.wait(peers(store).check())


@pytest.mark.parametrize("given", [{"protocols": "classic"}, {"zookeeper": ""}])
def test_nobody_cares_without_the_protocol_or_without_zookeeper(loop, store, given):
    kafka_joins(loop, store, 2)

    loop.wait(peers(store, **given).check())


def test_only_with_zookeeper_is_anything_announced(store):
    assert peers(store, protocols="classic").features == FEATURES
    assert peers(store, zookeeper="").features == {}


def test_one_that_joins_later_is_told_of_once(loop, store, caplog):
    watching = peers(store)
    with caplog.at_level(logging.ERROR):
        loop.wait(watching.look())
        assert caplog.text == ""
        kafka_joins(loop, store, 2)
        for _ in range(3):
            loop.wait(watching.look())

    assert caplog.text.count("peer.forgets_groups broker=2") == 1
