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


class Following:
    """A broker whose profile is auto, and what it has become while it ran."""

    def __init__(self, store, **config):
        given = {"zookeeper.connect": "zk:2181", **config}
        self.peers = PeerBrokers(store, broker_config(given), lambda: self.became.append(self.peers.profile))
        self.became = []


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


def test_only_with_zookeeper_is_anything_announced_and_by_who_keeps_such_groups(store):
    assert peers(store).features == FEATURES
    assert Following(store).peers.features == FEATURES
    assert peers(store, protocols="classic").features == {}
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


# --- the profile


def test_the_profile_is_44_while_all_registered_brokers_keep_such_groups(loop, store, caplog):
    following = Following(store)
    assert following.peers.profile == "3.9", "until it is known who is registered"
    loop.wait(following.peers.check())
    assert following.peers.profile == "4.4"
    loop.wait(following.peers.look())
    with caplog.at_level(logging.INFO):
        # No look is asked for: the broker notices.
        kafka_joins(loop, store, 3)
        loop.until(lambda: following.became)
    assert following.became == ["3.9"]
    assert 'profile now=3.9 held_down_by="broker 3 does not keep groups' in caplog.text
    assert caplog.text.count("peer.forgets_groups broker=3") == 1

    loop.wait(store.delete("/brokers/ids/3"))
    loop.until(lambda: len(following.became) > 1)
    assert following.became == ["3.9", "4.4"]


def test_beside_a_broker_that_forgets_the_profile_is_39_from_the_start_and_nobody_is_warned(
    loop, store, caplog
):
    kafka_joins(loop, store, 2)
    following = Following(store)
    with caplog.at_level(logging.INFO):
        loop.wait(following.peers.check())
        loop.wait(following.peers.look())
        kafka_joins(loop, store, 3)
        loop.until(lambda: 'held_down_by="broker 2, 3 does not keep' in caplog.text)

    assert (following.peers.profile, following.became) == ("3.9", [])
    assert 'held_down_by="broker 2 does not keep' in caplog.text
    assert 'held_down_by="broker 2, 3 does not keep' in caplog.text
    assert "peer.forgets_groups" not in caplog.text


def test_a_broker_of_ours_that_is_pinned_to_classic_groups_holds_the_others_down(loop, store):
    features = peers(store, protocols="classic").features
    broker = Broker(5, (Endpoint("PLAINTEXT", "127.0.0.1", 9095),), features=features)
    loop.wait(BrokerRegistration(store, broker, FakeClock(loop)).register())
    following = Following(store)
    loop.wait(following.peers.check())

    assert following.peers.profile == "3.9"


def test_a_pinned_version_holds_the_profile_down(loop, store, caplog):
    following = Following(store, **{"inter.broker.protocol.version": "3.9"})
    with caplog.at_level(logging.INFO):
        loop.wait(following.peers.check())

    assert following.peers.profile == "3.9"
    assert 'held_down_by="inter.broker.protocol.version is set"' in caplog.text


@pytest.mark.parametrize("chosen", ["3.9", "4.4"])
def test_a_profile_that_was_chosen_does_not_follow(loop, store, chosen):
    following = Following(store, **{"barnabas.api.profile": chosen})
    loop.wait(following.peers.check())
    kafka_joins(loop, store, 3)
    loop.wait(following.peers.look())

    assert (following.peers.profile, following.became) == (chosen, [])


def test_the_newest_configuration_has_the_defaults_of_44(store):
    newest = Following(store).peers.newest

    assert newest["group.coordinator.rebalance.protocols"] == ["classic", "consumer"]
    assert newest["group.consumer.migration.policy"] == "bidirectional"
