"""Configurations described."""

from typing import Any

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
