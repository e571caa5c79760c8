"""``barnabas explain coordinator``: the stations, what it leaves alone, and when belief and answer part."""

import json

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.metadata import MetadataResponseTopic
from fake_groups import Group


@pytest.fixture
def explain(barnabas, cluster, groups):
    return lambda *flags: barnabas("explain", "coordinator", *flags, "--bootstrap-server", cluster.bootstrap)


def stations(result):
    return dict(line.split(maxsplit=1) for line in result.stdout.splitlines())


def answered(cluster, **fields):
    answer = Coordinator(**{"key": "g", "node_id": -1, "host": "", "port": -1, **fields})
    cluster.faults[ApiKey.FIND_COORDINATOR].append(
        lambda request, node_id: FindCoordinatorResponse(coordinators=[answer])
    )


def test_the_way_to_the_coordinator_is_shown(explain, cluster):
    cluster.add_topic("__consumer_offsets", 50)
    at = cluster.bootstrap
    result = explain("consume_group")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "group             consume_group",
        "hash              String.hashCode = -823236484, Kafka's abs of it = 823236484",
        "internal topic    __consumer_offsets, 50 partitions",
        "partition         823236484 mod 50 = 34",
        "leader            broker 1, epoch 0 (replicas 1, in sync 1)",
        f"endpoint          {at}, on the listener that was asked",
        f"FindCoordinator   broker 1 at {at}",
        f"verdict           metadata and answer agree: clients of group 'consume_group' connect to {at}.",
    ]


def test_programs_get_json(explain, cluster):
    cluster.add_topic("__transaction_state", 3)
    told = json.loads(explain("x", "--type", "transaction", "--json").stdout)
    assert (told["hash"], told["partition"], told["verdict"]) == (120, 0, "agree")
    assert told["find_coordinator"]["node_id"] == told["leader"] == 1
    assert cluster.requests(ApiKey.FIND_COORDINATOR)[0].key_type == 1


def test_looking_does_not_create_the_topic(explain, cluster):
    result = explain("g")
    assert result.exit_code == 0
    assert "__consumer_offsets does not exist yet, so no broker was asked" in result.stdout
    assert "run this command with --create" in result.stdout
    assert cluster.requests(ApiKey.FIND_COORDINATOR) == []
    assert not any(one.allow_auto_topic_creation for one in cluster.requests(ApiKey.METADATA))


def test_with_create_the_broker_is_asked_all_the_same(explain, cluster):
    result = explain("g", "--create")
    assert len(cluster.requests(ApiKey.FIND_COORDINATOR)) == 1
    assert "the answer made __consumer_offsets come into being" in result.stdout
    assert result.exit_code == 0


def test_a_topic_that_does_not_come_into_being(explain, cluster, groups):
    answered(cluster, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    result = explain("g", "--create")
    assert result.exit_code == 1
    assert "fewer brokers live than offsets.topic.replication.factor asks for" in result.stdout


def test_belief_and_answer_that_differ_are_told(explain, cluster, groups):
    cluster.add_topic("__consumer_offsets", 50)
    answered(cluster, node_id=2, host="elsewhere", port=9092)
    result = explain("g")
    assert result.exit_code == 1
    assert stations(result)["FindCoordinator"] == "broker 2 at elsewhere:9092"
    assert stations(result)["verdict"].startswith("metadata and answer differ")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "barnabas topics --describe --topic __consumer_offsets"),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "is reading __consumer_offsets"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "your principal may not describe this group"),
        (ErrorCode.INVALID_GROUP_ID, "clients of this group cannot go on"),
    ],
)
def test_a_refusal_is_told_with_what_to_do(explain, cluster, code, words):
    cluster.add_topic("__consumer_offsets", 50)
    answered(cluster, error_code=code)
    result = explain("g")
    assert result.exit_code == 1
    assert stations(result)["FindCoordinator"] == f"{code.name}: {code.message}"
    assert words in stations(result)["verdict"]


def test_a_topic_that_may_not_be_looked_at_is_no_difference(explain, cluster, groups):
    denied = MetadataResponseTopic(
        name="__consumer_offsets", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions=[]
    )
    cluster._topic = lambda name: denied
    result = explain("g")
    assert result.exit_code == 0
    assert "TOPIC_AUTHORIZATION_FAILED" in stations(result)["internal"]
    assert "metadata of __consumer_offsets could not be looked at" in stations(result)["verdict"]


def test_a_partition_without_a_leader(explain, cluster):
    cluster.add_topic("__consumer_offsets", 50)
    cluster.leaders["__consumer_offsets", 3] = -1
    answered(cluster, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    told = stations(explain("g"))
    assert told["leader"].startswith("none at the moment")
    assert told["endpoint"] == "not known"


def test_the_group_need_not_exist(explain, cluster, groups):
    cluster.add_topic("__consumer_offsets", 50)
    groups["there"] = Group()
    assert explain("there").exit_code == explain("nowhere").exit_code == 0


def test_people_get_a_table(on_terminal, cluster, groups):
    cluster.add_topic("__consumer_offsets", 50)
    shown = on_terminal("explain", "coordinator", "g", "--bootstrap-server", cluster.bootstrap)
    (row,) = (line for line in shown.splitlines() if "FindCoordinator" in line)
    assert [cell.strip() for cell in row.split(row[0])[1:3]] == [
        "FindCoordinator",
        f"broker 1 at {cluster.bootstrap}",
    ]
