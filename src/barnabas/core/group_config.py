"""The configuration of a group (``GroupConfig``): what it sets for itself of what brokers set for all groups.

Each key has one of the broker beside it, which is its default, and two that bound it. A value outside the
bounds is refused. When the bounds are moved later, the nearest value that they allow counts.
"""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.core.config import Config, ConfigKey, ConfigTable, ConfigType, at_least
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError

SESSION_TIMEOUT_MS: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL_MS: Final = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL_MS: Final = "consumer.assignment.interval.ms"

INT: Final = ConfigType.INT

# The order in which Kafka answers. Those of share groups and of groups of Streams come with these groups.
GROUP_CONFIG: Final = ConfigTable(
    (
        ConfigKey(
            SESSION_TIMEOUT_MS,
            INT,
            None,
            "How long a member may be silent before it is removed.",
            at_least(1),
            synonym="group.consumer.session.timeout.ms",
        ),
        ConfigKey(
            ASSIGNMENT_INTERVAL_MS,
            INT,
            None,
            "The shortest time between two assignments of the group (KIP-1263).",
            at_least(0),
            synonym="group.consumer.assignment.interval.ms",
        ),
        ConfigKey(
            HEARTBEAT_INTERVAL_MS,
            INT,
            None,
            "How often a member speaks.",
            at_least(1),
            synonym="group.consumer.heartbeat.interval.ms",
        ),
    )
)


def bounds(key: str, broker: Mapping[str, Any]) -> tuple[int, int]:
    """The least and the greatest value that a broker with this configuration allows a group."""
    kind, _, name = key.partition(".")
    return broker[f"group.{kind}.min.{name}"], broker[f"group.{kind}.max.{name}"]


def parsed(values: Mapping[str, str]) -> Config:
    """The settings of a group, their bounds aside. Raises KafkaError with the words of Kafka 4.4."""
    for key in values:
        if key not in GROUP_CONFIG:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key}")
    try:
        return GROUP_CONFIG.parse(values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def validate(name: str, values: Mapping[str, str], broker: Mapping[str, Any]) -> None:
    """Raises KafkaError, with the words of Kafka 4.4, where a group of this name may not have these settings
    on a broker with this configuration (``GroupConfig.validate``).
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    own = parsed(values)
    for key in GROUP_CONFIG:
        low, high = bounds(key, broker)
        if own[key] is not None and not low <= own[key] <= high:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{key} must be in the range {low} to {high} inclusive."
            )
    session_ms, heartbeat_ms = (
        broker[GROUP_CONFIG[key].synonym or ""] if own[key] is None else own[key]
        for key in (SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS)
    )
    if session_ms <= heartbeat_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"{SESSION_TIMEOUT_MS} must be greater than {HEARTBEAT_INTERVAL_MS}"
        )
