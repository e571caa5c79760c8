"""Configuration of topics and brokers in the store, and how every broker learns of changes.

Theory of operation
-------------------
The settings of an entity lie in one znode (``/config/topics/<topic>``). A broker that changes them writes a
notice under /config/changes as well, and every broker reads what the notice names (`ChangeNotices`,
``ZkConfigManager``).

A topic that is new has settings but no notice. So `ConfigStore.ensure` reads the settings of the topics that
a LeaderAndIsr request names before their logs are opened, and `topic` answers from what was read.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, TypeAlias

from barnabas.cluster.metadata.change_notices import ChangeNotices
from barnabas.cluster.metadata.quota_nodes import WITH_QUOTAS, clean_quota_nodes
from barnabas.cluster.metadata.registration import ensure_paths
from barnabas.cluster.store import znodes
from barnabas.cluster.store.absent import children_if_there, delete_if_there
from barnabas.cluster.store.contract import InvalidPathError, MetadataStore, NodeExistsError, NoNodeError
from barnabas.cluster.store.payload import UnreadableZnodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.cluster.store.znodes import ConfigChange
from barnabas.core import client_metrics_config, group_config
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.core.topic_config import TOPIC_CONFIG, topic_config

_events: Final = EventLog("cluster.configs")

CLIENT_METRICS: Final = "client-metrics"
"""The type of subscriptions of client metrics (``ConfigType.CLIENT_METRICS``)."""
GROUPS: Final = "groups"
"""The type of groups (``ConfigType.GROUP``)."""

_CHECKS: Final[Mapping[str, Callable[[str, Mapping[str, str]], object]]] = {
    CLIENT_METRICS: client_metrics_config.validated,
    GROUPS: lambda _name, values: group_config.parsed(values),
}
"""The types of which every broker has all settings in memory, and what raises KafkaError for bad ones."""

OnConfigChange: TypeAlias = Callable[[ConfigChange, Mapping[str, str]], object]
"""Is called with an entity whose settings changed, and all settings that it has now."""

_NONE: Final[Mapping[str, str]] = {}
_UNREADABLE: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""What counts for a topic whose settings are unreadable: they may say that its records are kept for years."""


class ConfigStore:
    """Reads, writes and watches configuration; keeps what it read of topics."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._notices = ChangeNotices(
            store,
            clock,
            f"{znodes.CONFIG_CHANGES}/config_change_",
            decode=znodes.decode_config_change,
            apply=self._apply,
            on_notice=self._read_notices,
        )
        self._topics: dict[str, Mapping[str, str]] = {}
        self._in_memory: dict[str, dict[str, Mapping[str, str]]] = {each: {} for each in _CHECKS}
        self._client_metrics_version = 0
        self._on_change: OnConfigChange = lambda _change, _values: None
        self._reading = False
        self._read_again = False

    # ---------------------------------------------------------------------------- reading and writing

    @steps
    def read(self, entity_type: str, entity: str) -> Steps[dict[str, str]]:
        """The settings of an entity (its name as `znodes.sanitize` gives it); none where its znode is not
        there or is unreadable.
        """
        path = znodes.config_path(entity_type, entity)
        try:
            data, _ = yield self._store.get(path)
        except (NoNodeError, InvalidPathError):
            return {}  # the name of a znode cannot be `.`: nothing was ever kept for it
        return readable(self._store, path, znodes.decode_config, data) or {}

    def entities(self, entity_type: str) -> Pending[list[str]]:
        """The entities of a type that have settings, as `znodes.sanitize` gives their names."""
        return children_if_there(self._store, f"/config/{entity_type}")

    @steps
    def write(self, entity_type: str, entity: str, values: Mapping[str, str]) -> Steps[None]:
        """Replaces the settings of an entity, and writes the notice that every broker reads."""
        if entity_type in _CHECKS and not values:
            yield delete_if_there(self._store, znodes.config_path(entity_type, entity))
        elif (
            values
            or entity_type not in WITH_QUOTAS
            or not (yield clean_quota_nodes(self._store, entity_type, entity))
        ):
            yield self._put(entity_type, entity, values)
        if entity_type in _CHECKS:
            self._keep(entity_type, entity, values)
        elif entity_type == "topics":
            # A client that asks this broker next sees what it has changed.
            self._topics[znodes.desanitize(entity)] = dict(values)
        yield self._notices.write(znodes.encode_config_change(ConfigChange(entity_type, entity)))

    @steps
    def _put(self, entity_type: str, entity: str, values: Mapping[str, str]) -> Steps[None]:
        path, payload = znodes.config_path(entity_type, entity), znodes.encode_config(values)
        try:
            yield self._store.set(path, payload)
        except NoNodeError:
            yield ensure_paths(self._store, znodes.ancestors(path))
            yield self._create_or_set(path, payload)

    @steps
    def _create_or_set(self, path: str, payload: bytes) -> Steps[None]:
        """Makes it with its data at once: nobody may read it empty."""
        try:
            yield self._store.create(path, payload)
        except NodeExistsError:
            # Another broker made it meanwhile; the last writer wins, as everywhere in configuration.
            yield self._store.set(path, payload)

    # --------------------------------------------------------------------------------------- watching

    @steps
    def start(self, on_change: OnConfigChange) -> Steps[None]:
        """Reads the settings of all topics; `on_change` is called with every later change.

        The watch comes first: what is written while the topics are read would else be seen at the next start
        only.
        """
        self._on_change = on_change
        yield self._notices.watch()
        self._store.listen(self)
        names = yield self.entities("topics")
        yield self.ensure(znodes.desanitize(name) for name in names)
        for entity_type in _CHECKS:
            for entity in (yield self.entities(entity_type)):
                values = yield self.read(entity_type, entity)
                self._keep(entity_type, entity, values)

    @property
    def client_metrics(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of all subscriptions of client metrics, by name."""
        return self._in_memory[CLIENT_METRICS]

    @property
    def client_metrics_version(self) -> int:
        """Grows whenever one of them was changed."""
        return self._client_metrics_version

    @property
    def groups(self) -> Mapping[str, Mapping[str, str]]:
        """The own settings of all groups that have some, by name."""
        return self._in_memory[GROUPS]

    def _keep(self, entity_type: str, entity: str, values: Mapping[str, str]) -> None:
        """A subscription without settings is none (``ClientMetricsManager.updateSubscription``); a group
        without has those of the broker.
        """
        name = znodes.desanitize(entity)
        try:
            _CHECKS[entity_type](name, values)
        except KafkaError as error:
            # Somebody else wrote it: it counts as one without settings.
            _events.warning("config_not_valid", type=entity_type, name=name, error=error)
            values = {}
        if values:
            self._in_memory[entity_type][name] = dict(values)
        else:
            self._in_memory[entity_type].pop(name, None)
        self._client_metrics_version += entity_type == CLIENT_METRICS

    def topic(self, topic: str) -> Mapping[str, str]:
        """A topic's own settings, as far as they were read (see `ensure`)."""
        return self._topics.get(topic, _NONE)

    @property
    def topics(self) -> Mapping[str, Mapping[str, str]]:
        """The own settings of all topics that were read."""
        return self._topics

    @steps
    def ensure(self, topics: Iterable[str]) -> Steps[None]:
        """Reads the settings of topics that were not read before."""
        missing = [topic for topic in dict.fromkeys(topics) if topic not in self._topics]
        reads = [self._read_topic(topic) for topic in missing]
        yield gather(reads)
        for read in reads:
            read.result()

    @steps
    def _read_topic(self, topic: str) -> Steps[None]:
        # Kept as soon as it is read: once all are, a notice may have brought newer settings of this one.
        self._topics[topic] = yield self._topic_settings(znodes.sanitize(topic))

    @steps
    def _topic_settings(self, entity: str) -> Steps[Mapping[str, str]]:
        """The settings that count for a topic."""
        path = znodes.config_path("topics", entity)
        try:
            data, _ = yield self._store.get(path)
        except NoNodeError:
            return _NONE
        settings = readable(self._store, path, _decode_topic_config, data)
        return _UNREADABLE if settings is None else settings

    def forget(self, topics: Iterable[str]) -> None:
        """Topics are deleted: one of the same name is another topic."""
        for topic in topics:
            self._topics.pop(topic, None)

    def session_expired(self) -> Pending[None]:
        """Nothing has to happen before the next session."""
        return Pending.of(None)

    def session_renewed(self) -> None:
        """The watch ended with the session: reads what came meanwhile, and leaves a new one."""
        self._read_notices()

    def _read_notices(self) -> None:
        if self._reading:
            self._read_again = True
            return
        self._reading, self._read_again = True, False
        self._notices.read().when_done(self._notices_read)

    def _notices_read(self, done: Pending[None]) -> None:
        self._reading = False
        if done.error is not None:
            _events.error("config_notices_not_read", error=done.error)
        if self._read_again:
            self._read_notices()

    @steps
    def _apply(self, change: ConfigChange) -> Steps[None]:
        if change.entity_type == "topics":
            values = yield self._topic_settings(change.entity)
            self._topics[znodes.desanitize(change.entity)] = values
        else:
            values = yield self.read(change.entity_type, change.entity)
        if change.entity_type in _CHECKS:
            self._keep(change.entity_type, change.entity, values)
        _events.info("config_changed", type=change.entity_type, entity=change.entity)
        self._on_change(change, values)

    def __repr__(self) -> str:
        return f"<ConfigStore topics={len(self._topics)} {self._notices!r}>"


def check_config_size(values: Mapping[str, str]) -> None:
    """Raises KafkaError INVALID_CONFIG for settings that are more than a znode takes;
    before they are looked into.
    """
    size = sum(map(len, values)) + sum(map(len, values.values()))
    if size > znodes.BYTES_MAX or len(znodes.encode_config(values)) > znodes.BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"The configuration is larger than the {znodes.BYTES_MAX} bytes that can be stored of a "
            "resource.",
        )


def _decode_topic_config(data: bytes | None) -> dict[str, str]:
    """The settings of a topic that a log can have. Raises UnreadableZnodeError.

    As in Kafka a name that is not known counts for nothing. A value that cannot be ends Kafka's start.
    """
    settings = {name: value for name, value in znodes.decode_config(data).items() if name in TOPIC_CONFIG}
    try:
        topic_config(_topic_defaults(), settings)
    except ConfigError as error:
        raise UnreadableZnodeError(str(error)) from error
    return settings


@cache
def _topic_defaults() -> Config:
    return TOPIC_CONFIG.parse({})
