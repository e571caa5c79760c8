"""`Scenario`: one seed, from an empty world to a verdict.

The seed decides on everything: topics and whether they sync, kinds and speed of producers and consumers,
sizes of segments and batches, which faults there are and when. The last of them ends before the final
reading, so that what is missing then is lost and not late.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TextIO

from barnabas.admin.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.log.producers import BATCHES_KEPT
from barnabas.testing.simulation.checker import Anomaly, check
from barnabas.testing.simulation.faults import KINDS, PATIENCE_S, FaultPlan
from barnabas.testing.simulation.history import History, ProducerPromise, TopicPromise
from barnabas.testing.simulation.transactions import BROKER_CONFIG, Ledger
from barnabas.testing.simulation.workload import (
    DELIVERY_TIMEOUT_MS,
    ConsumerClient,
    ProducerClient,
)
from barnabas.testing.simulation.world import World
from barnabas.testing.sometimes import sometimes

_CODECS: Final = ("none", "none", "gzip", "snappy", "lz4", "zstd")
_PRODUCERS: Final = (
    ("all", True, False),
    ("all", True, True),
    ("all", False, False),
    ("1", False, False),
    ("0", False, False),
)
"""acks, idempotent, pipelines"""
_QUIET_S: Final = 2.0
_TRANSACTIONAL_SHARE: Final = 0.15
"""How many seeds have transactions too."""


@dataclass(frozen=True, slots=True)
class SeedPlan:
    """What a seed decided before the world began."""

    duration_s: float
    faults: tuple[str, ...]
    pause_s: float
    """Mean time between two of them."""
    topics: tuple[TopicPromise, ...]
    topic_config: dict[str, str]
    broker_config: dict[str, str]
    producers: tuple[ProducerPromise, ...]
    consumers: int

    @classmethod
    def draw(cls, rng: Random, duration_s: float) -> "SeedPlan":
        """One plan, drawn at random."""
        kinds = tuple(sorted(rng.sample(sorted(KINDS), rng.randint(1, 4))))
        producers = [rng.choice(_PRODUCERS) for _ in range(rng.randint(1, 3))]
        return cls(
            duration_s=duration_s,
            faults=kinds,
            pause_s=duration_s / rng.randint(3, 8),
            topics=tuple(
                TopicPromise(f"topic-{number}", rng.randint(1, 2), rng.random() < 0.6)
                for number in range(rng.randint(1, 2))
            ),
            topic_config={
                "segment.bytes": str(rng.choice([4096, 20_000, 1_000_000])),
                "segment.index.bytes": str(rng.choice([96, 4096])),
                "index.interval.bytes": str(rng.choice([0, 512, 4096])),
            },
            broker_config={
                "log.dirs": rng.choice(["/data", "/data", "/disk-1,/disk-2"]),
                "log.initial.task.delay.ms": "500",
                "log.flush.offset.checkpoint.interval.ms": str(rng.choice([700, 5000, 60_000])),
                "log.flush.start.offset.checkpoint.interval.ms": "3000",
                "log.retention.check.interval.ms": "2000",
                "connections.max.idle.ms": str(rng.choice([5000, 600_000])),
            },
            producers=tuple(
                ProducerPromise(f"{'idempotent' if kind[1] else 'plain'}-{kind[0]}-{number}", *kind)
                for number, kind in enumerate(producers)
            ),
            consumers=rng.randint(1, 2),
        )


@dataclass(slots=True)
class Report:
    """What came of one seed."""

    seed: int
    plan: SeedPlan
    digest: str
    events: int
    virtual_s: float
    history: History
    faults: int
    transactions: str = ""
    """What became of them, where the seed has some."""
    anomalies: list[Anomaly] = field(default_factory=list)

    @property
    def command(self) -> str:
        """What runs the same history again."""
        return f"python -m barnabas.testing.simulate --seed {self.seed} --seconds {self.plan.duration_s:g}"

    def __str__(self) -> str:
        verdict = f"{len(self.anomalies)} ANOMALIES" if self.anomalies else "ok"
        return (
            f"seed {self.seed}: {verdict} trace {self.digest} events {self.events} virtual "
            f"{self.virtual_s:.1f} s "
            f"{self.history!r}{self.transactions} faults {self.faults} of {','.join(self.plan.faults)}"
        )


class Scenario:
    """A world with one broker, its clients and the faults that are injected."""

    def __init__(self, seed: int, duration_s: float, sink: TextIO | None = None) -> None:
        self.world = World(seed, sink)
        self.trace = self.world.trace
        self.history = History()
        self.plan = SeedPlan.draw(self.world.new_rng(), duration_s)
        self._rng = self.world.new_rng()
        # By choices of its own, so that the other seeds stay what they are.
        own_rng = Random(f"{seed}/transactions")
        transactional = own_rng.random() < _TRANSACTIONAL_SHARE
        self._machine = self.world.add_machine(
            {**self.plan.broker_config, **(BROKER_CONFIG if transactional else {})}
        )
        self._ledger = Ledger(self.world, self._machine.address, own_rng) if transactional else None
        self.history.deaths_s = self._machine.deaths_s
        self._producers: list[ProducerClient] = []
        self._faults = FaultPlan(self.world, self._machine, self.history, self._unanswered)

    def run(self) -> Report:
        """Lives through it and judges it."""
        self.world.run(self._main())
        world = self.world
        return Report(
            seed=world.seed,
            plan=self.plan,
            digest=world.trace.digest,
            events=world.trace.count,
            virtual_s=world.loop.time(),
            history=self.history,
            faults=self._faults.injected,
            transactions=f" {self._ledger}" if self._ledger else "",
            anomalies=[
                *check(self.history),
                *(
                    Anomaly("transaction", text)
                    for text in (self._ledger.anomalies() if self._ledger else ())
                ),
                *(Anomaly("crash", problem) for problem in world.loop.problems),
            ],
        )

    async def _main(self) -> None:
        self._machine.start()
        await self._faults.until_up()
        await self._create_topics()
        clients = self._clients()
        self._producers += [client for client in clients if isinstance(client, ProducerClient)]
        self._machine.on_death.append(self._look_at_producers)
        running = [
            self.world.loop.spawn(client.process, client.run(self._rng.choice([0.3, 1.5, 4.0])))
            for client in clients
        ]
        if self._ledger is not None:
            async with AsyncAdmin(self._machine.address) as admin:
                await self._ledger.start(admin, self._rng.choice([0.5, 2.0]))
        await self._live()
        await self._recover()
        for client in clients:
            client.stopping = True
        _, late = await asyncio.wait(running, timeout=DELIVERY_TIMEOUT_MS / 1000 + PATIENCE_S)
        self.history.complaints += [f"{task.get_name()} does not come to an end" for task in late]
        for task in running:
            if task not in late:
                task.result()
        if self._ledger is not None:
            await self._ledger.stop(PATIENCE_S)
        await self._last_stop()
        await self._read_back()
        if self._ledger is not None:
            await self._ledger.read_back(PATIENCE_S)

    async def _create_topics(self) -> None:
        async with AsyncAdmin(self._machine.address) as admin:
            for topic in self.plan.topics:
                config = dict(self.plan.topic_config, **({"flush.messages": "1"} if topic.durable else {}))
                await admin.topics.create(NewTopic(topic.name, partitions=topic.partitions, configs=config))
                self.history.topics[topic.name] = topic

    def _clients(self) -> list[ProducerClient | ConsumerClient]:
        producers = [
            ProducerClient(self.world, self._machine.address, self.history, promise, self._producer_options())
            for promise in self.plan.producers
        ]
        consumers = [
            ConsumerClient(
                self.world,
                self._machine.address,
                self.history,
                f"consumer-{number}",
                self._consumer_options(),
            )
            for number in range(self.plan.consumers)
        ]
        return [*producers, *consumers]

    def _unanswered(self) -> int:
        return max((producer.unanswered for producer in self._producers), default=0)

    def _look_at_producers(self) -> None:
        if self._unanswered() >= BATCHES_KEPT:
            sometimes("a leader dies with five batches of one producer unanswered")

    def _producer_options(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "linger_ms": rng.choice([0, 0, 20]),
            "batch_size": rng.choice([200, 16_384]),
            "compression_type": rng.choice(_CODECS),
        }

    def _consumer_options(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "fetch_max_wait_ms": rng.choice([100, 500]),
            "max_partition_fetch_bytes": rng.choice([1000, 1_048_576]),
            "max_poll_records": rng.choice([3, 500]),
        }

    async def _live(self) -> None:
        loop = self.world.loop
        end_s = loop.time() + self.plan.duration_s
        while (pause_s := self._rng.expovariate(1 / self.plan.pause_s)) < end_s - loop.time():
            await asyncio.sleep(pause_s)
            await self._faults.inject(self._rng.choice(self.plan.faults))
            if not await self._faults.until_up():
                self._not_up()
                return
        await asyncio.sleep(max(0.0, end_s - loop.time()))

    async def _recover(self) -> None:
        await self._faults.heal()
        if not await self._faults.until_up():
            self._not_up()
        await asyncio.sleep(_QUIET_S)

    async def _last_stop(self) -> None:
        """What was acknowledged must outlive one more end, of any kind."""
        last = self._rng.choice(["restart", "kill", "power" if "power" in self.plan.faults else "kill"])
        await self._faults.inject(last)
        if not await self._faults.until_up():
            self._not_up()

    async def _read_back(self) -> None:
        reader = ConsumerClient(self.world, self._machine.address, self.history, "final reader", {})
        await self.world.loop.spawn(reader.process, reader.read_all(PATIENCE_S))

    def _not_up(self) -> None:
        reasons = "; ".join(self._machine.failures[-3:])
        self.history.complaints.append(f"the broker does not come up: {reasons or 'it does not say why'}")
