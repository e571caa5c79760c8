"""What a client of Kafka 4.4 finds that no 3.9 has; each answer is that of a genuine 4.4.0."""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.handlers import api_table, wider
from barnabas.broker.profiles import PROFILE_3_9, PROFILE_4_4, profile_of
from barnabas.core.broker_config import broker_config, with_profile
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from broker_world import ME

BETWEEN_BROKERS = (4, 5, 6, 7, 56, 58, 67)


@pytest.fixture
def modern(make_world):
    """A broker of the profile 4.4 with the topics a, b and c of three, two and one partition."""
    world = make_world(barnabas_api_profile="4.4")
    for topic, partitions in (("c", 1), ("a", 3), ("b", 2)):
        world.create(topic, partitions)
    return world


class Denying:
    """Allows everything but one name."""

    def __init__(self, name):
        self.name = name

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return name != self.name

    def authorize_any(self, request, operation, resource):
        return True


class DenyingConfigs(Denying):
    """Allows everything but to look at the cluster's configuration."""

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return (operation, resource) != (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)


def hello(**fields):
    return ApiVersionsRequest(client_software_name="t", client_software_version="1", **fields)


# --- which profile is on


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "4.4"),
        ({"zookeeper.connect": "127.0.0.1:2181"}, "3.9"),
        ({"barnabas.api.profile": "3.9"}, "3.9"),
        ({"barnabas.api.profile": "4.4", "zookeeper.connect": "127.0.0.1:2181"}, "4.4"),
    ],
)
def test_auto_is_44_where_no_jvm_broker_can_be(given, name):
    config = broker_config(given)

    assert profile_of(config).name == name
    consumer = "consumer" in config["group.coordinator.rebalance.protocols"]
    assert consumer == (name == "4.4")


def test_what_was_set_wins_over_the_default_of_a_profile():
    config = broker_config({"group.coordinator.rebalance.protocols": "classic"})

    assert config["group.coordinator.rebalance.protocols"] == ["classic"]
    assert profile_of(config).versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 1), "refused, as by a 4.4"


def test_a_configuration_goes_from_one_profile_to_the_other_and_back():
    config = broker_config({"zookeeper.connect": "127.0.0.1:2181"})
    newer = with_profile(config, "4.4")
    back = with_profile(config, "3.9")

    keys = ("group.coordinator.rebalance.protocols", "group.consumer.assignment.interval.ms")
    assert [newer[key] for key in keys] == [["classic", "consumer"], 1000]
    assert [back[key] for key in keys] == [["classic"], 0]
    assert (profile_of(newer).name, profile_of(back).name) == ("4.4", "3.9")
    dynamic = DynamicBrokerConfig(config)
    dynamic.update({"num.io.threads": "9"}, per_broker=True)
    dynamic.use_static(newer)
    assert (profile_of(dynamic.current).name, dynamic.current["num.io.threads"]) == ("4.4", 9)


def test_a_broker_whose_profile_changes_handles_the_versions_of_both():
    older, newer = api_table(PROFILE_3_9), api_table(PROFILE_4_4)
    both = wider(older, newer)

    assert wider(newer, older).keys() == both.keys()
    assert both.keys() == older.keys() | newer.keys()
    assert list(both) == sorted(both)
    acls, produce = both[ApiKey.DESCRIBE_ACLS], both[ApiKey.PRODUCE]
    assert (acls.min_version, acls.max_version) == (0, 3)
    assert (produce.min_version, produce.max_version) == (0, 13)


# --- ApiVersions


def test_what_brokers_say_to_each_other_is_served_and_not_told(modern):
    told = {each.api_key for each in modern.send(hello(), 5).api_keys}

    assert told.isdisjoint(BETWEEN_BROKERS)
    assert set(BETWEEN_BROKERS) <= api_table(PROFILE_4_4).keys()
    assert set(BETWEEN_BROKERS) <= {key for key, api in api_table(PROFILE_3_9).items() if api.advertised}, (
        "a 3.9 tells it"
    )


def test_a_broker_of_this_program_is_told_all(modern):
    """It asks the controller for its versions, and then for a block of producer ids."""
    request = ApiVersionsRequest(client_software_name="barnabas-broker", client_software_version="1")

    assert {each.api_key for each in modern.send(request, 5).api_keys} == api_table(PROFILE_4_4).keys()


def test_with_zookeeper_a_jvm_broker_may_ask():
    config = broker_config({"barnabas.api.profile": "4.4", "zookeeper.connect": "127.0.0.1:2181"})

    assert all(api.advertised for api in api_table(profile_of(config)).values())


BOTH = [("group.version", 0, 1), ("transaction.version", 0, 2)]


@pytest.mark.parametrize(("version", "supported"), [(3, []), (4, BOTH)])
def test_features_are_told(modern, version, supported):
    modern.features.seen({"group.version": 0, "transaction.version": 1}, 4)
    answer = modern.send(hello(), version)

    ranges = [(each.name, each.min_version, each.max_version) for each in answer.supported_features]
    (level,) = answer.finalized_features
    assert ranges == supported
    assert (level.name, level.min_version_level, level.max_version_level) == ("transaction.version", 1, 1)
    assert answer.finalized_features_epoch == 4


def test_a_jvm_broker_finds_no_levels(modern):
    """It ends where /feature has one, and knows no marker of an end that has bumped the epoch."""
    config = broker_config({"barnabas.api.profile": "4.4", "zookeeper.connect": "127.0.0.1:2181"})
    profile = profile_of(config)
    table = api_table(profile)

    levels = profile.feature_levels()
    assert (levels.supported, levels.finalized, levels.kept) == (
        {"group.version": (0, 1)},
        {"group.version": 1},
        False,
    )
    assert (table[26].max_version, table[27].max_version) == (4, 1)
    assert api_table(PROFILE_4_4)[26].max_version == 5


@pytest.mark.parametrize(
    ("identity", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"cluster_id": "right", "node_id": ME}, ErrorCode.NONE),
        ({"cluster_id": "right"}, ErrorCode.INVALID_REQUEST),
        ({"node_id": ME}, ErrorCode.INVALID_REQUEST),
        ({"cluster_id": "other", "node_id": ME}, ErrorCode.REBOOTSTRAP_REQUIRED),
        ({"cluster_id": "right", "node_id": ME + 1}, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
def test_a_client_that_meant_another_broker_starts_from_its_bootstrap_servers(modern, identity, code):
    modern.services.cluster_id = "right"
    answer = modern.send(hello(**identity), 5)

    assert answer.error_code == code
    assert bool(answer.api_keys) == (code is ErrorCode.NONE)


# --- DescribeTopicPartitions


def ask(topics=(), limit=2000, cursor=None):
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in topics],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def page(answer):
    """Topic -> partitions, or the error's number; and where the next page begins."""
    topics = {
        each.name: each.error_code or [one.partition_index for one in each.partitions]
        for each in answer.topics
    }
    cursor = answer.next_cursor
    return topics, cursor and (cursor.topic_name, cursor.partition_index)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (ask(), ({"a": [0, 1, 2], "b": [0, 1], "c": [0]}, None)),
        (ask(["c", "a", "a"], 2), ({"a": [0, 1]}, ("a", 2))),
        (ask(["c", "a"], 3), ({"a": [0, 1, 2]}, ("c", 0))),
        (ask(["c", "a"], 0), ({"a": [0]}, ("a", 1))),
        (ask(["c", "a"], -1), ({"a": [0]}, ("a", 1))),
        (ask(["c", "a"], 1, ("a", 1)), ({"a": [1]}, ("a", 2))),
        (ask(["b", "a"], cursor=("a", 9)), ({"a": [], "b": [0, 1]}, None)),
        (ask(cursor=("b", 1)), ({"b": [1], "c": [0]}, None)),
        (ask(cursor=("aa", 7)), ({"b": [0, 1], "c": [0]}, None)),
        (ask(["zz", "a b", "a"]), ({"a": [0, 1, 2], "a b": 17, "zz": 3}, None)),
        (ask(["a", "zz"], cursor=("zz", 0)), ({"zz": 3}, None)),
        (ask(["c", "a"], cursor=("a", -1)), ({"c": 42, "a": 42}, None)),
        (ask(["a", "c"], cursor=("b", 1)), ({"a": 42, "c": 42}, None)),
        (ask(cursor=("a", 2**31 - 1)), ({"a": [], "b": [0, 1], "c": [0]}, None)),
        (ask(["a"], cursor=("a", -(2**31))), ({"a": 42}, None)),
        (ask(cursor=("", 5)), ({"a": [0, 1, 2], "b": [0, 1], "c": [0]}, None)),
        (ask(["a"], cursor=("", 0)), ({"a": 42}, None)),
        (ask(cursor=("\U0010ffff", 0)), ({}, None)),
        (ask(cursor=("z" * 8000, 0)), ({}, None)),
        (ask(["a"] * 1000, 1, ("a", 2)), ({"a": [2]}, None)),
    ],
)
def test_pages_of_partitions(modern, asked, found):
    assert page(modern.send(asked, 0)) == found


def test_pages_are_read_to_their_end(modern):
    seen, cursor = [], None
    while True:
        topics, cursor = page(modern.send(ask(limit=2, cursor=cursor), 0))
        seen += [(name, number) for name, numbers in topics.items() for number in numbers]
        if cursor is None:
            break

    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("c", 0)]


def test_the_broker_limits_a_page(make_world):
    world = make_world(barnabas_api_profile="4.4", max_request_partition_size_limit="2")
    world.create("a", 3)

    assert page(world.send(ask(), 0)) == ({"a": [0, 1]}, ("a", 2))


@pytest.mark.parametrize(
    ("topics", "found"), [((), {"a": [0, 1, 2], "c": [0]}), (("b", "c"), {"c": [0], "b": 29})]
)
def test_a_topic_that_may_not_be_described_is_named_only_to_who_named_it(modern, topics, found):
    modern.services.authorizer = Denying("b")

    answer = modern.send(ask(topics), 0)
    assert page(answer) == (found, None)
    assert all(each.topic_id == bytes(16) for each in answer.topics if each.error_code)


# --- the others


@pytest.mark.parametrize(
    ("version", "types", "found"),
    [
        (0, [], []),
        (1, [], [("1", 8), ("2", 8), ("1", 4), ("2", 4), ("c", 2), ("a", 2), ("b", 2)]),
        (1, [2], [("c", 2), ("a", 2), ("b", 2)]),
        (1, [4], [("1", 4), ("2", 4)]),
        (1, [16, 32], []),
    ],
)
def test_resources_that_have_a_configuration_are_named(modern, version, types, found):
    answer = modern.send(ListConfigResourcesRequest(resource_types=types), version)

    assert answer.error_code == 0
    assert [(each.resource_name, each.resource_type or 16) for each in answer.config_resources] == found


def test_a_type_that_has_no_configuration_is_refused(modern):
    answer = modern.send(ListConfigResourcesRequest(resource_types=[2, 99]), 1)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


def test_names_of_resources_are_for_those_who_may_see_the_clusters_configuration(modern):
    modern.services.authorizer = DenyingConfigs("")

    answer = modern.send(ListConfigResourcesRequest(), 1)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("version", "code", "message"), [(5, 0, None), (6, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")]
)
def test_an_unknown_group_is_an_error_since_version_6(modern, version, code, message):
    modern.create(GROUP_METADATA_TOPIC, 50)
    modern.clock.advance(0)
    (group,) = modern.send(DescribeGroupsRequest(groups=["g"]), version).groups

    assert (group.error_code, group.error_message, group.group_state) == (code, message, "Dead")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("", ["copy-1", "copy-12"]),
        (None, ["copy-1", "copy-12"]),
        ("copy-.", ["copy-1"]),
        ("opy", []),
        ("(", 128),
    ],
)
def test_ids_of_transactions_are_filtered_by_a_pattern_of_re2(modern, pattern, found):
    modern.create(TRANSACTION_STATE_TOPIC, 50)
    modern.clock.advance(0)
    for each in ("copy-1", "copy-12"):
        request = InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=60_000)
        assert modern.send(request, 4).error_code == 0

    answer = modern.send(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
    ids = sorted(each.transactional_id for each in answer.transaction_states)
    assert (answer.error_code or ids) == found
