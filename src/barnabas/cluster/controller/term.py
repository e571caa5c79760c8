"""`Term`: all that a controller has while it is elected, and what happens when it takes over.

Theory of operation
-------------------
A controller's belief about the cluster is good only while it is elected, so it lives in an object of its
own: winning an election makes a `Term`, resigning ends it, and the next election starts from the store
again. `begin` follows ``KafkaController.onControllerFailover`` step by step; the order matters: watches are
left before the znodes are read (or a change in between would be missed), and brokers learn the live brokers
before they hear which leader to follow.

The events of a term are functions of it, in `broker_events`, `topic_events`, `election_events` and
`isr_events`; what several of them need is here. `events` is the table of those that changes of znodes cause.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.cluster.brokers import Broker, EndPointNotFoundError
from barnabas.cluster.controller.channel_manager import (
    ControllerChannelManager,
    RequestBatch,
    ResponseHandlers,
)
from barnabas.cluster.controller.context import ControllerContext, Replica
from barnabas.cluster.controller.election import Strategy
from barnabas.cluster.controller.fenced_store import FencedStore
from barnabas.cluster.controller.partition_state_machine import PartitionStateMachine
from barnabas.cluster.controller.replica_state_machine import ReplicaStateMachine
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.topic_deletion import TopicDeletionManager
from barnabas.cluster.controller.znode_watches import ZnodeWatches
from barnabas.cluster.leadership import PartitionLeadership, TopicAssignment
from barnabas.cluster.metadata.features import Range
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    Create,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SetData,
)
from barnabas.cluster.store.unreadable import readable, report_unreadable
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Steps, gather, steps
from barnabas.network.endpoints import ListenerConfig

_events: Final = EventLog("cluster.controller")


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What the controller needs of the broker's configuration."""

    broker_id: int
    inter_broker_listener: str
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    control_plane_listener: str | None = None
    features: Mapping[str, Range] = field(default_factory=dict)
    """The features whose levels /feature may have; none where a JVM broker may read it."""

    @property
    def listener(self) -> str:
        """The listener on which the controller reaches brokers."""
        return self.control_plane_listener or self.inter_broker_listener

    @classmethod
    def of(
        cls, broker: Config, broker_id: int, listeners: ListenerConfig, features: Mapping[str, Range]
    ) -> "ControllerConfig":
        """From the parsed broker configuration."""
        return cls(
            broker_id,
            listeners.inter_broker_name,
            broker["delete.topic.enable"],
            broker["unclean.leader.election.enable"],
            broker["auto.leader.rebalance.enable"],
            broker["leader.imbalance.check.interval.seconds"],
            broker["leader.imbalance.per.broker.percentage"],
            listeners.control_plane_name,
            features,
        )


class Term:
    """One controller's time in office."""

    def __init__(
        self,
        config: ControllerConfig,
        store: MetadataStore,
        channel: ControllerChannelManager,
        handlers: ResponseHandlers,
        watches: ZnodeWatches,
        clock: Clock,
        new_uuid: Callable[[], Uuid],
        *,
        epoch: int,
        epoch_version: int,
    ) -> None:
        self.config = config
        self.channel = channel
        self.clock = clock
        self.context = ControllerContext()
        self.context.epoch, self.context.epoch_version = epoch, epoch_version
        self.store = FencedStore(store, epoch, epoch_version)
        self.watches = watches
        self.batch = RequestBatch(
            config.broker_id, self.context, channel, config.inter_broker_listener, handlers, clock
        )
        self.partitions = PartitionStateMachine(
            self.context,
            self.store,
            self.batch,
            clock,
            unclean_election_default=config.unclean_leader_election_enable,
        )
        self.replicas = ReplicaStateMachine(self.context, self.store, self.batch, clock)
        self.deletion = TopicDeletionManager(
            self.context,
            self.partitions,
            self.replicas,
            self.store,
            watches,
            self.batch,
            enabled=config.delete_topic_enable,
        )
        self._new_uuid = new_uuid

    # -------------------------------------------------------------------------------- begin and end

    @steps
    def begin(self) -> Steps[None]:
        """``onControllerFailover``: takes over the cluster."""
        yield self._enable_feature_versioning()
        # Watches come before reads: a change in between is an event, and the event reads again.
        yield self.watches.start()
        # Notifications to the former controller: the context is read in full below, so they say nothing new.
        for path in (znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES):
            names = yield self.store.children(path)
            yield self.store.delete_quietly(f"{path}/{name}" for name in names)
        yield self._initialize_context()
        # Topics marked for deletion whose replicas are not all alive, or are being moved, wait
        # (``fetchTopicDeletionsInProgress``).
        marked = yield self.store.children(znodes.DELETE_TOPICS)
        replicas = self.context.replicas_of(self.context.all_partitions())
        halted = [each.topic for each in replicas if not self.context.is_online(each.broker_id, each.tp)]
        moving = [tp.topic for tp in self.context.being_reassigned]
        yield self.deletion.init(marked, [*halted, *moving])
        # A broker must know the live brokers before it hears which leader to follow.
        yield self.batch.send_update_metadata([])
        yield self.replicas.startup(self.context.all_partitions())
        yield self.partitions.startup(self.context.all_partitions())
        _events.info("controller_ready", epoch=self.context.epoch, brokers=sorted(self.context.live_brokers))

    @steps
    def _enable_feature_versioning(self) -> Steps[None]:
        """``enableFeatureVersioning``:
        a znode that an IBP before 2.7 left disabled is switched on, without features.

        Where levels may be kept, a cluster that has none begins with the highest ones, as one that Kafka's
        storage tool has formatted.
        """
        highest = {name: high for name, (_, high) in self.config.features.items()}
        try:
            yield self.store.write(Create(znodes.FEATURE, znodes.encode_feature(highest)))
        except NodeExistsError:
            data, stat = yield self.store.store.get(znodes.FEATURE)
            enabled = readable(self.store.store, znodes.FEATURE, znodes.decode_feature_enabled, data)
            levels = readable(self.store.store, znodes.FEATURE, znodes.decode_features, data)
            # One that is unreadable may hold anything: it is left as it is.
            if enabled is False or (highest and levels == {}):
                yield self.store.write(SetData(znodes.FEATURE, znodes.encode_feature(highest), stat.version))

    def end(self) -> None:
        """Leaves office: watches are dead, queues to brokers are dropped."""
        self.store.end()
        self.watches.end()
        for broker_id in list(self.context.live_brokers):
            self.channel.remove_broker(broker_id)
        self.batch.end()

    @steps
    def _initialize_context(self) -> Steps[None]:
        for broker, epoch in (yield self.read_brokers()):
            self.context.add_broker(broker, epoch)
            self.channel.add_broker(broker)
        # Brokers are known before topics: which replicas are online follows from both.
        topics = yield self.store.children(znodes.TOPICS)
        self.context.set_topics(topics)
        assignments = yield self.read_topics(topics)
        yield self.adopt_topics(assignments)
        # Who leads each partition, as the store has it: nobody is elected before that is known.
        yield self._read_leadership(self.context.all_partitions())
        # Last: a registration that changes from here on is an event.
        yield self.watch_brokers(self.context.live_brokers)

    @steps
    def _read_leadership(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        states = yield self.store.partition_states(partitions)
        self.context.leadership |= {
            tp: state for tp, state in states.items() if isinstance(state, PartitionLeadership)
        }

    # --------------------------------------------------------------------------------------- reading

    @steps
    def read_brokers(self) -> Steps[list[tuple[Broker, int]]]:
        """The brokers that may become live, with their epochs; the term hears of the next change.

        A broker that the controller or the other brokers cannot reach never becomes live: no partition gets
        it as leader.
        """
        names = yield self.watches.children(znodes.BROKER_IDS)
        ids = znodes.numbered(names)
        reads = [self.store.store.get(znodes.broker_path(broker_id)) for broker_id in ids]
        yield gather(reads)
        brokers = []
        for broker_id, read in zip(ids, reads, strict=True):
            try:
                data, stat = read.result()
                path = znodes.broker_path(broker_id)
                broker = readable(self.store.store, path, znodes.decode_broker, broker_id, data)
                # Unreadable, and the same registration as before (czxid): what was read of it then still
                # holds.
                if broker is None and self.context.broker_epochs.get(broker_id) == stat.czxid:
                    broker = self.context.live_brokers[broker_id]  # it is still there, as it was known
                if broker is None:
                    continue
                # The controller reaches it on one, followers on the other; both must be there.
                for listener in dict.fromkeys((self.config.listener, self.config.inter_broker_listener)):
                    broker.required_endpoint(listener)
                brokers.append((broker, stat.czxid))
            except NoNodeError:
                continue  # deregistered since the list was read, which is an event of its own
            except EndPointNotFoundError as error:
                _events.error(
                    "broker_not_live", broker=broker_id, reason=error, mend="give that broker the listener"
                )
        return brokers

    @steps
    def watch_brokers(self, broker_ids: Iterable[int]) -> Steps[None]:
        """The term hears when these brokers write their registration."""
        yield gather(self.watches.get(znodes.broker_path(broker_id)) for broker_id in broker_ids)

    @steps
    def read_topics(self, topics: Sequence[str]) -> Steps[dict[str, TopicAssignment]]:
        """Assignments and ids of topics; the term hears when they are written.

        A topic whose znode is unreadable is held apart: `context.topics` has its name, and nothing else is
        known of it.
        """
        reads = [self.watches.get(znodes.topic_path(topic)) for topic in topics]
        yield gather(reads)
        found = {}
        for topic, read in zip(topics, reads, strict=True):
            if isinstance(read.error, NoNodeError):
                continue  # deleted in between, which is an event of its own
            data, _ = read.result()
            path = znodes.topic_path(topic)
            assignment = readable(self.store.store, path, znodes.decode_topic, data)
            if assignment is not None:
                found[topic] = assignment
        return found

    @steps
    def adopt_topics(self, assignments: dict[str, TopicAssignment]) -> Steps[None]:
        """Takes topics into the context, and gives an id to those that have none (made before IBP 2.8)."""
        for topic, assignment in assignments.items():
            topic_id = assignment.topic_id
            owner = topic if topic_id is None else self.context.topic_names.get(topic_id, topic)
            if owner != topic:
                # Requests name topics by id: with two topics of one id neither could be served.
                path = znodes.topic_path(topic)
                report_unreadable(self.store.store, path, f"topic_id is that of topic {owner}")
                continue
            if topic_id is None:
                topic_id = self._new_uuid()
                payload = znodes.encode_topic(TopicAssignment(topic_id, assignment.partitions))
                yield self.store.write(SetData(znodes.topic_path(topic), payload))
            self.context.add_topic_id(topic, topic_id)
            for partition, replicas in assignment.partitions.items():
                tp = TopicPartition(topic, partition)
                self.context.assign(tp, replicas)
                if replicas.being_reassigned:
                    self.context.being_reassigned[tp] = None

    @steps
    def serve(self, assignments: dict[str, TopicAssignment]) -> Steps[None]:
        """Takes over topics that are led and followed already, as `begin` does with all of them."""
        yield self.adopt_topics(assignments)
        partitions = [tp for topic in assignments for tp in self.context.partitions_of(topic)]
        yield self._read_leadership(partitions)
        yield self.batch.send_update_metadata(partitions)
        yield self.replicas.startup(partitions)
        yield self.partitions.startup(partitions)

    # ----------------------------------------------------------------------- what several events need

    @steps
    def on_new_partition_creation(self, partitions: Sequence[TopicPartition]) -> Steps[None]:
        """``onNewPartitionCreation``: first leaders for partitions that were written into the store."""
        # In Kafka's order: leaders are elected among replicas that are known as new.
        yield self.partitions.handle(partitions, PartitionPhase.NEW)
        yield self.replicas.handle(self.context.replicas_of(partitions), ReplicaPhase.NEW)
        yield self.partitions.handle(partitions, PartitionPhase.ONLINE, Strategy.OFFLINE)
        yield self.replicas.handle(self.context.replicas_of(partitions), ReplicaPhase.ONLINE)

    @steps
    def on_replicas_become_offline(self, replicas: Sequence[Replica]) -> Steps[None]:
        """``onReplicasBecomeOffline``: elects leaders in place of the lost ones, then shrinks the ISRs."""
        deleting = [each for each in replicas if self.context.being_deleted(each.topic)]
        staying = [each for each in replicas if not self.context.being_deleted(each.topic)]
        # First those whose leader is lost: an election also takes the dead out of the ISR.
        yield self.partitions.handle(self.context.partitions_with_offline_leader(), PartitionPhase.OFFLINE)
        elected = yield self.partitions.trigger_online()
        # What the elections did not do: ISRs of partitions that are led elsewhere.
        yield self.replicas.handle(staying, ReplicaPhase.OFFLINE)
        # A deletion cannot be completed while one of its brokers is away: the topic is halted.
        if deleting:
            yield self.deletion.replicas_failed(deleting)
        if not staying and all(isinstance(outcome, Exception) for outcome in elected.values()):
            yield self.batch.send_update_metadata([])  # no other request names the live brokers

    def __repr__(self) -> str:
        return f"<Term {self.context!r}>"
