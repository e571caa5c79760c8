"""The options of ``barnabas-offsets`` and ``barnabas-lag``: brokers or log directories, and which groups."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from barnabas.core.ids import GROUP_METADATA_TOPIC
from barnabas.spark.errors import OptionError
from barnabas.spark.logs.options import LogOptions, log_options
from barnabas.spark.options import BOOTSTRAP_SERVERS, SourceOptions, source_options

_NOT_HERE: Final = ("view", "subscribe", "subscribepattern", "assign", "includeheaders")


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Where groups are looked at: in brokers or in log directories, one of the two."""

    brokers: SourceOptions | None
    logs: LogOptions | None
    groups: frozenset[str]
    """Only these; all when empty."""

    def wants(self, group: str) -> bool:
        """Whether the group is among those that were asked for."""
        return not self.groups or group in self.groups


def group_options(given: Mapping[str, str], source: str, *, of_table: bool = False) -> GroupOptions:
    """The checked options of the data source of that name. Raises OptionError."""
    texts = {name.lower(): value for name, value in given.items()}
    groups = frozenset(name.strip() for name in texts.pop("groups", "").split(",") if name.strip())
    for name in _NOT_HERE:
        if name in texts:
            raise OptionError(f"{source} has no option {name}; filter the DataFrame instead")
    of_logs, of_brokers = bool(texts.keys() & {"path", "paths"}), BOOTSTRAP_SERVERS in texts
    if of_logs == of_brokers:
        raise OptionError(
            f"{source} needs either {BOOTSTRAP_SERVERS} or log directories, such as load('/var/lib/kafka')"
        )
    if of_logs:
        return GroupOptions(None, log_options(texts), groups)
    # Commits of an aborted transaction never counted.
    defaults = {"kafka.isolation.level": "read_committed"}
    asked = {**defaults, **texts, "subscribe": GROUP_METADATA_TOPIC}
    found = source_options(asked, streaming=False, of_table=of_table)
    return GroupOptions(found, None, groups)


def of_offsets_topic(options: LogOptions) -> LogOptions:
    """The same directories, of them only ``__consumer_offsets``."""
    return replace(options, topics=(GROUP_METADATA_TOPIC,))
