"""`GroupMember`: what a consumer needs of its place in a group, whichever protocol the group has."""

from collections.abc import Callable
from typing import Final, Protocol

from barnabas.client.assignors import assignors_named
from barnabas.client.cluster import Cluster
from barnabas.client.config import CONSUMER
from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.group.auto_commit import AutoCommit
from barnabas.client.group.commits import Commits
from barnabas.client.group.consumer_member import ConsumerGroupMember
from barnabas.client.group.coordinator import ConsumerCoordinator
from barnabas.client.group.settings import MemberSettings
from barnabas.client.retries import Deadline
from barnabas.client.subscription_state import SubscriptionState
from barnabas.core.config import Config, Source
from barnabas.core.errors import ConfigError

_CLASSIC_ONLY: Final = ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
"""With the protocol ``consumer`` these are the coordinator's to choose."""


class GroupMember(Protocol):
    """A `ConsumerCoordinator` (protocol ``classic``) or a `ConsumerGroupMember` (``consumer``)."""

    link: CoordinatorLink
    commits: Commits
    auto_commit: AutoCommit

    @property
    def wait_s(self) -> float:
        """After how many seconds `poll` should be called again, even if nothing happens."""

    async def poll(self) -> None:
        """Does what can be done now. Raises KafkaError, and what a listener raises."""

    def subscription_changed(self) -> None:
        """There are other topics to read."""

    def enforce_rebalance(self, reason: str | None) -> None:
        """The caller wants the partitions to be divided again."""

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Gives up all partitions and leaves the group. Raises what a listener raises."""

    async def close(self, deadline: Deadline) -> None:
        """Commits, where that is automatic, and leaves the group. Raises what a listener raises."""


def member_of(
    config: Config, cluster: Cluster, subscriptions: SubscriptionState, on_news: Callable[[], object]
) -> GroupMember | None:
    """What a consumer's configuration asks for; None without a group. Raises ConfigError."""
    by_coordinator = config["group.protocol"].lower() == CONSUMER
    if by_coordinator:
        for key in _CLASSIC_ONLY:
            if config.source(key) is not Source.DEFAULT:
                raise ConfigError(f"{key} cannot be set when group.protocol=CONSUMER")
    elif config["group.remote.assignor"] is not None:
        raise ConfigError("group.remote.assignor cannot be set when group.protocol=CLASSIC")
    settings = MemberSettings.of(config)
    assignors = assignors_named(config["partition.assignment.strategy"])
    if settings is None:
        return None
    if by_coordinator:
        return ConsumerGroupMember(settings, cluster, subscriptions, on_news)
    return ConsumerCoordinator(settings, cluster, subscriptions, assignors, on_news)
