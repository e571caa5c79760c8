"""Configurations described and altered."""

from typing import Any

from barnabas.protocol.messages import alter_configs as legacy
from barnabas.protocol.messages import incremental_alter_configs as incremental
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from parity.world import World

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS = 2, 4, 8, 16


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
    world.ask("levels of logging", _of(BROKER_LOGGER, "7"))
    world.ask("metrics of clients", _of(CLIENT_METRICS, "x"))
    world.ask("a kind unknown", _of(77, "x"))
    several = _of(TOPIC, "configured", "retention.ms")
    several.resources += (
        _of(TOPIC, "configured-nowhere").resources + _of(BROKER, "0", "num.partitions").resources
    )
    world.ask("several", several)
    world.ask("none", DescribeConfigsRequest())


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
        "subtract from no list": [("retention.ms", SUBTRACT, "5")],
        "bad value": [("retention.ms", SET, "soon")],
        "out of range": [("retention.ms", SET, "-2")],
        "no value": [("retention.ms", SET, None), ("segment.ms", SET, None)],
        "key twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
        "unknown key": [("nothing", SET, "1")],
        "at odds": [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        "nothing": [],
    }.items():
        world.ask(what, _alter(_altered(TOPIC, "reconfigured", *operations)), 0, 1)
        world.ask(f"{what}, dry", _alter(_altered(TOPIC, "reconfigured", *operations), dry=True), 1)
        world.ask(f"after {what}", _of(TOPIC, "reconfigured", *keys, include_synonyms=True), 4)
    one = ("retention.ms", SET, "1")
    for what, resource in {
        "unknown topic": _altered(TOPIC, "altered-nowhere", one),
        "no topic": _altered(TOPIC, "", one),
        "bad topic": _altered(TOPIC, "a b", one),
        "unknown kind": _altered(77, "reconfigured", one),
        "metrics of clients": _altered(CLIENT_METRICS, "x", one),
    }.items():
        world.ask(what, _alter(resource), 0, 1)
    same = _altered(TOPIC, "reconfigured", one)
    world.ask("twice", _alter(same, _altered(TOPIC, "reconfigured", ("retention.ms", SET, "2"))), 1)
    world.ask("all at once", _replaced(TOPIC, "reconfigured", dry=False, max_message_bytes="5000"), 0, 1, 2)
    world.ask("after all at once", _of(TOPIC, "reconfigured", *keys, "max.message.bytes"), 4)
    world.ask("all at once, null", _replaced(TOPIC, "reconfigured", dry=False, retention_ms=None), 2)
    world.ask("all at once, bad", _replaced(TOPIC, "reconfigured", dry=False, retention_ms="x"), 2)
    _alter_brokers(world)


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
            "unknown operation": ("log.retention.ms", 9, "1"),
        }.items():
            world.ask(f"{what} of broker {name}", _alter(_altered(BROKER, name, operation), dry=True), 1)
        world.ask(
            f"all of broker {name} at once", _replaced(BROKER, name, dry=True, log_retention_ms="1000"), 2
        )
