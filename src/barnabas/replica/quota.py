"""How much replication of throttled partitions may take (KIP-73), as leader and as follower.

Theory of operation
-------------------
A reassignment copies whole partitions, and can take all of the network. So the topics' configuration names
replicas that are throttled, on the leader's side and on the follower's, and the brokers' configuration says
how many bytes a second they may have between them. All bytes of a throttled partition count, those of
replicas in sync too; but only a replica that is *not* in sync waits while the rate is exceeded: one in sync
would leave the ISR by it.

What is read at once may exceed the quota: it is looked at before a fetch, and counted after it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.ids import TopicPartition
from barnabas.core.sampled_rate import SampledRate

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
UNLIMITED: Final = 2**63 - 1


class ReplicationQuotaManager:
    """One side's quota (``ReplicationQuotaManager``):
    which partitions it is for, and whether it is used up.
    """

    __slots__ = ("_rate", "_throttled", "bound")

    def __init__(self, now_ms: Callable[[], float], *, samples: int, window_ms: float) -> None:
        self.bound = UNLIMITED
        """Bytes a second for all throttled partitions together."""
        self._rate = SampledRate(now_ms, samples=samples, window_ms=window_ms)
        self._throttled: dict[str, frozenset[int] | None] = {}
        """By topic; None stands for all partitions."""

    @property
    def active(self) -> bool:
        """Whether there are throttled partitions at all."""
        return bool(self._throttled)

    def mark_throttled(self, topic: str, partitions: frozenset[int] | None) -> None:
        """These partitions of the topic are throttled from now on, and no others; None for all."""
        self._throttled[topic] = partitions

    def remove_throttle(self, topic: str) -> None:
        """No partition of the topic is throttled from now on."""
        self._throttled.pop(topic, None)

    def is_throttled(self, tp: TopicPartition) -> bool:
        if tp.topic not in self._throttled:
            return False
        partitions = self._throttled[tp.topic]
        return partitions is None or tp.partition in partitions

    def record(self, size: int) -> None:
        """Counts bytes of throttled partitions."""
        self._rate.record(size)

    def is_exceeded(self) -> bool:
        """``isQuotaExceeded``. With a quota of zero one byte exceeds it, until that byte is out of the
        window.
        """
        return self._rate.per_second() > self.bound

    def __repr__(self) -> str:
        return f"<ReplicationQuotaManager bound={self.bound} {self._rate!r} topics={sorted(self._throttled)}>"


class ReplicationQuotas:
    """Both sides' quotas of a broker, and what its configuration says of them."""

    __slots__ = ("_broker_id", "alter_log_dirs", "follower", "leader")

    def __init__(self, broker_id: int, config: Config, clock: Clock) -> None:
        self._broker_id = broker_id
        samples = config["replication.quota.window.num"]
        window_ms = config["replication.quota.window.size.seconds"] * 1000
        self.leader = ReplicationQuotaManager(clock.monotonic_ms, samples=samples, window_ms=window_ms)
        self.follower = ReplicationQuotaManager(clock.monotonic_ms, samples=samples, window_ms=window_ms)
        self.alter_log_dirs = ReplicationQuotaManager(
            clock.monotonic_ms,
            samples=config["alter.log.dirs.replication.quota.window.num"],
            window_ms=config["alter.log.dirs.replication.quota.window.size.seconds"] * 1000,
        )
        """Of moves between log directories, which are all throttled."""

    def broker_configured(self, rates: Mapping[str, int]) -> None:
        """``BrokerConfigHandler``: the rates that are set; without limit where none is."""
        self.leader.bound = rates.get(LEADER_RATE, UNLIMITED)
        self.follower.bound = rates.get(FOLLOWER_RATE, UNLIMITED)
        self.alter_log_dirs.bound = rates.get(LOG_DIRS_RATE, UNLIMITED)

    def topic_deleted(self, topic: str) -> None:
        """One of the same name is another topic."""
        self.topic_configured(topic, {})

    def topic_configured(self, topic: str, values: Mapping[str, str]) -> None:
        """``TopicConfigHandler.updateThrottledList``: the topic's own settings, as its znode has them."""
        for quota, name in ((self.leader, LEADER_REPLICAS), (self.follower, FOLLOWER_REPLICAS)):
            value = values.get(name, "").strip()
            if value:
                quota.mark_throttled(topic, throttled_partitions(value, self._broker_id))
            else:
                quota.remove_throttle(topic)


def throttled_partitions(value: str, broker_id: int) -> frozenset[int] | None:
    """``parseThrottledPartitions``: those of `partition:broker,...` that name this broker;
    None for ``*``, which is all.
    """
    items = [item for each in value.split(",") if (item := each.strip())]
    if items == ["*"]:
        return None
    replicas = (item.split(":") for item in items)
    return frozenset(int(partition) for partition, broker in replicas if int(broker) == broker_id)
