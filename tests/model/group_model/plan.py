"""`Plan`: what a seed decides before a history begins:
brokers, topics, groups, their members' habits, faults.
"""

from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from barnabas.core.broker_config import broker_config
from barnabas.core.config import Config
from group_model.assigning import COOPERATIVE
from group_model.faults import KINDS
from group_model.member import Habits
from group_model.topics import Topic

Kind = Literal["classic", "consumer", "simple"]

RETENTION_MS: Final = 300_000
CHECK_INTERVAL_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group: the habits of all members that may ever be in it."""

    group_id: str
    topics: tuple[str, ...]
    members: tuple[tuple[Kind, Habits], ...]
    present: int
    """How many of them are there from the beginning."""

    @property
    def mixed(self) -> bool:
        """Whether members of both protocols meet in it, so that it changes from one to the other and back."""
        return len({kind for kind, _ in self.members} - {"simple"}) > 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole history, as far as it can be decided beforehand."""

    brokers: int
    partitions: int
    topics: tuple[Topic, ...]
    groups: tuple[GroupPlan, ...]
    faults: tuple[str, ...]
    pause_ms: float
    """Mean time between two faults."""
    initial_delay_ms: int
    consumer: bool
    """Whether brokers serve the consumer protocol (KIP-848)."""

    @classmethod
    def draw(cls, rng: Random) -> "Plan":
        """One plan, drawn at random."""
        topics = tuple(
            Topic(f"topic-{number}", rng.randint(1, 5), rng.choice([0.5, 5.0, 40.0]))
            for number in range(rng.randint(1, 3))
        )
        consumer = rng.random() < 0.6
        return cls(
            brokers=rng.randint(1, 3),
            partitions=rng.randint(1, 3),
            topics=topics,
            groups=tuple(
                _draw_group(rng, number, topics, consumer=consumer) for number in range(rng.randint(1, 3))
            ),
            faults=tuple(sorted(rng.sample(sorted(KINDS), rng.randint(1, 5)))),
            pause_ms=rng.choice([700.0, 2000.0, 6000.0]),
            initial_delay_ms=rng.choice([0, 500, 3000]),
            consumer=consumer,
        )

    @property
    def config(self) -> Config:
        """The brokers' configuration."""
        return broker_config(
            {
                "group.min.session.timeout.ms": "1000",
                "group.initial.rebalance.delay.ms": str(self.initial_delay_ms),
                "group.coordinator.rebalance.protocols": "classic,consumer" if self.consumer else "classic",
                "group.consumer.migration.policy": "bidirectional",
                "group.consumer.min.session.timeout.ms": "1000",
                # As in Kafka a classic member of a consumer group has this session after a load,
                # and not the one that it asked for; so none of them asks for more.
                "group.consumer.session.timeout.ms": "10000",
                "group.consumer.min.heartbeat.interval.ms": "500",
                "group.consumer.heartbeat.interval.ms": "2000",
                "group.consumer.assignment.interval.ms": "1000" if self.initial_delay_ms else "0",
                "offsets.retention.minutes": str(RETENTION_MS // 60_000),
                "offsets.retention.check.interval.ms": str(CHECK_INTERVAL_MS),
                "offsets.topic.num.partitions": str(self.partitions),
            }
        )


def _draw_group(rng: Random, number: int, topics: tuple[Topic, ...], *, consumer: bool) -> GroupPlan:
    names = tuple(sorted(rng.sample([topic.name for topic in topics], rng.randint(1, len(topics)))))
    group_id = f"group-{number}"
    kind = rng.choices(
        ["classic", "cooperative", "simple", "consumer", "mixed"],
        [6, 3, 1, 8 if consumer else 0, 4 if consumer else 0],
    )[0]
    if kind == "simple":
        return GroupPlan(group_id, names, (("simple", Habits(group_id, names)),), 1)
    count = rng.randint(1, 6)
    version = rng.choice([2, 4, 5, 7, 9, 9])
    # A static member that ends between giving partitions up and joining again comes back without a rebalance,
    # and what it gave up has no owner until the next: so cooperative members, as Kafka's, had better not be
    # static.
    share_static = 0.0 if kind in {"cooperative", "mixed"} else rng.choice([0.0, 0.0, 0.5, 1.0])
    laziness = rng.choice([0.0, 0.0, 0.0, 0.3])
    members: list[Habits] = []
    for index in range(count):
        instance_id = f"instance-{index}" if rng.random() < share_static else None
        if instance_id is not None and members and rng.random() < 0.2 and members[-1].instance_id:
            instance_id = members[-1].instance_id  # a twin: one of the two will be fenced
        members.append(_draw_habits(rng, group_id, names, kind, version, instance_id, laziness))
    share_new = {"consumer": 1.0, "mixed": 0.5}.get(kind, 0.0)
    kinds: list[Kind] = ["consumer" if rng.random() < share_new else "classic" for _ in members]
    return GroupPlan(group_id, names, tuple(zip(kinds, members, strict=True)), rng.randint(1, count))


def _draw_habits(
    rng: Random,
    group_id: str,
    topics: tuple[str, ...],
    kind: str,
    version: int,
    instance_id: str | None,
    laziness: float,
) -> Habits:
    session_timeout_ms = rng.choice([3000, 6000, 10_000])
    eager = ["range", "roundrobin"]
    rng.shuffle(eager)
    return Habits(
        group_id,
        topics,
        instance_id=instance_id,
        poll_ms=rng.choice([400.0, 1000.0, 2500.0]),
        polls_a_commit=rng.randint(2, 5),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rng.choice([4000, 8000]),
        heartbeat_ms=session_timeout_ms / 3,
        protocols=(COOPERATIVE,) if kind in {"cooperative", "mixed"} else tuple(eager),
        join_version=version if instance_id is None else max(version, 5),
        laziness=laziness,
        leaves=instance_id is None or rng.random() < 0.3,
    )
