"""The levels of the broker's loggers, read and changed by clients (KIP-412)."""

import logging

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.protocol.messages import alter_configs
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)
CLEANER, OF_KAFKA = "barnabas.log.cleaner", "kafka.log.LogCleaner"


@pytest.fixture(autouse=True)
def _levels_as_they_were():
    names = [None, "barnabas", "barnabas.log", CLEANER]
    before = [(name, logging.getLogger(name).level) for name in names]
    yield
    for name, level in before:
        logging.getLogger(name).setLevel(level)


def described(world, *keys, name="1"):
    wanted = DescribeConfigsResource(
        resource_type=LOGGER, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    [result] = world.send(DescribeConfigsRequest(resources=[wanted]), 4).results
    return result


def level_of(world, logger):
    [entry] = described(world, logger).configs
    assert entry.config_source == 6, "DYNAMIC_BROKER_LOGGER_CONFIG"
    assert not entry.read_only
    return entry.value


def alter(world, *operations, name="1", dry=False):
    configs = [
        AlterableConfig(name=key, config_operation=kind, value=value) for key, kind, value in operations
    ]
    resource = AlterConfigsResource(resource_type=LOGGER, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=dry)
    [answer] = world.send(request, 1).responses
    return ErrorCode.of(answer.error_code).name, answer.error_message


def test_the_loggers_of_the_broker_are_described_by_both_of_their_names(world):
    names = [entry.name for entry in described(world).configs]

    assert len(names) == len(set(names))
    assert {
        "root",
        "kafka",
        "barnabas.broker.dispatch",
        "kafka.server.KafkaApis",
        "kafka.request.logger",
    } <= set(names)
    assert {name.partition(".")[0] for name in names} == {"root", "kafka", "barnabas", "state", "org"}
    assert described(world, "no.such.logger").configs == []


@pytest.mark.parametrize("name", [CLEANER, OF_KAFKA])
def test_a_level_is_set_and_taken_back(world, name):
    alter(world, ("root", SET, "ERROR"), ("barnabas", SET, "ERROR"))
    events = EventLog("log.cleaner")
    assert not events.has_debug

    assert alter(world, (name, SET, "DEBUG")) == ("NONE", None)

    assert events.has_debug, "it holds at once"
    assert (level_of(world, CLEANER), level_of(world, OF_KAFKA)) == ("DEBUG", "DEBUG")
    assert alter(world, (name, DELETE, None)) == ("NONE", None)
    assert not events.has_debug
    assert level_of(world, name) == "ERROR"


def test_what_is_set_for_a_part_holds_for_its_parts(world):
    alter(world, ("barnabas", SET, "WARN"), ("barnabas.log", SET, "INFO"))

    assert level_of(world, CLEANER) == "INFO"
    assert level_of(world, "barnabas.broker.dispatch") == "WARN"


@pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
def test_every_level_of_kafka_is_one(world, level):
    assert alter(world, ("root", SET, level)) == ("NONE", None)
    assert level_of(world, "root") == level


NOT_A_LEVEL = (
    "as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
)


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (
            (CLEANER, SET, "debug"),
            "INVALID_CONFIG",
            f"Cannot set the log level of {CLEANER} to debug {NOT_A_LEVEL}",
        ),
        (("no.such.logger", SET, "INFO"), "INVALID_CONFIG", "Logger no.such.logger does not exist!"),
        (("barnabas.nothing", DELETE, None), "INVALID_CONFIG", "Logger barnabas.nothing does not exist!"),
        (("asyncio", SET, "INFO"), "INVALID_CONFIG", "Logger asyncio does not exist!"),
        (
            ("root", DELETE, None),
            "INVALID_REQUEST",
            "Removing the log level of the root logger is not allowed",
        ),
        (
            (CLEANER, APPEND, "INFO"),
            "INVALID_REQUEST",
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            (CLEANER, SUBTRACT, "INFO"),
            "INVALID_REQUEST",
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        ((CLEANER, 9, "INFO"), "UNKNOWN_SERVER_ERROR", None),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words_and_nothing_changes(world, operation, code, message):
    alter(world, (CLEANER, SET, "WARN"))

    assert alter(world, (OF_KAFKA, SET, "ERROR"), operation) == (code, message)

    assert level_of(world, CLEANER) == "WARN"


def test_validation_only_changes_nothing(world):
    alter(world, (CLEANER, SET, "WARN"))

    assert alter(world, (CLEANER, SET, "ERROR"), dry=True) == ("NONE", None)
    assert level_of(world, CLEANER) == "WARN"


@pytest.mark.parametrize(
    ("name", "told", "refused"),
    [
        ("", "Broker id must not be empty", "Node id must be an integer, but it is: "),
        (
            "7",
            "Unexpected broker id, expected 1 but received 7",
            "Unexpected broker id, expected 1, but received 7",
        ),
        ("one", "Broker id must be an integer, but it is: one", "Node id must be an integer, but it is: one"),
    ],
)
def test_another_brokers_loggers_are_not_here(world, name, told, refused):
    result = described(world, name=name)

    assert (ErrorCode.of(result.error_code).name, result.error_message) == ("INVALID_REQUEST", told)
    assert alter(world, ("root", SET, "INFO"), name=name) == ("INVALID_REQUEST", refused)


def test_alter_configs_knows_no_loggers(world):
    resource = alter_configs.AlterConfigsResource(
        resource_type=LOGGER,
        resource_name="1",
        configs=[alter_configs.AlterableConfig(name="root", value="INFO")],
    )
    [answer] = world.send(alter_configs.AlterConfigsRequest(resources=[resource]), 2).responses

    assert ErrorCode.of(answer.error_code).name == "INVALID_REQUEST"
    assert answer.error_message == "Unknown resource type 8"


def test_levels_are_changed_by_those_only_who_may_change_the_cluster(make_world):
    class Denies:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.ALTER_CONFIGS

    world = make_world(authorizer=Denies())

    assert alter(world, ("root", SET, "FATAL")) == ("CLUSTER_AUTHORIZATION_FAILED", None)
    assert logging.getLogger().getEffectiveLevel() < logging.CRITICAL
