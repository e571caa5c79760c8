"""Events of a term about topics: they are created, get partitions, are marked for deletion, are deleted."""

from typing import Final

from barnabas.cluster.controller.context import Replica
from barnabas.cluster.controller.reassignment import maybe_resume_reassignments
from barnabas.cluster.controller.states import ReplicaPhase
from barnabas.cluster.controller.term import Term
from barnabas.cluster.leadership import ReplicaAssignment, TopicAssignment
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError, SetData
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.controller.topics")


@steps
def process_topic_change(term: Term) -> Steps[None]:
    """``processTopicChange``: compares /brokers/topics with what is known."""
    context = term.context
    topics = yield term.watches.children(znodes.TOPICS)
    new = [topic for topic in topics if topic not in context.topics]
    deleted = [topic for topic in context.topics if topic not in set(topics)]
    context.set_topics(topics)
    # Reading leaves the watch for later changes of each topic.
    assignments = yield term.read_topics(new)
    for topic in deleted:
        context.remove_topic(topic)
    yield term.adopt_topics(assignments)
    _events.info("topic_change", new=sorted(assignments), deleted=deleted)
    # A new topic has no partition states yet: each partition gets its first leader.
    added = [tp for topic in assignments for tp in context.partitions_of(topic)]
    if added:
        yield term.on_new_partition_creation(added)


@steps
def process_partition_modifications(term: Term, topic: str) -> Steps[None]:
    """``processPartitionModifications``: a topic's assignment was written, partitions may have been added."""
    context = term.context
    try:
        data, _ = yield term.watches.get(znodes.topic_path(topic))
    except NoNodeError:
        return
    assignment = readable(term.store.store, znodes.topic_path(topic), znodes.decode_topic, data)
    # Unreadable, or deleted by an event that came first.
    if assignment is None or topic not in context.topics:
        return
    # Until now the znode was unreadable, and the topic was held apart.
    if topic not in context.assignments:
        yield _serve_again(term, topic, assignment)
        return
    # Partitions that the context has no replicas for were added by CreatePartitions or a tool.
    added = {
        TopicPartition(topic, partition): replicas
        for partition, replicas in assignment.partitions.items()
        if not context.assignment(TopicPartition(topic, partition)).replicas
    }
    # The controller's own write (a reassignment, a topic id): nothing is new.
    if not added:
        return
    # Partitions that came during a deletion would not take part in it.
    if context.being_deleted(topic):
        _events.warning("partitions_not_added", topic=topic, reason="the topic is being deleted")
        yield _restore_assignment(term, topic, assignment)
        return
    _events.info("partitions_added", topic=topic, partitions=sorted(tp.partition for tp in added))
    for tp, replicas in added.items():
        context.assign(tp, replicas)
    yield term.on_new_partition_creation(list(added))


@steps
def _serve_again(term: Term, topic: str, assignment: TopicAssignment) -> Steps[None]:
    """The znode of a topic that was held apart is readable again: as at the beginning of a term."""
    _events.info("topic_served_again", topic=topic)
    yield term.serve({topic: assignment})
    yield maybe_resume_reassignments(term, lambda tp, _: tp.topic == topic)
    yield term.deletion.resume_for([topic])


@steps
def _restore_assignment(term: Term, topic: str, written: TopicAssignment) -> Steps[None]:
    """``restorePartitionReplicaAssignment``:
    takes out partitions that were added while the topic is being deleted.
    """
    existing: dict[int, ReplicaAssignment] = {
        partition: written.partitions[partition]
        for partition in znodes.numbered((yield term.store.children(znodes.partitions_path(topic))))
        if partition in written.partitions
    }
    payload = znodes.encode_topic(TopicAssignment(written.topic_id, existing))
    yield term.store.write(SetData(znodes.topic_path(topic), payload))


@steps
def process_topic_deletion(term: Term) -> Steps[None]:
    """``processTopicDeletion``: topics were marked for deletion."""
    marked = yield term.watches.children(znodes.DELETE_TOPICS)
    unknown = [topic for topic in marked if topic not in term.context.topics]
    # No such topic: a mark without one would never be removed.
    if unknown:
        _events.warning("deletion_of_unknown_topics", topics=unknown)
        yield term.deletion.delete_marks(unknown)
    known = [topic for topic in marked if topic in term.context.topics]
    if not term.deletion.enabled:
        _events.info("deletion_disabled", topics=known)
        yield term.deletion.delete_marks(known)
    elif known:
        yield term.deletion.enqueue(known)


@steps
def process_stop_replica_response(
    term: Term, broker_id: int, error: ErrorCode, errors: dict[TopicPartition, ErrorCode]
) -> Steps[None]:
    """``processTopicDeletionStopReplicaResponseReceived``: a broker deleted replicas, or failed to.

    An answer counts for a deletion that is under way. A late one may be of a replica that a reassignment took
    away, or of a broker that has died since.
    """
    phases = term.context.replica_phases
    asked = [
        tp for tp in sorted(errors) if phases.get(Replica(tp, broker_id)) is ReplicaPhase.DELETION_STARTED
    ]
    # An error of the whole request is one of each partition.
    failed = [Replica(tp, broker_id) for tp in asked if error or errors[tp]]
    yield term.deletion.replicas_failed(failed)
    done = [Replica(tp, broker_id) for tp in asked if not (error or errors[tp])]
    if done:
        yield term.deletion.replicas_deleted(done)
