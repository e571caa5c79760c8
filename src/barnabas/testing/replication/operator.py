"""`Operator`: the person with the tools: moves partitions, calls elections, makes topics and partitions,
deletes topics.

What was asked may be lost, refused or half done when a controller dies; nothing is repeated. In the end all
that the store knows of must be finished.
"""

from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final

from barnabas.cluster.metadata.topics import NewTopic, TopicAdmin, TopicDefaults
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.topic_config import TOPIC_CONFIG
from barnabas.protocol.election_type import ElectionType
from barnabas.testing.clock import VirtualClock
from barnabas.testing.replication.broker import Brokers, SimulatedBroker, live
from barnabas.testing.replication.wire import PartyNetwork

_PARTITIONS_MAX: Final = 4


class Operator:
    """Asks for one thing after the other; `partitions` grows with the topic that clients use."""

    name = "operator"
    life = 1

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        wire: PartyNetwork,
        brokers: Brokers,
        partitions: list[TopicPartition],
        *,
        least_replicas: int,
        deeds: list[str],
    ) -> None:
        self.stopping = False
        self.done: dict[str, int] = {}
        """How often each thing was asked for."""
        self._clock = clock
        self._rng = rng
        self._wire = wire
        self._brokers = brokers
        self._partitions = partitions
        self._least_replicas = least_replicas
        self._deeds = deeds
        self._numbers = count()
        self._topics: list[str] = []

    def arrive(self, callback: Callable[[], object]) -> None:
        """See `wire.Party`."""
        callback()

    def run(self, pause_ms: float) -> None:
        """Asks for one thing, and for the next after a pause of this mean, until it is stopped."""
        brokers = list(live(self._brokers))
        if self.stopping or not self._deeds:
            return
        if brokers:
            deed = self._rng.choice(self._deeds)
            self.done[deed] = self.done.get(deed, 0) + 1
            DEEDS[deed](self, self._rng.choice(brokers))
        self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(pause_ms))

    def _ask(
        self,
        broker: SimulatedBroker,
        work: Callable[[], Pending[Any]],
        then: Callable[[], object] = lambda: None,
    ) -> None:
        def answered(answer: Pending[Any]) -> None:
            if answer.error is None:
                then()

        self._wire.call(self, broker, work, answered)

    def _move(self, broker: SimulatedBroker) -> None:
        """A reassignment, now and then the end of one."""
        controller = self._brokers.get(broker.metadata.controller_id)
        if controller is None:
            return
        tp = self._rng.choice(self._partitions)
        ids = sorted(self._brokers)
        size = self._rng.randint(self._least_replicas, len(ids))
        target = None if self._rng.random() < 0.1 else self._rng.sample(ids, size)
        self._ask(controller, lambda: controller.controller.alter_partition_reassignments({tp: target}))

    def _elect(self, broker: SimulatedBroker) -> None:
        controller = self._brokers.get(broker.metadata.controller_id)
        if controller is not None:
            wanted = list(self._partitions)
            self._ask(controller, lambda: controller.controller.elect_leaders(wanted, ElectionType.PREFERRED))

    def _grow(self, broker: SimulatedBroker) -> None:
        topic, number = self._partitions[0].topic, len(self._partitions)
        if number < _PARTITIONS_MAX:
            added = TopicPartition(topic, number)
            self._ask(
                broker,
                lambda: topic_admin(broker, self._rng).create_partitions(topic, number + 1, None),
                lambda: None if added in self._partitions else self._partitions.append(added),
            )

    def _create(self, broker: SimulatedBroker) -> None:
        topic = f"scratch-{next(self._numbers)}"
        self._topics.append(topic)
        new = NewTopic(topic, num_partitions=2, replication_factor=min(2, len(self._brokers)))
        self._ask(broker, lambda: topic_admin(broker, self._rng).create(new))

    def _delete(self, broker: SimulatedBroker) -> None:
        if self._topics:
            topic = self._topics.pop(self._rng.randrange(len(self._topics)))
            self._ask(broker, lambda: topic_admin(broker, self._rng).delete(topic))


def topic_admin(broker: SimulatedBroker, rng: Random) -> TopicAdmin:
    """What a broker's handlers of CreateTopics, CreatePartitions and DeleteTopics work with."""
    defaults = TopicDefaults(1, 1, TOPIC_CONFIG.parse({}))
    return TopicAdmin(broker.store, broker.metadata, defaults, rng)


DEEDS: Final[dict[str, Callable[[Operator, SimulatedBroker], None]]] = {
    "move": Operator._move,  # noqa: SLF001 - the table of this class
    "elect": Operator._elect,  # noqa: SLF001
    "grow": Operator._grow,  # noqa: SLF001
    "create": Operator._create,  # noqa: SLF001
    "delete": Operator._delete,  # noqa: SLF001
}
