"""`DynamicBrokerConfig`: the broker's configuration with what is set while brokers run (KIP-226).

Three layers, the earlier wins: values of this broker (``/config/brokers/<id>``), values of all brokers
(``/config/brokers/<default>``), and what the broker was started with. Only the keys whose scope says so may be changed;
others in a znode are left out, with a line in the log.
"""

from collections.abc import Mapping
from typing import Final

from barnabas.core.config import Config, ConfigKey, ConfigType, Scope, Source, at_least, parse_value
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventLog

_log = EventLog("core.dynamic_broker_config")

_RATES: Final = {
    name: ConfigKey(name, ConfigType.LONG, 2**63 - 1, "Bytes a second for throttled replicas.", at_least(0))
    for name in (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
}
"""Keys that exist only while brokers run (``QuotaConfig``)."""


class DynamicBrokerConfig:
    """One broker's configuration over its life; `current` is replaced by each update."""

    def __init__(self, static: Config) -> None:
        self._static = static
        self._of_all: dict[str, str] = {}
        self._of_broker: dict[str, str] = {}
        self.current = static

    def validate(self, values: Mapping[str, str], *, per_broker: bool) -> None:
        """Raises ConfigError where these may not be set, for this broker or for all."""
        table = self._static.table
        fixed = [name for name in values if name in table and table[name].scope is Scope.READ_ONLY]
        if fixed:
            raise ConfigError(f"Cannot update these configs dynamically: Set({', '.join(fixed)})")
        for name, value in values.items():
            key = table.get(name) or _RATES.get(name)
            if key is not None:
                parse_value(key, value)
        of_broker = [name for name in values if name in table and table[name].scope is Scope.PER_BROKER]
        if of_broker and not per_broker:
            raise ConfigError(
                "Cannot update these configs at default cluster level, broker id must be specified: "
                f"Set({', '.join(of_broker)})"
            )

    def update(self, values: Mapping[str, str], *, per_broker: bool) -> frozenset[str]:
        """Takes over what is set now, for this broker or for all; the keys whose values changed by that."""
        usable = {name: value for name, value in values.items() if self._is_usable(name, value, per_broker)}
        if per_broker:
            self._of_broker = usable
        else:
            self._of_all = usable
        before = self.current
        of_all = self._static.with_values(self._of_all, Source.DYNAMIC_DEFAULT_BROKER)
        self.current = of_all.with_values(self._of_broker, Source.DYNAMIC_BROKER)
        return frozenset(name for name in self.current if self.current[name] != before[name])

    def _is_usable(self, name: str, value: str, per_broker: bool) -> bool:
        try:
            self.validate({name: value}, per_broker=per_broker)
        except ConfigError as error:
            _log.error("config.ignored", key=name, reason=error)
            return False
        return True

    def __repr__(self) -> str:
        return f"<DynamicBrokerConfig of_broker={sorted(self._of_broker)} of_all={sorted(self._of_all)}>"
