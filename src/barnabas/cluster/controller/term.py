"""`Term`: all that a controller has while it is elected, and what happens when it takes over.

Theory of operation
-------------------
A controller's belief about the cluster is good only while it is elected, so it lives in an object of its
own: winning an election makes a `Term`, resigning ends it, and the next election starts from the store
again. `begin` follows ``KafkaController.onControllerFailover`` step by step; the order matters: watches are
left before the znodes are read (or a change in between would be missed), and brokers learn the live brokers
before they are told whom to follow.

The events of a term are in `broker_changes`, `topic_changes`, `leader_elections`, `partition_alterations`
and `controlled_shutdown`, as functions of a term; what several of them need is here.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.channel import BrokerChannel
from barnabas.cluster.controller.config import ControllerConfig
from barnabas.cluster.controller.context import ControllerContext, Replica
from barnabas.cluster.controller.controller_store import ControllerStore
from barnabas.cluster.controller.election import Strategy
from barnabas.cluster.controller.partition_states import PartitionStates
from barnabas.cluster.controller.replica_states import ReplicaStates
from barnabas.cluster.controller.request_batch import RequestBatch, ResponseHandlers
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.term_watches import TermWatches
from barnabas.cluster.controller.topic_deletion import TopicDeletion
from barnabas.cluster.leadership import PartitionLeadership, TopicAssignment
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SetData,
    WatchEvent,
)
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Pending, Steps, gather, steps

_events: Final = EventLog("cluster.controller")


class TermEvents(Protocol):
    """What the watches of a term tell; each puts an event into the controller's queue."""

    def brokers_changed(self, event: WatchEvent) -> None:
        """A broker came or went."""

    def broker_written(self, event: WatchEvent) -> None:
        """A broker wrote its registration."""

    def topics_changed(self, event: WatchEvent) -> None:
        """A topic came or went."""

    def topic_written(self, event: WatchEvent) -> None:
        """A topic's assignment was written."""

    def deletions_changed(self, event: WatchEvent) -> None:
        """A topic was marked for deletion, or a mark was removed."""

    def log_dir_event(self, event: WatchEvent) -> None:
        """A broker lost a log directory."""

    def preferred_election(self, event: WatchEvent) -> None:
        """A tool asks for preferred leaders."""


class Term:
    """One controller's time in office."""

    def __init__(
        self,
        config: ControllerConfig,
        store: MetadataStore,
        channel: BrokerChannel,
        handlers: ResponseHandlers,
        events: TermEvents,
        new_uuid: Callable[[], Uuid],
        *,
        epoch: int,
        epoch_version: int,
    ) -> None:
        self.config = config
        self.events = events
        self.channel = channel
        self.context = ControllerContext()
        self.context.epoch, self.context.epoch_version = epoch, epoch_version
        self.store = ControllerStore(store, epoch, epoch_version)
        self.watches = TermWatches(store)
        self.batch = RequestBatch(config.broker_id, self.context, channel, config.listener, handlers)
        self.partitions = PartitionStates(
            self.context,
            self.store,
            self.batch,
            unclean_election_default=config.unclean_leader_election_enable,
        )
        self.replicas = ReplicaStates(self.context, self.store, self.batch)
        self.deletion = TopicDeletion(
            self.context, self.partitions, self.replicas, self, enabled=config.delete_topic_enable
        )
        self._new_uuid = new_uuid

    # -------------------------------------------------------------------------------- begin and end

    @steps
    def begin(self) -> Steps[None]:
        """Takes over the cluster."""
        yield self._set_up_features()
        for path in (znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES):
            names = yield self.store.children(path)
            yield self.store.delete_quietly(f"{path}/{name}" for name in names)
        yield self._initialize_context()
        yield self.watches.children(znodes.LOG_DIR_EVENTS, self.events.log_dir_event)
        marked = yield self.watches.children(znodes.DELETE_TOPICS, self.events.deletions_changed)
        yield self.deletion.init(marked, self._topics_with_offline_replicas())
        self.send_update_metadata([])
        yield self.replicas.startup()
        yield self.partitions.startup()
        _events.info("controller_ready", epoch=self.context.epoch, brokers=sorted(self.context.live_brokers))
        yield self.deletion.resume()

    def end(self) -> None:
        """Leaves office: watches are dead, queues to brokers are dropped."""
        self.store.end()
        self.watches.end()
        for broker_id in list(self.context.live_brokers):
            self.channel.remove_broker(broker_id)
        self.batch.clear()

    @steps
    def _set_up_features(self) -> Steps[None]:
        try:
            yield self.store.write(Create(znodes.FEATURE, znodes.encode_feature()))
        except NodeExistsError:
            _events.debug("feature_znode_exists")

    @steps
    def _initialize_context(self) -> Steps[None]:
        for broker, epoch in (yield self.read_brokers()):
            self.context.add_broker(broker, epoch)
            self.channel.add_broker(broker)
        topics = yield self.watches.children(znodes.TOPICS, self.events.topics_changed)
        self.context.set_topics(topics)
        assignments = yield self.read_topics(topics)
        yield self.adopt_topics(assignments)
        states = yield self.store.partition_states(self.context.all_partitions())
        self.context.leadership |= {
            tp: state for tp, state in states.items() if isinstance(state, PartitionLeadership)
        }
        yield self.watch_brokers(self.context.live_brokers)

    def _topics_with_offline_replicas(self) -> list[str]:
        replicas = self.context.replicas_of(self.context.all_partitions())
        return [each.topic for each in replicas if not self.context.is_online(each.broker_id, each.tp)]

    # --------------------------------------------------------------------------------------- reading

    @steps
    def read_brokers(self) -> Steps[list[tuple[Broker, int]]]:
        """All registered brokers with their epochs; the term hears of the next change."""
        ids = yield self.watches.children(znodes.BROKER_IDS, self.events.brokers_changed)
        reads = {int(name): self.store.store.get(f"{znodes.BROKER_IDS}/{name}") for name in ids}
        yield gather(reads.values())
        brokers = []
        for broker_id, read in sorted(reads.items()):
            try:
                data, stat = read.result()
                brokers.append((znodes.decode_broker(broker_id, data), stat.czxid))
            except NoNodeError:
                continue  # gone in between; the watch will tell
            except (ValueError, KeyError, TypeError) as error:
                _events.error("broker_registration_unreadable", broker=broker_id, error=error)
        return brokers

    @steps
    def watch_brokers(self, broker_ids: Iterable[int]) -> Steps[None]:
        """The term hears when these brokers write their registration."""
        watches = [
            self.watches.get(znodes.broker_path(broker_id), self.events.broker_written)
            for broker_id in broker_ids
        ]
        yield gather(watches)

    @steps
    def read_topics(self, topics: Sequence[str]) -> Steps[dict[str, TopicAssignment]]:
        """Assignments and ids of topics; the term hears when they are written."""
        reads = [self.watches.get(znodes.topic_path(topic), self.events.topic_written) for topic in topics]
        yield gather(reads)
        found = {}
        for topic, read in zip(topics, reads, strict=True):
            try:
                found[topic] = znodes.decode_topic(read.result()[0])
            except NoNodeError:
                continue  # deleted in between; the watch will tell
            except (ValueError, KeyError, TypeError) as error:
                _events.error("topic_assignment_unreadable", topic=topic, error=error)
        return found

    @steps
    def adopt_topics(self, assignments: dict[str, TopicAssignment]) -> Steps[None]:
        """Takes topics into the context, and gives an id to those that have none (made before IBP 2.8)."""
        for topic, assignment in assignments.items():
            topic_id = assignment.topic_id
            if topic_id is None:
                topic_id = self._new_uuid()
                payload = znodes.encode_topic(TopicAssignment(topic_id, assignment.partitions))
                yield self.store.write(SetData(znodes.topic_path(topic), payload))
            self.context.add_topic_id(topic, topic_id)
            for partition, replicas in assignment.partitions.items():
                tp = TopicPartition(topic, partition)
                self.context.assign(tp, replicas)
                if replicas.being_reassigned:
                    _events.warning("reassignment_not_carried_on", partition=tp, assignment=replicas)

    # ----------------------------------------------------------------------- what several events need

    def send_update_metadata(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None
    ) -> None:
        """Tells brokers (all, if not said) the live brokers and these partitions."""
        self.batch.begin()
        self.batch.add_update_metadata(self.context.live_brokers if brokers is None else brokers, partitions)
        self.batch.send()

    @steps
    def create_partitions(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """Brings partitions to life that the store got to know (``onNewPartitionCreation``)."""
        yield self.partitions.handle(partitions, PartitionPhase.NEW)
        yield self.replicas.handle(self.context.replicas_of(partitions), ReplicaPhase.NEW)
        yield self.partitions.handle(partitions, PartitionPhase.ONLINE, Strategy.OFFLINE)
        yield self.replicas.handle(self.context.replicas_of(partitions), ReplicaPhase.ONLINE)

    @steps
    def replicas_went_offline(self, replicas: Sequence[Replica]) -> Steps[None]:
        """Elects leaders in place of the lost ones, then shrinks the ISRs (``onReplicasBecomeOffline``)."""
        deleting = [each for each in replicas if self.context.being_deleted(each.topic)]
        staying = [each for each in replicas if not self.context.being_deleted(each.topic)]
        yield self.partitions.handle(self.context.partitions_with_offline_leader(), PartitionPhase.OFFLINE)
        elected = yield self.partitions.trigger_online()
        yield self.replicas.handle(staying, ReplicaPhase.OFFLINE)
        if deleting:
            yield self.deletion.replicas_failed(deleting)
        if not staying and all(isinstance(outcome, Exception) for outcome in elected.values()):
            self.send_update_metadata([])  # nothing else tells the brokers who is gone

    # ----------------------------------------------------------------------------- DeletionClient

    @steps
    def delete_topic(self, topic: str) -> Steps[None]:
        """Removes a topic's znodes, and stops watching them."""
        self.watches.mute(znodes.topic_path(topic))
        yield self.store.delete_tree(znodes.topic_path(topic))
        yield self.store.delete_quietly([znodes.config_path("topics", znodes.sanitize(topic))])
        yield self.delete_marks([topic])

    def delete_marks(self, topics: Iterable[str]) -> Pending[None]:
        """Removes the znodes that mark topics for deletion."""
        return self.store.delete_quietly(znodes.delete_topic_path(topic) for topic in topics)

    def __repr__(self) -> str:
        return f"<Term {self.context!r}>"
