"""Subscriptions of client metrics: their keys, and the clients of each (``ClientMetricsConfigs``, KIP-714).

A subscription has three keys. `metrics` are prefixes of the names that a client is to push (``*`` for all),
`interval.ms` says how often, and `match` which clients it is for: ``selector=expression`` pairs, all of which
have to hold. Expressions are RE2's, whose matching takes linear time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.core.config import Config, ConfigKey, ConfigTable, ConfigType
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.regular_expressions import BadExpressionError, compiled

METRICS: Final = "metrics"
INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"

ALL_METRICS: Final = "*"
DEFAULT_INTERVAL_MS: Final = 5 * 60 * 1000
INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000

SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
"""What `match` can look at."""

# The order in which Kafka answers.
CLIENT_METRICS_CONFIG: Final = ConfigTable(
    (
        ConfigKey(INTERVAL_MS, ConfigType.INT, DEFAULT_INTERVAL_MS, "Metrics push interval in milliseconds"),
        ConfigKey(MATCH, ConfigType.LIST, [], "Client match criteria"),
        ConfigKey(METRICS, ConfigType.LIST, [], "Telemetry metric name prefix list"),
    )
)


def validated(name: str, values: Mapping[str, str]) -> Config:
    """The settings of a subscription (``ClientMetricsConfigs.validate``).

    Raises KafkaError with the words of Kafka 4.4.
    """
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in CLIENT_METRICS_CONFIG:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    try:
        config = CLIENT_METRICS_CONFIG.parse(values)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    for key in (METRICS, MATCH):
        if not all(config[key]):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{key}' values must not be empty.")
    interval_ms = config[INTERVAL_MS]
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {INTERVAL_MS_MIN} and "
            f"{INTERVAL_MS_MAX} (1 hour)",
        )
    match_patterns(config[MATCH])
    return config


def match_patterns(criteria: Sequence[str]) -> dict[str, Any]:
    """The compiled expression of each selector; the last counts where one is named twice.

    Raises KafkaError INVALID_CONFIG for what is no criterion (``parseMatchingPatterns``).
    """
    patterns = {}
    for criterion in criteria:
        selector, *expressions = (part.strip() for part in criterion.split("="))
        # An expression cannot hold an equals sign, as in Kafka, nor be empty.
        if selector not in SELECTORS or len(expressions) != 1 or not expressions[0]:
            raise _illegal(criterion)
        try:
            patterns[selector] = compiled(expressions[0])
        except BadExpressionError as error:
            raise _illegal(criterion) from error
    return patterns


def _illegal(criterion: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {criterion}")
