"""Configurations described and altered."""

import time
from typing import Any

from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from parity.world import PATIENCE_S, World

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def _of(kind: int, name: str, *keys: str, **flags: Any) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    return DescribeConfigsRequest(resources=[wanted], **flags)


def describe_configs(world: World) -> None:
    """Topics, the broker, the defaults of all brokers, and what has no configuration."""
    world.create("configured", cleanup_policy="compact,delete", segment_ms="100000", max_message_bytes="5000")
    world.ask("topic", _of(TOPIC, "configured"), 1, 3, 4)
    world.ask("topic with synonyms", _of(TOPIC, "configured", include_synonyms=True))
    world.ask("topic with words", _of(TOPIC, "configured", include_documentation=True), 3, 4)
    world.ask(
        "two keys of a topic",
        _of(TOPIC, "configured", "cleanup.policy", "retention.ms", include_synonyms=True),
    )
    world.ask("a key that no topic has", _of(TOPIC, "configured", "nothing"))
    world.ask("no key", _no_keys())
    world.ask("unknown topic", _of(TOPIC, "configured-nowhere"))
    world.ask("bad topic", _of(TOPIC, "a b"))
    world.ask("topic without a name", _of(TOPIC, ""))
    world.ask("broker", _of(BROKER, "0", include_synonyms=True))
    world.ask("all brokers", _of(BROKER, ""))
    world.ask("another broker", _of(BROKER, "7"))
    world.ask("a broker that is no number", _of(BROKER, "zero"))
    for name in ("", "7", "zero"):
        world.ask(f"levels of logging of broker {name!r}", _of(BROKER_LOGGER, name))
    for name in ("", "x"):
        world.ask(f"metrics of clients {name!r}", _of(CLIENT_METRICS, name))
    for kind in (0, 1, 32, 77, -1):
        world.ask(f"a kind unknown, {kind}", _of(kind, "x"))
    unknown_too = _of(TOPIC, "configured", "retention.ms")
    unknown_too.resources += _of(GROUP, "x").resources
    world.ask("a topic and a kind unknown", unknown_too)
    world.in_order("order of a topic's keys", _names(world, _of(TOPIC, "configured")))
    world.in_order("order of some keys", _names(world, _of(TOPIC, "configured", *_SOME_KEYS)))
    several = _of(TOPIC, "configured", "retention.ms")
    several.resources += (
        _of(TOPIC, "configured-nowhere").resources + _of(BROKER, "0", "num.partitions").resources
    )
    world.ask("several", several)
    world.ask("none", DescribeConfigsRequest())


_SOME_KEYS = (
    *("retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas", "flush.ms", "preallocate"),
    *("segment.ms", "retention.bytes", "compression.type", "index.interval.bytes", "delete.retention.ms"),
    *("max.message.bytes", "min.cleanable.dirty.ratio", "unclean.leader.election.enable"),
)


def _names(world: World, request: DescribeConfigsRequest) -> list[str]:
    return [entry.name for entry in world.prepare(request, 4).results[0].configs]


def _no_keys() -> DescribeConfigsRequest:
    request = _of(TOPIC, "configured")
    request.resources[0].configuration_keys = []
    return request


SET, DELETE, APPEND, SUBTRACT = range(4)

_Operation = tuple[str, int, str | None]


def _altered(kind: int, name: str, *operations: _Operation) -> incremental.AlterConfigsResource:
    configs = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    return incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)


def _alter(*resources: incremental.AlterConfigsResource, dry: bool = False) -> Any:
    return incremental.IncrementalAlterConfigsRequest(resources=list(resources), validate_only=dry)


def _replaced(kind: int, name: str, dry: bool, **values: str | None) -> legacy.AlterConfigsRequest:
    configs = [
        legacy.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()
    ]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return legacy.AlterConfigsRequest(resources=[resource], validate_only=dry)


def alter_configs(world: World) -> None:
    """Settings of topics, one by one and all at once; what brokers may and may not be set to."""
    world.create("reconfigured", retention_ms="5000")
    world.create("told")
    keys = ("retention.ms", "cleanup.policy", "segment.bytes")
    for what, operations in {
        "set": [("segment.bytes", SET, "2000000")],
        "append": [("cleanup.policy", APPEND, "compact")],
        "append again": [("cleanup.policy", APPEND, "compact")],
        "subtract": [("cleanup.policy", SUBTRACT, "delete")],
        "subtract the last": [("cleanup.policy", SUBTRACT, "compact")],
        "append to none": [("cleanup.policy", APPEND, "delete")],
        "set to none": [("cleanup.policy", SET, "")],
        "delete": [("retention.ms", DELETE, None)],
        "delete what is not set": [("retention.bytes", DELETE, None)],
        "append to no list": [("retention.ms", APPEND, "5")],
        "append a bad item": [("cleanup.policy", APPEND, "burn")],
        "append a bad item behind a good one": [("cleanup.policy", APPEND, "compact,burn")],
        "append an empty item": [("cleanup.policy", APPEND, "")],
        "set with a bad item": [("cleanup.policy", SET, "delete, burn,sink")],
        "a bad item of replicas": [("leader.replication.throttled.replicas", SET, "0:0, x")],
        "a bad value with blanks": [("compression.type", SET, " x ")],
        "a bad number with blanks": [("segment.bytes", SET, " +3 ")],
        "no number with blanks": [("segment.bytes", SET, " x ")],
        "a bad fraction": [("min.cleanable.dirty.ratio", SET, "2")],
        "a bad boolean with blanks": [("preallocate", SET, " perhaps ")],
        "unknown operation": [("retention.ms", 9, "1")],
        "negative operation": [("retention.ms", -1, "1")],
        "unknown operation of an unknown key": [("nothing", 9, "1")],
        "unknown operation without a value": [("retention.ms", 9, None)],
        "unknown operation behind a good one": [("segment.bytes", SET, "1"), ("retention.ms", 9, "1")],
        "subtract from no list": [("retention.ms", SUBTRACT, "5")],
        "bad value": [("retention.ms", SET, "soon")],
        "out of range": [("retention.ms", SET, "-2")],
        "no value": [("retention.ms", SET, None), ("segment.ms", SET, None)],
        "key twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "unknown key": [("nothing", SET, "1")],
        "at odds": [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        "nothing": [],
    }.items():
        altered = world.ask(what, _alter(_altered(TOPIC, "reconfigured", *operations)), 0, 1)
        world.ask(f"{what}, dry", _alter(_altered(TOPIC, "reconfigured", *operations), dry=True), 1)
        if altered is not None and not altered.responses[0].error_code:
            _until_told(world)
        world.ask(f"after {what}", _of(TOPIC, "reconfigured", *keys, include_synonyms=True), 4)
    one = ("retention.ms", SET, "1")
    for what, resource in {
        "unknown topic": _altered(TOPIC, "altered-nowhere", one),
        "no topic": _altered(TOPIC, "", one),
        "bad topic": _altered(TOPIC, "a b", one),
        "unknown kind": _altered(77, "reconfigured", one),
        "metrics of clients": _altered(CLIENT_METRICS, "x", one),
        "group": _altered(GROUP, "x", one),
        "unknown operation of an unknown topic": _altered(TOPIC, "altered-nowhere", ("a", 9, "b")),
        "unknown operation of metrics of clients": _altered(CLIENT_METRICS, "x", ("a", 9, "b")),
    }.items():
        world.ask(what, _alter(resource), 0, 1)
    same = _altered(TOPIC, "reconfigured", one)
    world.ask("twice", _alter(same, _altered(TOPIC, "reconfigured", ("retention.ms", SET, "2"))), 1)
    world.ask("all at once", _replaced(TOPIC, "reconfigured", dry=False, max_message_bytes="5000"), 0, 1, 2)
    _until_told(world)
    world.ask("after all at once", _of(TOPIC, "reconfigured", *keys, "max.message.bytes"), 4)
    world.ask("all at once, null", _replaced(TOPIC, "reconfigured", dry=False, retention_ms=None), 2)
    world.ask("all at once, bad", _replaced(TOPIC, "reconfigured", dry=False, retention_ms="x"), 2)
    _alter_brokers(world)


def _until_told(world: World) -> None:
    """Waits until the broker knows of all that was altered so far: a controller of Kafka 4 answers before.
    Brokers hear of changes in their order, so one more is made and looked for.
    """
    key = "segment.ms"
    asked = _of(TOPIC, "told", key)
    segment_ms = str(int(world.prepare(asked, 4).results[0].configs[0].value) + 1)
    world.prepare(_alter(_altered(TOPIC, "told", (key, SET, segment_ms))), 1)
    deadline = time.monotonic() + PATIENCE_S
    while world.prepare(asked, 4).results[0].configs[0].value != segment_ms:
        assert time.monotonic() < deadline, f"{world.side!r} is not told that {key} is {segment_ms}"
        time.sleep(0.01)


_REPORTERS = "metric.reporters"


def _alter_brokers(world: World) -> None:
    for name in ("", "0", "7", "zero"):
        for what, operation in {
            "dynamic": ("log.retention.ms", SET, "100000"),
            "read only": ("log.dir", SET, "/nowhere"),
            "bad value": ("log.retention.ms", SET, "soon"),
            "unknown": ("nothing", SET, "1"),
            "throttle": ("leader.replication.throttled.rate", SET, "1"),
            "delete": ("leader.replication.throttled.rate", DELETE, None),
            "append": ("log.cleanup.policy", APPEND, "compact"),
            "append a bad item": ("log.cleanup.policy", APPEND, "burn"),
            "reporter": (_REPORTERS, SET, "org.apache.kafka.common.metrics.JmxReporter"),
            "reporter that there is not": (_REPORTERS, SET, "org.nowhere.Reporter"),
            "reporter that is none": (_REPORTERS, SET, "java.lang.String"),
            "append a reporter that there is not": (_REPORTERS, APPEND, "org.nowhere.Reporter"),
            "no reporter": (_REPORTERS, SET, ""),
            "unknown operation": ("log.retention.ms", 9, "1"),
        }.items():
            world.ask(f"{what} of broker {name}", _alter(_altered(BROKER, name, operation), dry=True), 1)
        world.ask(
            f"all of broker {name} at once", _replaced(BROKER, name, dry=True, log_retention_ms="1000"), 2
        )


def broker_loggers(world: World) -> None:
    """Levels of loggers (KIP-412).
    The root alone is a logger on both sides, whatever writes the genuine one's lines.
    """
    root = _of(BROKER_LOGGER, "0", "root", include_synonyms=True)
    for level in ("TRACE", "DEBUG", "INFO", "ERROR", "FATAL", "WARN"):
        world.ask(f"to {level}", _alter(_altered(BROKER_LOGGER, "0", ("root", SET, level))), 0, 1)
        world.ask(f"is {level}", root, 1, 3, 4)
    world.ask("a logger that there is not", _of(BROKER_LOGGER, "0", "no.such.logger"))
    for what, operations in {
        "small letters": [("root", SET, "debug")],
        "no level": [("root", SET, "LOUD")],
        "empty level": [("root", SET, "")],
        "null level": [("root", SET, None)],
        "unknown": [("no.such.logger", SET, "INFO")],
        "unknown without a level": [("no.such.logger", DELETE, None)],
        "no name": [("", SET, "INFO")],
        "unknown and no level": [("no.such.logger", SET, "LOUD")],
        "root without a level": [("root", DELETE, None)],
        "append": [("root", APPEND, "INFO")],
        "subtract": [("root", SUBTRACT, "INFO")],
        "unknown operation": [("root", 9, "INFO")],
        "twice": [("root", SET, "INFO"), ("root", SET, "ERROR")],
        "good and bad": [("root", SET, "ERROR"), ("no.such.logger", SET, "INFO")],
        "nothing": [],
    }.items():
        world.ask(what, _alter(_altered(BROKER_LOGGER, "0", *operations)), 0, 1)
        world.ask(f"{what}, dry", _alter(_altered(BROKER_LOGGER, "0", *operations), dry=True), 1)
        world.ask(f"after {what}", root, 4)
    world.ask("dry", _alter(_altered(BROKER_LOGGER, "0", ("root", SET, "ERROR")), dry=True), 1)
    world.ask("after dry", root, 4)
    for name in ("", "7", "zero", " 0", "+0", "99999999999"):
        world.ask(f"of broker {name!r}", _alter(_altered(BROKER_LOGGER, name, ("root", SET, "WARN"))), 1)
    world.ask("all at once", _replaced(BROKER_LOGGER, "0", dry=False, root="INFO"), 0, 2)
