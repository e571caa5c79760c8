"""Deletion of topics (``TopicDeletionManager``).

Theory of operation
-------------------
A topic is marked by a znode under /admin/delete_topics. The controller tells all brokers that its partitions
are being deleted (leader -2), stops its replicas and has them deleted; when each live replica answered, the
znodes go. A replica that is down or fails makes the topic *halted*: it is tried again when that broker is
back. `resume` looks at every marked topic and does the next thing; each answer of a broker calls it again.
"""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.controller.channel_manager import RequestBatch
from barnabas.cluster.controller.context import ControllerContext, Replica
from barnabas.cluster.controller.fenced_store import FencedStore
from barnabas.cluster.controller.partition_state_machine import PartitionStateMachine
from barnabas.cluster.controller.replica_state_machine import ReplicaStateMachine
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.znode_watches import ZnodeWatches
from barnabas.cluster.store import znodes
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps

_events: Final = EventLog("cluster.controller.deletion")


class TopicDeletionManager:
    """Carries marked topics to their end."""

    def __init__(
        self,
        context: ControllerContext,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        store: FencedStore,
        watches: ZnodeWatches,
        batch: RequestBatch,
        *,
        enabled: bool,
    ) -> None:
        self._context = context
        self._partitions = partitions
        self._replicas = replicas
        self._store = store
        self._watches = watches
        self._batch = batch
        self.enabled: Final = enabled
        """``delete.topic.enable``; without it marks are removed and topics stay."""

    @steps
    def init(self, marked: Iterable[str], halted: Iterable[str]) -> Steps[None]:
        """Takes over what an earlier controller left."""
        if not self.enabled:
            yield self.delete_marks(marked)
            return
        self._context.deletions |= dict.fromkeys(marked)
        self._context.deletions_halted |= set(halted) & self._context.deletions.keys()

    @steps
    def enqueue(self, topics: Iterable[str]) -> Steps[None]:
        """``enqueueTopicsForDeletion``."""
        if self.enabled:
            self._context.deletions |= dict.fromkeys(topics)
            yield self.resume()

    @steps
    def resume_for(self, topics: Iterable[str]) -> Steps[None]:
        """``resumeDeletionForTopics``: what halted these topics may be over, as a broker came back."""
        marked = self._context.deletions.keys() & set(topics)
        if marked:
            self._context.deletions_halted -= marked
            yield self.resume()

    @steps
    def replicas_failed(self, replicas: Iterable[Replica]) -> Steps[None]:
        """``failReplicaDeletion``: brokers could not delete these replicas, or have failed.

        What such a broker has deleted before stays deleted.
        """
        phases = self._context.replica_phases
        failed = [
            replica
            for replica in replicas
            if self._context.being_deleted(replica.topic)
            and phases.get(replica) is not ReplicaPhase.DELETION_SUCCESSFUL
        ]
        if failed:
            yield self._make_ineligible(failed)
            self.halt({replica.topic for replica in failed}, reason="replica deletion failure")
            yield self.resume()

    @steps
    def replicas_deleted(self, replicas: Iterable[Replica]) -> Steps[None]:
        """``completeReplicaDeletion``: brokers deleted these replicas."""
        deleted = [replica for replica in replicas if self._context.being_deleted(replica.topic)]
        yield self._replicas.handle(deleted, ReplicaPhase.DELETION_SUCCESSFUL)
        yield self.resume()

    @steps
    def _make_ineligible(self, replicas: Iterable[Replica]) -> Steps[None]:
        """Replicas that cannot be deleted now, because their broker or its disk failed.

        One whose deletion had not begun (its topic was halted, or its broker was down when it was made) goes
        offline first.
        """
        phases = self._context.replica_phases
        waiting = [each for each in replicas if phases.get(each) is not ReplicaPhase.DELETION_INELIGIBLE]
        serving = (ReplicaPhase.NEW, ReplicaPhase.ONLINE)
        yield self._replicas.handle(
            [each for each in waiting if phases.get(each) in serving], ReplicaPhase.OFFLINE
        )
        yield self._replicas.handle(waiting, ReplicaPhase.DELETION_INELIGIBLE)

    def halt(self, topics: Iterable[str], reason: str) -> None:
        """``markTopicIneligibleForDeletion``: these topics cannot be deleted now."""
        halted = self._context.deletions.keys() & set(topics)
        if self.enabled and halted:
            self._context.deletions_halted |= halted
            _events.info("deletion_halted", topics=sorted(halted), reason=reason)

    @steps
    def resume(self) -> Steps[None]:
        """``resumeDeletions``: does the next thing for each marked topic."""
        if not self.enabled:
            return
        context = self._context
        to_retry, to_delete = [], []
        for topic in list(context.deletions):
            # Every broker has deleted its replica.
            if context.all_replicas_in(topic, ReplicaPhase.DELETION_SUCCESSFUL):
                yield self._complete(topic)
                continue
            # Brokers were asked: their answers bring the topic here again.
            if context.any_replica_in(topic, ReplicaPhase.DELETION_STARTED):
                continue
            # A broker failed or refused: the replica goes back to offline, from where its deletion can be
            # started again.
            if context.any_replica_in(topic, ReplicaPhase.DELETION_INELIGIBLE):
                to_retry.append(topic)
            if topic not in context.deletions_halted:
                to_delete.append(topic)
        if to_retry:
            failed = [
                replica
                for topic in to_retry
                for replica in context.replicas_in(topic, ReplicaPhase.DELETION_INELIGIBLE)
            ]
            yield self._replicas.handle(failed, ReplicaPhase.OFFLINE)
        if to_delete:
            yield self._delete(to_delete)

    @steps
    def _complete(self, topic: str) -> Steps[None]:
        """``completeDeleteTopic``: every replica was deleted; the topic's znodes are removed, and the topic
        is forgotten.
        """
        deleted = self._context.replicas_in(topic, ReplicaPhase.DELETION_SUCCESSFUL)
        yield self._replicas.handle(deleted, ReplicaPhase.NON_EXISTENT)
        # The topic's own removal must not be taken for a change of its partitions.
        self._watches.mute(znodes.topic_path(topic))
        # The mark goes last: a controller that fails in between finds it, and completes the deletion.
        yield self._store.delete_tree(znodes.topic_path(topic))
        yield self._store.delete_quietly([znodes.config_path("topics", znodes.sanitize(topic))])
        yield self.delete_marks([topic])
        self._context.remove_topic(topic)
        _events.info("topic_deleted", topic=topic)

    def delete_marks(self, topics: Iterable[str]) -> Pending[None]:
        """Removes the znodes that mark topics for deletion."""
        return self._store.delete_quietly(znodes.delete_topic_path(topic) for topic in topics)

    @steps
    def _delete(self, topics: list[str]) -> Steps[None]:
        """``onTopicDeletion``: takes the partitions offline, says so to all brokers, and has the replicas
        deleted.
        """
        context = self._context
        # A topic that was halted and tried again has been through this.
        unseen = [topic for topic in topics if topic not in context.deletions_begun]
        partitions = [tp for topic in unseen for tp in context.partitions_of(topic)]
        yield self._partitions.handle(partitions, PartitionPhase.OFFLINE)
        yield self._partitions.handle(partitions, PartitionPhase.NON_EXISTENT)
        context.deletions_begun |= set(unseen)
        yield self._batch.send_update_metadata(
            [tp for topic in topics for tp in context.partitions_of(topic)]
        )
        yield self._delete_replicas(topics)

    @steps
    def _delete_replicas(self, topics: list[str]) -> Steps[None]:
        """``onPartitionDeletion``: each live replica is stopped, then deleted; a dead one halts its topic."""
        context = self._context
        phases = context.replica_phases
        dead: list[Replica] = []
        alive: list[Replica] = []
        for replica in context.replicas_of(tp for topic in topics for tp in context.partitions_of(topic)):
            if phases.get(replica) is ReplicaPhase.DELETION_SUCCESSFUL:
                continue  # it is deleted: its broker need not be alive
            (alive if context.is_online(replica.broker_id, replica.tp) else dead).append(replica)
        # A dead replica cannot be asked. The live ones are, also when the topic has to wait for the dead.
        yield self._make_ineligible(dead)
        yield self._replicas.handle(alive, ReplicaPhase.OFFLINE)
        yield self._replicas.handle(alive, ReplicaPhase.DELETION_STARTED)
        if dead:
            self.halt({replica.topic for replica in dead}, reason="offline replicas")
