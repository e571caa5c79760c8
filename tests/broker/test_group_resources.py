"""The configuration of groups: described, listed, altered, by profile; compared with a genuine 4.4.0."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest

GROUP = 32
HEARTBEAT = "consumer.heartbeat.interval.ms"
SESSION = "consumer.session.timeout.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"


@pytest.fixture
def world(make_world):
    world = make_world(barnabas_api_profile="4.4", group_consumer_heartbeat_interval_ms="7000")
    world.topics.groups["g"] = {HEARTBEAT: "6000"}
    return world


def describe(world, name, keys=None):
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=name, configuration_keys=keys)
    [result] = world.send(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results
    return result


def alter(world):
    config = AlterableConfig(name=HEARTBEAT, config_operation=0, value="6000")
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=[config])
    [answer] = world.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer


def test_a_groups_own_values_stand_before_the_brokers(world):
    entries = {one.name: one for one in describe(world, "g").configs}

    assert list(entries) == [SESSION, ASSIGNMENT, HEARTBEAT]
    assert [(one.value, one.config_source, one.read_only) for one in entries.values()] == [
        ("45000", 5, False),
        ("1000", 5, False),
        ("6000", 8, False),
    ]
    assert [(one.name, one.value, one.source) for one in entries[HEARTBEAT].synonyms] == [
        (HEARTBEAT, "6000", 8),
        (f"group.{HEARTBEAT}", "7000", 4),
        (f"group.{HEARTBEAT}", "5000", 5),
    ]
    assert [(one.name, one.value, one.source) for one in entries[ASSIGNMENT].synonyms] == [
        (f"group.{ASSIGNMENT}", "1000", 5)
    ]


def test_a_group_that_there_is_not_has_the_brokers_values(world):
    assert [(one.name, one.value) for one in describe(world, "none", ["nothing", HEARTBEAT]).configs] == [
        (HEARTBEAT, "7000")
    ]


def test_a_name_is_needed(world):
    refused = describe(world, "")

    assert (refused.error_code, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Group name must not be empty",
    )


@pytest.mark.parametrize("types", [[GROUP], [GROUP, 8]])
def test_groups_with_settings_of_their_own_are_listed_first(world, types):
    listed = world.send(ListConfigResourcesRequest(resource_types=types), 1).config_resources

    assert (listed[0].resource_name, listed[0].resource_type) == ("g", GROUP)


@pytest.mark.parametrize(
    ("profile", "code", "asked"), [("4.4", ErrorCode.NONE, ["g"]), ("3.9", ErrorCode.INVALID_REQUEST, [])]
)
def test_they_are_altered_in_the_profile_of_4_4_only(make_world, profile, code, asked):
    world = make_world(barnabas_api_profile=profile)

    assert alter(world).error_code == code
    assert [name for _, name, _, _ in world.config_admin.asked] == asked


class Nothing:
    """Allows nobody anything."""

    def authorize(self, *_, **__):
        return False


def test_who_may_not_sees_and_changes_nothing(world):
    world.services.authorizer = Nothing()

    assert describe(world, "g").error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert alter(world).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert world.config_admin.asked == []
