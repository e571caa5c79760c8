"""What ``barnabas explain listener`` finds: which listener each of the four paths of requests takes, and why.

The rules are those of Kafka 3.9: ``KafkaConfig.interBrokerListenerName``, ``controlPlaneListenerName``, and
``ControllerChannelManager.addNewBroker``, which looks that name up among the endpoints of the other broker.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from barnabas.admin import AsyncAdmin, ConfigResource
from barnabas.client.metadata import Broker
from barnabas.core.config import Source
from barnabas.core.errors import ConfigError, KafkaError
from barnabas.network.endpoints import (
    ADVERTISED,
    CONTROL_PLANE_NAME,
    INTER_BROKER_NAME,
    INTER_BROKER_PROTOCOL,
    LISTENERS,
    PROTOCOL_MAP,
    Endpoint,
    ListenerConfig,
)
from barnabas.operations.known_brokers import check_broker

Line = tuple[str, str]
"""A path, and what it takes."""

KEYS: Final[tuple[str, ...]] = (
    LISTENERS,
    ADVERTISED,
    PROTOCOL_MAP,
    INTER_BROKER_NAME,
    INTER_BROKER_PROTOCOL,
    CONTROL_PLANE_NAME,
)


async def of_broker(admin: AsyncAdmin, broker: int, timeout_ms: int) -> tuple[dict[str, Any], frozenset[str]]:
    """The keys above as a running broker has them, and which were set. Raises KafkaError, OperationError."""
    await check_broker(admin, broker, timeout_ms)
    resource = ConfigResource.broker(broker)
    described = (await admin.configs.describe(resource, timeout_ms=timeout_ms))[resource]
    found = {key: described[key] for key in KEYS if key in described and described[key].value is not None}
    values = {key: entry.value for key, entry in found.items()}
    return values, frozenset(key for key, entry in found.items() if entry.source is not Source.DEFAULT)


async def listener_of(admin: AsyncAdmin, broker: Broker, timeout_ms: int) -> str | None:
    """The listener by which a client reaches the broker, and its protocol; None where it may not ask."""
    try:
        listeners = ListenerConfig.parse(*await of_broker(admin, broker.node_id, timeout_ms))
    except (ConfigError, KafkaError):
        return None
    reached = (broker.host, broker.port)
    names = [str(one) for one in listeners.advertised if (one.host, one.port) == reached]
    return names[0] if names else None


def lines(config: Mapping[str, Any], explicit: AbstractSet[str]) -> list[Line]:
    """The four paths of a broker with this configuration. Raises ConfigError where it is none."""
    listeners = ListenerConfig.parse(config, explicit)
    inter = listeners.inter_broker_name
    control = listeners.control_plane_name or inter
    if config.get(INTER_BROKER_NAME) is not None:
        why_inter = f"{INTER_BROKER_NAME}={inter}"
    else:
        why_inter = f"{INTER_BROKER_NAME} is not set, so the one named as {INTER_BROKER_PROTOCOL}={inter}"
    if listeners.control_plane_name:
        why_control = f"{CONTROL_PLANE_NAME}={control}"
    else:
        why_control = f"{CONTROL_PLANE_NAME} is not set, so that of the brokers"
    advertised = {one.name: one for one in listeners.advertised}
    return [
        (
            "controller to broker",
            (
                f"{_shown(advertised[control])}: {why_control}. LeaderAndIsr, UpdateMetadata, StopReplica; "
                f"the controller looks the name {control} up among the endpoints of each broker, and one "
                "without it never becomes live"
            ),
        ),
        (
            "broker to controller",
            (
                f"{_shown(advertised[control])}: {why_control}. AlterPartition, AllocateProducerIds; "
                "ControlledShutdown"
                f" takes {inter}"
            ),
        ),
        (
            "broker to broker",
            f"{_shown(advertised[inter])}: {why_inter}. Fetch, ListOffsets, OffsetForLeaderEpoch",
        ),
        (
            "client to broker",
            (
                f"{', '.join(map(_shown, listeners.advertised))}: a client stays on the listener of its "
                "bootstrap servers,"
                " since Metadata and FindCoordinator answer with the endpoints of the listener that was asked"
            ),
        ),
    ]


def _shown(endpoint: Endpoint) -> str:
    return str(endpoint) if endpoint.host else f"{endpoint.name}://<name of this machine>:{endpoint.port}"
