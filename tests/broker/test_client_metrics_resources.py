"""Subscriptions of client metrics as configuration: described, listed, altered, by profile."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest

CLIENT_METRICS = 16


@pytest.fixture
def world(make_world):
    world = make_world(barnabas_api_profile="4.4")
    world.topics.client_metrics = {"s": {"interval.ms": "1000", "match": " client_id = a ,client_id = a"}}
    return world


def describe(world, name, version=4):
    resource = DescribeConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None
    )
    [result] = world.send(
        DescribeConfigsRequest(resources=[resource], include_synonyms=True), version
    ).results
    return result


def test_all_keys_of_a_subscription_are_described(world):
    entries = [(one.name, one.value, one.config_source) for one in describe(world, "s").configs]

    assert sorted(entries) == [
        ("interval.ms", "1000", 7),
        ("match", "client_id = a", 7),
        ("metrics", "", 5),
    ]


def test_one_that_there_is_not_has_the_defaults(world):
    entries = [(one.name, one.value, one.config_source) for one in describe(world, "none").configs]

    assert sorted(entries) == [("interval.ms", "300000", 5), ("match", "", 5), ("metrics", "", 5)]


def test_a_name_is_needed(world):
    refused = describe(world, "")

    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert refused.error_message == "Client metrics subscription name must not be empty"


@pytest.mark.parametrize(("version", "types"), [(0, None), (1, [CLIENT_METRICS])])
def test_subscriptions_are_listed(world, version, types):
    listed = world.send(ListConfigResourcesRequest(resource_types=types or []), version).config_resources

    assert [(one.resource_name, one.resource_type) for one in listed] == [("s", CLIENT_METRICS)]


@pytest.mark.parametrize(
    ("profile", "code", "asked"), [("4.4", ErrorCode.NONE, ["s"]), ("3.9", ErrorCode.INVALID_REQUEST, [])]
)
def test_they_are_altered_in_the_profile_of_4_4_only(make_world, profile, code, asked):
    world = make_world(barnabas_api_profile=profile)
    config = AlterableConfig(name="interval.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="s", configs=[config])
    [answer] = world.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses

    assert answer.error_code == code
    assert [name for _, name, _, _ in world.config_admin.asked] == asked
