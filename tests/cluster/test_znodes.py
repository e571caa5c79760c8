"""Paths and payloads against the znodes of a genuine Kafka 3.9 (tests/golden/zk-*.txt)."""

import json
import re
from pathlib import Path

import pytest

from barnabas.cluster.brokers import Broker
from barnabas.cluster.leadership import LeaderAndIsr, LeaderRecoveryState, PartitionLeadership
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Stat
from barnabas.cluster.store.payload import UnreadableZnodeError
from barnabas.core.ids import TopicPartition, uuid_text
from barnabas.network.endpoints import Endpoint

GOLDEN = Path(__file__).parent.parent / "golden"
LINE = re.compile(r"(\S+)\t(.*)\t\[v=(\d+) eph=(true|false) czxid=(\d+)\]")


def golden(name):
    """Path -> (data or None, version, ephemeral)."""
    found = {}
    for line in (GOLDEN / name).read_text().splitlines():
        path, data, version, ephemeral, _ = LINE.fullmatch(line).groups()
        found[path] = (None if data == "<null>" else data.encode(), int(version), ephemeral == "true")
    return found


FRESH = golden("zk-fresh-3-brokers.txt")
WORKED = golden("zk-after-workload.txt")


def stat(version=0):
    return Stat(1, 1, 0, 0, version, 0)


def payloads(pattern):
    return [(path, *values) for path, values in WORKED.items() if re.fullmatch(pattern, path)]


def same(encoded, data):
    assert json.loads(encoded) == json.loads(data)
    assert b" " not in encoded


def test_the_golden_files_are_read():
    assert len(WORKED) > 80
    assert FRESH["/controller_epoch"] == (b"1", 1, False)


@pytest.mark.parametrize(("path", "data", "version", "ephemeral"), payloads(r"/brokers/ids/\d+"))
def test_registrations(path, data, version, ephemeral):
    broker_id = int(path.rpartition("/")[2])
    broker = znodes.decode_broker(broker_id, data)

    assert path == znodes.broker_path(broker_id)
    assert broker.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 29090 + broker_id),)
    assert broker.rack == f"RACK{broker_id}"
    same(znodes.encode_broker(broker, int(json.loads(data)["timestamp"])), data)
    assert (version, ephemeral) == (1, True)


@pytest.mark.parametrize(("path", "data", "version", "ephemeral"), payloads(r"/brokers/topics/[^/]+"))
def test_topics(path, data, version, ephemeral):
    assignment = znodes.decode_topic(data)

    assert path == znodes.topic_path(path.rpartition("/")[2])
    assert uuid_text(assignment.topic_id) == json.loads(data)["topic_id"]
    same(znodes.encode_topic(assignment), data)


@pytest.mark.parametrize(("path", "data", "version", "ephemeral"), payloads(r".*/state"))
def test_partition_states(path, data, version, ephemeral):
    state = znodes.decode_partition_state(data, stat(version))
    _, _, _, topic, _, partition, _ = path.split("/")

    assert path == znodes.partition_state_path(TopicPartition(topic, int(partition)))
    assert state.leader_and_isr.partition_epoch == version
    same(znodes.encode_partition_state(state), data)


@pytest.mark.parametrize(("path", "data", "version", "ephemeral"), payloads(r"/config/topics/.+"))
def test_configs(path, data, version, ephemeral):
    same(znodes.encode_config(znodes.decode_config(data)), data)


def test_single_znodes():
    controller = WORKED["/controller"][0]
    same(
        znodes.encode_controller(
            znodes.decode_controller(controller), int(json.loads(controller)["timestamp"])
        ),
        controller,
    )
    cluster_id = WORKED["/cluster/id"][0]
    same(znodes.encode_cluster_id(znodes.decode_cluster_id(cluster_id)), cluster_id)
    same(znodes.encode_feature(), WORKED["/feature"][0])
    block = WORKED["/latest_producer_id_block"][0]
    assert znodes.decode_producer_ids_end(block) == 2999
    same(znodes.encode_producer_ids(0, 2000), block)


def test_a_cluster_of_ours_has_the_znodes_of_theirs(make_cluster):
    cluster = make_cluster(0, 1, 2)
    table = cluster.ensemble.table
    from barnabas.cluster.metadata.registration import cluster_id

    cluster.wait(cluster_id(cluster.brokers[0].store, lambda: "4E7wk8apSBGD1cEJr3XB2g"))
    for path, (data, version, ephemeral) in FRESH.items():
        ours = table.find(path)
        assert ours is not None, path
        assert (ours.stat.version, bool(ours.stat.ephemeral_owner)) == (version, ephemeral), path
        assert (ours.data is None) == (data is None), path
        if data and data.startswith(b"{"):
            assert json.loads(ours.data).keys() == json.loads(data).keys() - (
                {"rack"} if "ids" in path else set()
            )
    assert cluster.paths() == FRESH.keys()


def test_a_workload_of_ours_leaves_the_znodes_of_theirs(make_cluster):
    cluster = make_cluster(0, 1, 2)
    for path, (data, _, _) in WORKED.items():
        if re.fullmatch(r"/brokers/topics/[^/]+", path):
            name = path.rpartition("/")[2]
            assignments = {p: list(each.replicas) for p, each in znodes.decode_topic(data).partitions.items()}
            cluster.create(name, assignments, znodes.decode_config(WORKED[f"/config/topics/{name}"][0]))
    table = cluster.ensemble.table

    theirs = {path for path in WORKED if path.startswith(("/brokers/topics", "/config/topics"))}
    assert cluster.paths("/brokers/topics") | cluster.paths("/config/topics") == theirs
    for path in theirs:
        data, version, _ = WORKED[path]
        ours = table.find(path)
        assert ours.stat.version == version, path
        assert (ours.data is None) == (data is None), path
        if data is not None:
            left, right = json.loads(ours.data), json.loads(data)
            left.pop("topic_id", None), right.pop("topic_id", None)
            assert left == right, path


def test_a_registration_without_plaintext_has_no_legacy_address():
    broker = Broker(7, (Endpoint("OUT", "::1", 9093, "SASL_SSL"),), features={"f": {"min_version": 1}})
    data = znodes.encode_broker(broker, 5)

    assert (json.loads(data)["host"], json.loads(data)["port"]) == (None, -1)
    assert json.loads(data)["endpoints"] == ["OUT://[::1]:9093"]
    assert "rack" not in json.loads(data)
    assert znodes.decode_broker(7, data) == broker


@pytest.mark.parametrize(
    ("payload", "endpoints"),
    [
        ({"version": 1, "host": "h", "port": 1}, (Endpoint("PLAINTEXT", "h", 1),)),
        ({"version": 2, "endpoints": ["SSL://h:1"]}, (Endpoint("SSL", "h", 1, "SSL"),)),
        (
            {
                "version": 4,
                "endpoints": ["A://h:1"],
                "listener_security_protocol_map": {"A": "SASL_PLAINTEXT"},
            },
            (Endpoint("A", "h", 1, "SASL_PLAINTEXT"),),
        ),
    ],
)
def test_older_registrations(payload, endpoints):
    assert znodes.decode_broker(1, json.dumps(payload).encode()).endpoints == endpoints


@pytest.mark.parametrize("data", [None, b"", b"[]", b"{", b'{"version":9}'])
def test_what_is_no_registration(data):
    with pytest.raises(UnreadableZnodeError):
        znodes.decode_broker(1, data)


@pytest.mark.parametrize("number", ["true", "-1", "2147483648", '"1"', "1.0", "null"])
def test_a_broker_id_is_a_number_that_requests_can_carry(number):
    with pytest.raises(UnreadableZnodeError, match="brokerid"):
        znodes.decode_controller(f'{{"version":1,"brokerid":{number}}}'.encode())


def test_older_topics_have_no_id():
    topic = znodes.decode_topic(b'{"version":1,"partitions":{"1":[2],"0":[1]}}')

    assert topic.topic_id is None
    assert list(topic.partitions) == [0, 1]


def test_a_reassignment_is_kept():
    data = (
        b'{"version":3,"partitions":{"0":[1,2,3]},"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]}}'
    )
    topic = znodes.decode_topic(data)

    assert topic.partitions[0].being_reassigned
    assert topic.partitions[0].target == (2, 3)
    same(znodes.encode_topic(topic), data)


def test_a_recovering_leader_says_so():
    state = LeaderAndIsr(1, (1,), 3, LeaderRecoveryState.RECOVERING, 5)
    data = znodes.encode_partition_state(PartitionLeadership(state, 2))

    assert json.loads(data)["leader_recovery_state"] == 1
    assert znodes.decode_partition_state(data, stat(5)) == PartitionLeadership(state, 2)


@pytest.mark.parametrize(
    ("data", "change"),
    [
        (b'{"version":2,"entity_path":"topics/t"}', znodes.ConfigChange("topics", "t")),
        (b'{"version":2,"entity_path":"users/u/clients/c"}', znodes.ConfigChange("users", "u/clients/c")),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', znodes.ConfigChange("topics", "t")),
    ],
)
def test_config_notices(data, change):
    assert znodes.decode_config_change(data) == change


def test_names_in_paths_are_sanitized():
    assert znodes.sanitize("a b/ü*~") == "a%20b%2F%C3%BC%2A%7E"
    assert znodes.desanitize(znodes.sanitize("a b/ü*~")) == "a b/ü*~"


def test_lists_of_partitions_and_log_dir_events():
    partitions = [TopicPartition("t", 0), TopicPartition("u", 3)]

    assert znodes.decode_partitions(znodes.encode_partitions(partitions)) == partitions
    assert json.loads(znodes.encode_log_dir_event(2)) == {"version": 1, "broker": 2, "event": 1}
    assert znodes.decode_log_dir_event(znodes.encode_log_dir_event(2)) == 2


def test_ancestors():
    assert znodes.ancestors("/a/b/c") == ["/a", "/a/b"]
    assert znodes.ancestors("/a") == []
