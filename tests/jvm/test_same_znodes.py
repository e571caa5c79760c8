"""The same administration leaves the same znodes, whether Kafka 3.9's brokers worked it off or ours.

Every znode of the two clusters is compared: path, data (parsed), version, ephemeral or not, and who may
change it. What differs by nature has a name in the place of its value (`VARIES`). Broker registrations have
one difference on purpose: ours name a feature (`barnabas.cluster.metadata.features`), by which peers know
that they keep consumer groups.
"""

import contextlib
import json
import re

import kafka_harness
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from barnabas.admin import ElectionType
from barnabas.admin.admin import Admin
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.admin.types import ConfigResource, NewPartitions, NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.cluster.metadata.features import FEATURES
from four_paths import init_producer_id
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

VARIES = {"timestamp": "<ms>", "topic_id": "<uuid>", "port": "<port>"}
BROKERS = (0, 1)
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 2,
    "group.initial.rebalance.delay.ms": 0,
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.max.retries": 1,
}


# ------------------------------------------------------------------------------------- what is there


def znodes(connect):
    """Every znode below the cluster's path:
    what it says, its version, whether it is ephemeral, its rights.
    """
    client = KazooClient(connect)
    client.start(10)
    try:
        return dict(_below(client, "/"))
    finally:
        client.stop()
        client.close()


def _below(client, path):
    with contextlib.suppress(NoNodeError):  # it went meanwhile
        data, stat = client.get(path)
        rights = [(acl.perms, acl.id.scheme, acl.id.id) for acl in client.get_acls(path)[0]]
        yield path, (_parsed(path, data), stat.version, bool(stat.ephemeralOwner), rights)
        for child in client.get_children(path):
            yield from _below(client, f"{path.rstrip('/')}/{child}")


def _parsed(path, data):
    if data is None:
        return None
    text = data.decode()
    value = json.loads(text) if text.startswith("{") else text
    if path == "/cluster/id":
        value["id"] = "<uuid>"
    if isinstance(value, dict):
        value |= {key: name for key, name in VARIES.items() if key in value}
    if path.startswith("/brokers/ids/"):
        value["endpoints"] = [re.sub(r":\d+$", ":<port>", each) for each in value["endpoints"]]
    if "__consumer_offsets" in path and isinstance(value, dict):
        _placed_at_random(value)
    return value


def _placed_at_random(value):
    """Which of the two brokers leads this topic, the broker that makes it draws."""
    for key in ("leader", "isr", "partitions"):
        if key in value:
            value[key] = f"<{key}>"


def without_the_exception(found):
    """Registrations without what only ours have, which is listed."""
    for path, (value, *_) in found.items():
        if path.startswith("/brokers/ids/"):
            assert value["features"] in ({}, {name: dict(each) for name, each in FEATURES.items()})
            value["features"] = "<features>"
    return found


# ------------------------------------------------------------------------------------------ the work


def administer(bootstraps):
    """Topics, records, a group, configurations, partitions, elections, reassignments, a deletion."""
    with Admin(bootstraps[0]) as admin:
        topics = [
            NewTopic("pair", assignment={0: [0, 1], 1: [1, 0]}, configs={"retention.ms": "100000"}),
            NewTopic(
                "compacted",
                assignment={0: [1]},
                configs={"cleanup.policy": "compact", "segment.bytes": "3000"},
            ),
            NewTopic("moved", assignment={0: [0]}),
            NewTopic("gone", assignment={0: [0], 1: [1]}),
        ]
        for topic in topics:
            admin.topics.create(topic)
        for broker in BROKERS:
            init_producer_id(bootstraps[broker])
        with Producer(bootstraps[0], acks="all") as producer:
            producer.send("pair", b"record", partition=0).result()
            producer.send("moved", b"record", partition=0).result()
        with Consumer(bootstraps[0], group_id="readers", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["pair"])
            until(lambda: bool(consumer.poll(timeout_ms=1000)))
        admin.topics.create_partitions({"pair": NewPartitions(3, [[0, 1]])})
        admin.configs.alter(
            {ConfigResource.topic("pair"): {"retention.ms": None, "max.message.bytes": "2000000"}}
        )
        admin.configs.alter({ConfigResource.broker(1): {"log.cleaner.threads": "2"}})
        admin.partitions.reassign({TopicPartition("moved", 0): [1, 0], TopicPartition("pair", 1): [0, 1]})
        until(lambda: admin.partitions.reassignments() == {})
        admin.partitions.elect_leaders([TopicPartition("pair", 1)], ElectionType.PREFERRED)
        admin.topics.delete("gone")
        limit(admin)


def limit(admin):
    """Quotas of every kind of entity; those that are removed take their znodes with them."""
    places = (
        {"user": "CN=a, b*"},
        {"user": None},
        {"client-id": "an app"},
        {"client-id": None, "user": "u"},
        {"client-id": "c", "user": "gone"},
        {"client-id": "c", "user": "u"},
    )
    rates = {"producer_byte_rate": 1e6, "request_percentage": 1e7}
    for place in places:
        admin.quotas.alter(ClientQuotaAlteration(place, rates))
    admin.quotas.alter(ClientQuotaAlteration({"ip": "10.0.0.1"}, {"connection_creation_rate": 9}))
    for place in places[-2:]:
        admin.quotas.alter(ClientQuotaAlteration(place, dict.fromkeys(rates)))


def dumps(cluster):
    """The znodes after the work, after the second broker stopped, and after the first one too."""
    bootstraps, connect, stops = cluster
    administer(bootstraps)
    until(lambda: not znodes(connect).keys() & {"/brokers/topics/gone", "/admin/delete_topics/gone"})
    yield "after the work", without_the_exception(znodes(connect))
    for broker in reversed(BROKERS):
        stops[broker]()
        yield f"after broker {broker} stopped", without_the_exception(znodes(connect))


@pytest.fixture
def genuine(zookeeper, server_folder):
    folder, connect = server_folder / "znodes", f"{zookeeper}/znodes-genuine"
    folder.mkdir()
    servers = []
    for broker in BROKERS:  # one after the other: the first one is the controller
        settings = {**SETTINGS, "broker.rack": f"rack-{broker}"}
        servers.append(kafka_harness.start_broker(folder / str(broker), connect, broker, settings))
        servers[-1].wait_until_listening()
    yield [server.bootstrap for server in servers], connect, [server.stop for server in servers]
    for server in servers:
        server.kill()


@pytest.fixture
def ours(zookeeper, server_folder, serve):
    connect = f"{zookeeper}/znodes-ours"
    servers = []
    for broker in BROKERS:
        settings = {**SETTINGS, "broker.rack": f"rack-{broker}", "zookeeper.connect": connect}
        options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        servers.append(serve(server_folder / f"znodes-{broker}", "--id", str(broker), *options))
        servers[-1].wait_until_ready()
    return [server.bootstrap for server in servers], connect, [server.stop for server in servers]


def test_the_same_work_leaves_the_same_znodes(genuine, ours):
    for (moment, theirs), (_, found) in zip(dumps(genuine), dumps(ours), strict=True):
        differing = {
            path: (theirs.get(path), found.get(path))
            for path in theirs.keys() | found.keys()
            if theirs.get(path) != found.get(path)
        }
        assert differing == {}, f"{moment}, as Kafka left it and as ours did"
