"""`GroupConfigManager`: what counts for each group (``GroupConfigManager``): its own settings, and the
broker's where it has none.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.core import group_config
from barnabas.core.api_profile import KAFKA_4_4, api_profile
from barnabas.core.config import Config
from barnabas.core.group_config import GROUP_CONFIG

_NONE: Final[Mapping[str, str]] = {}


class GroupConfig(NamedTuple):
    """The configuration of a consumer group; times in ms. The order is that of `GROUP_CONFIG`."""

    session_timeout_ms: int
    assignment_interval_ms: int
    heartbeat_interval_ms: int


class GroupConfigManager:
    """Answers for each group of this broker."""

    def __init__(self, broker: Config, configured: Mapping[str, Mapping[str, str]]) -> None:
        """`configured` has the own settings of groups by name, as they are now; none is a bad one."""
        self._configured = configured
        self.broker_configured(broker)

    def broker_configured(self, broker: Config) -> None:
        """The broker's own configuration is this from now on."""
        self._broker = broker
        self._of_others = self._effective(_NONE)

    @property
    def first_epoch(self) -> int:
        """Of a new group of the consumer protocol: 1 in Kafka 3.9, 2 in Kafka 4.4. It follows the profile."""
        return 2 if api_profile(self._broker) == KAFKA_4_4 else 1

    @property
    def keeps_empty_groups(self) -> bool:
        """Whether a group that has lost its last offset stays until offsets expire, as in Kafka 4.4; in 3.9
        it is gone at once. It follows the profile.
        """
        return api_profile(self._broker) == KAFKA_4_4

    @property
    def refused_commits_begin_groups(self) -> bool:
        """Whether a transaction's commit begins its group before the transaction is verified, as in Kafka
        3.9: a refused one leaves an empty group. In 4.4 it leaves nothing. It follows the profile.
        """
        return api_profile(self._broker) != KAFKA_4_4

    def of(self, group_id: str) -> GroupConfig:
        """The configuration of a group that exists, or of one that may come."""
        own = self._configured.get(group_id)
        return self._of_others if own is None else self._effective(own)

    def _effective(self, own: Mapping[str, str]) -> GroupConfig:
        values = []
        for key in GROUP_CONFIG.values():
            value = int(own[key.name]) if key.name in own else self._broker[key.synonym or ""]
            low, high = group_config.bounds(key.name, self._broker)
            values.append(min(max(value, low), high))
        return GroupConfig(*values)

    def __repr__(self) -> str:
        return f"<GroupConfigManager configured={len(self._configured)}>"
