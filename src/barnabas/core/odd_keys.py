"""What was set in a broker's configuration and has no effect:
a line in the log for each key, with the reason.
"""

from collections.abc import Collection

from barnabas.core.broker_config import not_obeyed
from barnabas.core.config import Config, neighbour
from barnabas.core.eventlog import EventLog

_log = EventLog("core.config")


def warn_of_odd_keys(config: Config, names: Collection[str]) -> None:
    """Warns of those of these names that no key has, and of those whose keys this broker does not obey."""
    for name in sorted(config.unknown.keys() & set(names)):
        meant = neighbour(name, config.table)
        hint = {"did_you_mean": meant} if meant else {}
        _log.warning("config.unknown", key=name, **hint, meaning="this broker does not obey it")
    for name, reason in not_obeyed(config):
        if name in names:
            _log.warning("config.not_obeyed", key=name, reason=reason)
