"""`DynamicBrokerConfig`: the broker's configuration with what is set while brokers run (KIP-226).

Three layers, the earlier wins: values of this broker (``/config/brokers/<id>``), values of all brokers
(``/config/brokers/<default>``), and what the broker was started with. Only the keys whose scope says so may
be changed; others in a znode are left out, with a line in the log. What a part of the broker cannot take over
it says by the check that it gives to `add_reconfigurable`: then all stays as it is.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.core.broker_config import check_broker_keys
from barnabas.core.config import Config, ConfigKey, ConfigType, Scope, Source, at_least, parse_value
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog
from barnabas.core.password_encoder import PasswordEncoder

_log = EventLog("core.dynamic_broker_config")

RATES: Final = {
    name: ConfigKey(name, ConfigType.LONG, 2**63 - 1, "Bytes a second for throttled replicas.", at_least(0))
    for name in (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
"""Keys that exist only while brokers run (``QuotaConfig``)."""

_ONLY_OF_LISTENERS: Final = {
    *(f"ssl.keystore.{part}" for part in ("type", "location", "password", "key", "certificate.chain")),
    *(f"ssl.truststore.{part}" for part in ("type", "location", "password", "certificates")),
    "ssl.key.password",
}
"""Keys that are dynamic for single listeners only (``SslConfigs.RECONFIGURABLE_CONFIGS``)."""

_REPORTERS: Final = "metric.reporters"
"""The one key with names of classes that may change while brokers run and is not refused anyway."""
_JMX_REPORTER: Final = "org.apache.kafka.common.metrics.JmxReporter"

_THREADS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)


class DynamicBrokerConfig:
    """One broker's configuration over its life; `current` is replaced by each update."""

    def __init__(self, static: Config, encoders: Sequence[PasswordEncoder] = ()) -> None:
        """The first of the encoders encrypts passwords, each may open what is in the store. Without one no
        password can be set.
        """
        self._encoders = encoders
        self._static = static
        self._of_all: Mapping[str, str] = {}
        self._of_broker: Mapping[str, str] = {}
        self._reconfigurables: list[Callable[[Config], None]] = []
        self._of_files: list[Callable[[Config], None]] = []
        self.current = static

    def add_reconfigurable(self, validate: Callable[[Config], None]) -> None:
        """`validate` raises ConfigError for a configuration that cannot be taken over
        (``BrokerReconfigurable``).
        """
        self._reconfigurables.append(validate)

    def add_reloaded_files(self, validate: Callable[[Config], None]) -> None:
        """`validate` raises ConfigError where files that the configuration names are others than before and
        cannot be taken over. Each change that somebody asks of this broker is refused then, but one that
        other brokers have taken is not (``DynamicBrokerConfig.reloadUpdatedFilesWithoutConfigChange``).
        """
        self._of_files.append(validate)

    def use_static(self, static: Config) -> None:
        """The broker was started with this, from now on; what was set while it runs stays."""
        self._static = static
        self.current = self._with(self._of_broker, per_broker=True)

    def validate(self, values: Mapping[str, str], *, per_broker: bool) -> None:
        """Raises ConfigError where these may not be set, for this broker or for all."""
        self._check(values, per_broker=per_broker)
        wanted = self._with(values, per_broker=per_broker)
        _check_threads(self.current, wanted)
        _check_cleaner_threads(self.current, wanted)
        self._check_reporters(wanted)
        self._validate_reconfiguration(wanted)

    def validate_files(self, values: Mapping[str, str]) -> None:
        """Raises ConfigError where this broker's files are others now and cannot be taken over, though these
        values name the same ones.
        """
        wanted = self._with(values, per_broker=True)
        for validate in self._of_files:
            validate(wanted)

    def _with(self, values: Mapping[str, str], *, per_broker: bool) -> Config:
        of_all = self._of_all if per_broker else values
        of_broker = values if per_broker else self._of_broker
        with_all = self._static.with_values(of_all, Source.DYNAMIC_DEFAULT_BROKER)
        return with_all.with_values(of_broker, Source.DYNAMIC_BROKER)

    def _check_reporters(self, wanted: Config) -> None:
        """``DynamicMetricsReporters.validateReconfiguration`` of a broker with Kafka's own classes only.

        Kafka's brokers read the value too, and could not load a class that is nowhere. Which classes they
        have beside Kafka's cannot be seen from here, but for those that this broker's file or an earlier
        setting names.
        """
        known = {_JMX_REPORTER, *self._static[_REPORTERS], *self.current[_REPORTERS]}
        for name in wanted[_REPORTERS]:
            if name and name not in known:
                raise ConfigError(
                    f"Invalid value {name} for configuration {_REPORTERS}: Class {name} could not be found."
                )

    def _validate_reconfiguration(self, wanted: Config) -> None:
        check_broker_keys(wanted)
        for validate in self._reconfigurables:
            validate(wanted)

    def _check(self, values: Mapping[str, str], *, per_broker: bool) -> None:
        table = self._static.table
        fixed = [name for name in values if name in table and table[name].scope is Scope.READ_ONLY]
        if fixed:
            raise ConfigError(f"Cannot update these configs dynamically: Set({', '.join(fixed)})")
        of_listeners = [name for name in values if name in _ONLY_OF_LISTENERS]
        if of_listeners:
            raise ConfigError(
                "These security configs can be dynamically updated only per-listener using the listener "
                f"prefix: Set({', '.join(of_listeners)})"
            )
        keys = {name: table.find(name) or RATES.get(name) for name in values}
        secrets = [name for name in values if self._is_password(name)]
        if secrets and not self._encoders:
            raise ConfigError(
                "Passwords cannot be set dynamically without password.encoder.secret, with which they are "
                f"encrypted: Set({', '.join(secrets)})"
            )
        for name, key in keys.items():
            if key is not None:
                parse_value(key, values[name])
        of_broker = [name for name, key in keys.items() if key is not None and key.scope is Scope.PER_BROKER]
        if of_broker and not per_broker:
            raise ConfigError(
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"Set({', '.join(of_broker)})"
            )

    def _is_password(self, name: str) -> bool:
        key = self._static.table.find(name)
        return key is not None and key.type is ConfigType.PASSWORD

    def encoded(self, values: Mapping[str, str]) -> dict[str, str]:
        """These settings as they lie in the store (``toPersistentProps``)."""
        return {
            name: self._encoders[0].encode(value) if self._is_password(name) else value
            for name, value in values.items()
        }

    def decoded(self, values: Mapping[str, str]) -> dict[str, str]:
        """What lies in the store, with its passwords in clear (``fromPersistentProps``). One that no secret
        opens is left out, with a line in the log.
        """
        found = {}
        for name, value in values.items():
            try:
                found[name] = self._opened(value) if self._is_password(name) else value
            except ConfigError as error:
                _log.error("config.ignored", key=name, reason=error)
        return found

    def _opened(self, value: str) -> str:
        """Raises ConfigError."""
        if not self._encoders:
            raise ConfigError("it is encrypted, and password.encoder.secret is not set")
        *others, last = self._encoders
        for encoder in others:
            with contextlib.suppress(ConfigError):
                return encoder.decode(value)
        return last.decode(value)

    def update(self, stored: Mapping[str, str], *, per_broker: bool) -> frozenset[str]:
        """Takes over what is set now, for this broker or for all; the keys whose values changed by that.

        Where a part of the broker cannot take them over, all keeps the values that it has, and the log says
        why.
        """
        values = self.decoded(stored)
        usable = {name: value for name, value in values.items() if self._is_usable(name, value, per_broker)}
        wanted = self._with(usable, per_broker=per_broker)
        try:
            self._validate_reconfiguration(wanted)
        except ConfigError as error:
            _log.error("config.not_applied", keys=sorted(usable), reason=error)
            return frozenset()
        if per_broker:
            self._of_broker = usable
        else:
            self._of_all = usable
        before, self.current = self.current, wanted
        names = {*before, *wanted}
        return frozenset(name for name in names if wanted.get(name) != before.get(name))

    @property
    def rates(self) -> dict[str, int]:
        """Bytes a second of throttled replicas, by key, as far as they are set."""
        given = {**self._of_all, **self._of_broker}
        return {name: int(parse_value(key, given[name])) for name, key in RATES.items() if name in given}

    def _is_usable(self, name: str, value: str, per_broker: bool) -> bool:
        try:
            self._check({name: value}, per_broker=per_broker)
        except ConfigError as error:
            _log.error("config.ignored", key=name, reason=error)
            return False
        return True

    def __repr__(self) -> str:
        return f"<DynamicBrokerConfig of_broker={sorted(self._of_broker)} of_all={sorted(self._of_all)}>"


def _check_threads(current: Config, wanted: Config) -> None:
    """``DynamicThreadPool.validateReconfiguration``: pools change by steps."""
    for name in _THREADS:
        old, new = current[name], wanted[name]
        if new == old:
            continue
        failed = f"Dynamic thread count update validation failed for {name}={new}"
        if new <= 0:
            raise ConfigError(f"{failed}, value should be at least 1")
        if new < old // 2:
            raise ConfigError(f"{failed}, value should be at least half the current value {old}")
        if new > old * 2:
            raise ConfigError(f"{failed}, value should not be greater than double the current value {old}")


def _check_cleaner_threads(current: Config, wanted: Config) -> None:
    """``LogCleaner.validateReconfiguration``."""
    old, new = current["log.cleaner.threads"], wanted["log.cleaner.threads"]
    if new < old // 2:
        raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if new > old * 2:
        raise ConfigError(
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )
