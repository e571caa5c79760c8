"""`ConfigAdmin`: changes the configuration of topics and brokers in the store (``ConfigAdminManager``,
``ZkAdminManager``).

What a resource is set to is judged here, with Kafka's words. Brokers, this one among them, hear of the change
by the notice that `ConfigStore.write` leaves.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.configs import CLIENT_METRICS, GROUPS, ConfigStore, check_config_size
from barnabas.cluster.store import znodes
from barnabas.core import group_config
from barnabas.core.client_metrics_config import CLIENT_METRICS_CONFIG, validated
from barnabas.core.config import Config, ConfigTable, ConfigType, config_text
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import broker_id_of
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.topic_config import TOPIC_CONFIG, topic_config, topic_defaults

_events: Final = EventLog("cluster.configs")


class OpType(IntEnum):
    """What an incremental change does to a key, numbered as on the wire (``ConfigOp.OpType``)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_KINDS: Final = frozenset(OpType)


class ConfigOp(NamedTuple):
    """One incremental change."""

    name: str
    kind: int
    """An `OpType`, or a number that none has."""
    value: str


Change: TypeAlias = Mapping[str, str] | Sequence[ConfigOp]
"""All settings that a resource is to have, or what is to happen to some of them."""


def check_broker_id(name: str, broker_id: int) -> None:
    """Raises KafkaError with Kafka's words for a name that is not the id of this broker."""
    named = broker_id_of(name)
    if named is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if named != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {broker_id}, but received {name}"
        )


class ConfigAdmin:
    """Changes settings."""

    def __init__(
        self, broker_id: int, store: ConfigStore, cache: MetadataCache, dynamic: DynamicBrokerConfig
    ) -> None:
        self._broker_id = broker_id
        self._store = store
        self._cache = cache
        self._dynamic = dynamic

    @steps
    def alter_topic(self, topic: str, change: Change, *, validate_only: bool) -> Steps[None]:
        """Changes the settings of a topic. Raises KafkaError with Kafka's words."""
        if not topic:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        _check_kinds(change)
        entity = znodes.sanitize(topic)
        values = yield self._values("topics", entity, change, TOPIC_CONFIG)
        if topic not in self._cache:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
        try:
            _validate_topic(self._dynamic.current, values)
        except ConfigError as error:
            text = str(error)
            if text.startswith("Invalid value"):
                text = f"Invalid config value for resource ConfigResource(type=TOPIC, name='{topic}'): {text}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text) from error
        yield self._write("topics", entity, values, validate_only=validate_only)

    @steps
    def alter_broker(self, name: str, change: Change, *, validate_only: bool) -> Steps[None]:
        """Changes the settings of this broker, or of all with an empty name.
        Raises KafkaError with Kafka's words.
        """
        if name:
            check_broker_id(name, self._broker_id)
        entity = str(self._broker_id) if name else znodes.DEFAULT_ENTITY
        values = yield self._values("brokers", entity, change, self._dynamic.current.table)
        try:
            self._dynamic.validate(values, per_broker=bool(name))
        except ConfigError as error:
            # KAFKA-13609: INVALID_CONFIG would be the right code.
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        try:
            if name:
                self._dynamic.validate_files(values)
        except ConfigError as error:
            # Kafka looks at the files later, where it has the right code.
            text = f"Invalid config value for resource ConfigResource(type=BROKER, name='{name}'): {error}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, text) from error
        yield self._write("brokers", entity, self._dynamic.encoded(values), validate_only=validate_only)

    @steps
    def alter_client_metrics(self, name: str, change: Change, *, validate_only: bool) -> Steps[None]:
        """Changes a subscription of client metrics; one without settings is deleted.
        Raises KafkaError with the words of Kafka 4.4.
        """
        # Kafka's controller does not know that two of these keys are lists.
        _check_no_list(change)
        entity = znodes.sanitize(name)
        if not name:
            validated(name, {})
        values = yield self._values(CLIENT_METRICS, entity, change, CLIENT_METRICS_CONFIG)
        validated(name, values)
        yield self._write(CLIENT_METRICS, entity, values, validate_only=validate_only)

    @steps
    def alter_group(self, name: str, change: Change, *, validate_only: bool) -> Steps[None]:
        """Changes the own settings of a group, which need not exist. Raises KafkaError with the words of
        Kafka 4.4.
        """
        broker = self._dynamic.current
        if not name:
            group_config.validate(name, {}, broker)
        _check_kinds(change)
        _check_no_list(change)
        entity = znodes.sanitize(name)
        values = yield self._values(GROUPS, entity, change, group_config.GROUP_CONFIG)
        group_config.validate(name, values, broker)
        yield self._write(GROUPS, entity, values, validate_only=validate_only)

    @steps
    def _values(
        self, entity_type: str, entity: str, change: Change, table: ConfigTable
    ) -> Steps[dict[str, str]]:
        if isinstance(change, Mapping):
            values = dict(change)
        else:
            values = yield self._store.read(entity_type, entity)
            if entity_type == "brokers":
                values = self._dynamic.decoded(values)
            for operation in change:
                _apply(operation, values, table)
        check_config_size(values)
        return values

    def _write(
        self, entity_type: str, entity: str, values: Mapping[str, str], *, validate_only: bool
    ) -> Pending[None]:
        if validate_only:
            return Pending.of(None)
        _events.info("config_written", type=entity_type, entity=entity, keys=sorted(values))
        return self._store.write(entity_type, entity, values)

    def __repr__(self) -> str:
        return f"<ConfigAdmin of {self._broker_id}>"


def _check_kinds(change: Change) -> None:
    """Raises what Kafka's broker answers where it fails over an operation that there is not."""
    if not isinstance(change, Mapping) and any(each.kind not in _KINDS for each in change):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _check_no_list(change: Change) -> None:
    """Raises KafkaError, with the words of Kafka 4.4, for what adds to a list or takes from one."""
    for operation in () if isinstance(change, Mapping) else change:
        if operation.kind in (OpType.APPEND, OpType.SUBTRACT):
            verb = OpType(operation.kind).name
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Can't {verb} to key {operation.name} because its type is not LIST.",
            )


def _validate_topic(broker: Config, values: Mapping[str, str]) -> None:
    topic_config(topic_defaults(broker), values)


def _apply(operation: ConfigOp, values: dict[str, str], table: ConfigTable) -> None:
    """``prepareIncrementalConfigs``: what one operation makes of the settings."""
    name, value = operation.name, operation.value
    if operation.kind == OpType.SET:
        values[name] = value
        return
    if operation.kind == OpType.DELETE:
        values.pop(name, None)
        return
    if operation.kind not in _KINDS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {operation.kind}")
    key = table.get(name)
    if key is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if key.type is not ConfigType.LIST:
        verb = OpType(operation.kind).name.lower()
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Config value {verb} is not allowed for config key: {name}"
        )
    old = values.get(name, config_text(key, key.default)) or ""
    # In linear time: a list may have a hundred thousand items, and so may the change.
    if operation.kind == OpType.APPEND:
        items = old.split(",") if old else []
        known = set(items)
        items += [item for item in value.split(",") if item not in known]
    else:
        items = []
        taken = Counter(value.split(","))
        for item in old.split(","):
            if taken[item] > 0:
                taken[item] -= 1
            else:
                items.append(item)
    values[name] = ",".join(items)
