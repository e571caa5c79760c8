"""Events of a term about brokers:
they come, go, bounce, change their endpoints, lose a log directory, shut down.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.channel_manager import LeaderAndIsrAnswer
from barnabas.cluster.controller.context import Replica
from barnabas.cluster.controller.election import Strategy
from barnabas.cluster.controller.reassignment import maybe_resume_reassignments
from barnabas.cluster.controller.states import PartitionPhase, ReplicaPhase
from barnabas.cluster.controller.term import Term
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, gather, steps

_events: Final = EventLog("cluster.controller.brokers")
_shutdown_events: Final = EventLog("cluster.controller.shutdown")

UNKNOWN_BROKER_EPOCH: Final = -1


@steps
def process_broker_change(term: Term) -> Steps[None]:
    """``processBrokerChange``: compares /brokers/ids with what is known."""
    # Watches may stand for several changes, so what is registered is compared with what is known.
    registered: dict[int, tuple[Broker, int]] = {
        broker.id: (broker, epoch) for broker, epoch in (yield term.read_brokers())
    }
    known = dict(term.context.broker_epochs)
    new = sorted(registered.keys() - known.keys())
    dead = sorted(known.keys() - registered.keys())
    # The same id with a later czxid: it went and came back before this event was processed.
    bounced = sorted(each for each in registered.keys() & known.keys() if registered[each][1] > known[each])
    _events.info("broker_change", new=new, dead=dead, bounced=bounced, live=sorted(registered))
    # Requests in the old queues carry the old broker epoch, and would be refused.
    for broker_id in (*bounced, *dead):
        term.channel.remove_broker(broker_id)
    for broker_id in (*new, *bounced):
        term.channel.add_broker(registered[broker_id][0])
    if new:
        yield _on_broker_startup(term, [registered[broker_id] for broker_id in new])
    # It failed and started between two events: both are processed, in this order.
    if bounced:
        yield _on_broker_failure(term, bounced)
        yield _on_broker_startup(term, [registered[broker_id] for broker_id in bounced])
    if dead:
        yield _on_broker_failure(term, dead)


@steps
def _on_broker_startup(term: Term, arrivals: list[tuple[Broker, int]]) -> Steps[None]:
    """``onBrokerStartup``: the others learn of the new brokers, these learn everything and get their
    replicas.
    """
    context = term.context
    for broker, epoch in arrivals:
        context.add_broker(broker, epoch)
        context.offline_log_dirs.pop(broker.id, None)
    ids = [broker.id for broker, _ in arrivals]
    # The others first: a new leader must know the address of a follower that fetches from it.
    yield term.batch.send_update_metadata([], [each for each in context.live_brokers if each not in ids])
    yield term.batch.send_update_metadata(context.partitions_with_leaders(), ids)
    # LeaderAndIsr to them; then partitions that have waited for one of them alone get it as leader.
    replicas = context.replicas_on(ids)
    yield term.replicas.handle(_not_deleted(term, replicas), ReplicaPhase.ONLINE)
    yield term.partitions.trigger_online()
    yield maybe_resume_reassignments(
        term, lambda _, assignment: any(each in ids for each in assignment.target)
    )
    # A deletion may have waited for a replica that is back.
    yield term.deletion.resume_for({each.topic for each in replicas})
    yield term.watch_brokers(ids)


def _not_deleted(term: Term, replicas: list[Replica]) -> list[Replica]:
    """Those that come online. A replica that its broker has deleted stays deleted while its topic waits for
    other brokers.
    """
    phases = term.context.replica_phases
    return [each for each in replicas if phases.get(each) is not ReplicaPhase.DELETION_SUCCESSFUL]


@steps
def _on_broker_failure(term: Term, broker_ids: list[int]) -> Steps[None]:
    """``onBrokerFailure``: their replicas are offline; what they led gets other leaders."""
    for broker_id in broker_ids:
        term.context.remove_broker(broker_id)
        term.context.offline_log_dirs.pop(broker_id, None)
        term.context.shutting_down.discard(broker_id)
        term.watches.mute(znodes.broker_path(broker_id))
    yield term.on_replicas_become_offline(term.context.replicas_on(broker_ids))


@steps
def process_broker_modification(term: Term, name: str) -> Steps[None]:
    """``processBrokerModification``:
    a broker wrote its registration, others learn new endpoints or features. That it is cordoned is known
    to the controller alone.
    """
    broker_id = int(name)
    try:
        data, _ = yield term.watches.get(znodes.broker_path(broker_id))
    except NoNodeError:
        return
    path = znodes.broker_path(broker_id)
    old = term.context.live_brokers.get(broker_id)
    new = readable(term.store.store, path, znodes.decode_broker, broker_id, data)
    if old is not None and new is not None and old.cordoned != new.cordoned:
        _events.info("broker_cordoned" if new.cordoned else "broker_uncordoned", broker=broker_id)
        term.context.live_brokers[broker_id] = replace(old, cordoned=new.cordoned)
    # As in Kafka a new rack alone is not sent to the others.
    if old is not None and new is not None and (old.endpoints, old.features) != (new.endpoints, new.features):
        _events.info("broker_modified", broker=new)
        term.context.live_brokers[broker_id] = new
        yield term.batch.send_update_metadata([])


@steps
def process_log_dir_event_notification(term: Term) -> Steps[None]:
    """``processLogDirEventNotification``: brokers lost log directories.

    They answer which replicas are left when their LeaderAndIsr is sent again.
    """
    names = yield term.watches.children(znodes.LOG_DIR_EVENTS)
    paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
    reads = [term.store.store.get(path) for path in paths]
    yield gather(reads)
    named = (
        readable(term.store.store, path, znodes.decode_log_dir_event, read.result()[0])
        for path, read in zip(paths, reads, strict=True)
        if read.error is None
    )
    broker_ids = {broker_id for broker_id in named if broker_id is not None}
    try:
        # LeaderAndIsr once more: the answers name the partitions whose directory has failed.
        replicas = term.context.replicas_on(broker_ids)
        yield term.replicas.handle(_not_deleted(term, replicas), ReplicaPhase.ONLINE)
    finally:
        yield term.store.delete_quietly(paths)


@steps
def process_leader_and_isr_response(term: Term, answer: LeaderAndIsrAnswer, broker_id: int) -> Steps[None]:
    """``processLeaderAndIsrResponseReceived``:
    replicas whose log directory failed there are offline from now on.
    """
    if answer.error is not ErrorCode.NONE:
        _events.error("leader_and_isr_refused", broker=broker_id, error=answer.error.name)
        return
    online: set[TopicPartition] = set()
    failed: set[TopicPartition] = set()
    for tp, code in _partition_errors(term, answer):
        if code == ErrorCode.NONE:
            online.add(tp)
        elif code == ErrorCode.KAFKA_STORAGE_ERROR:
            failed.add(tp)
    # The answer speaks of some partitions: the others are as they were known.
    before = term.context.offline_log_dirs.get(broker_id, set())
    now = (before - online) | failed
    term.context.offline_log_dirs[broker_id] = now
    # A late answer may be of a partition that has been deleted, or moved away, since.
    newly = [
        Replica(tp, broker_id)
        for tp in sorted(now - before)
        if broker_id in term.context.assignment(tp).replicas
    ]
    if newly:
        _events.warning("replicas_offline", broker=broker_id, partitions=[str(each.tp) for each in newly])
        yield term.on_replicas_become_offline(newly)


def _partition_errors(term: Term, answer: LeaderAndIsrAnswer) -> Iterable[tuple[TopicPartition, int]]:
    names = term.context.topic_names
    for topic, partition, code in answer.partitions:
        name = topic if isinstance(topic, str) else names.get(topic)
        if name is not None:
            yield TopicPartition(name, partition), code


@steps
def controlled_shutdown(term: Term, broker_id: int, broker_epoch: int) -> Steps[list[TopicPartition]]:
    """``doControlledShutdown``: the replicated partitions that the broker still leads; none means that it may
    stop.

    Raises KafkaError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR for an unknown broker
    with an epoch.
    """
    context = term.context
    if broker_id not in context.live_brokers:
        # Kafka compares the epoch first, if one is given, and fails where the broker has none.
        if broker_epoch != UNKNOWN_BROKER_EPOCH:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
    current = context.broker_epochs[broker_id]
    if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < current:
        raise KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Received controlled shutdown request from an old broker epoch {broker_epoch} for broker "
            f"{broker_id}. Current broker epoch is {current}.",
        )
    _shutdown_events.info("shutting_down", broker=broker_id)
    # From here on it is elected nowhere, and may not join an ISR (KIP-841).
    context.shutting_down.add(broker_id)
    # A partition with one replica stays with the broker: nobody else has it.
    replicated = [
        tp
        for tp in context.partitions_on(broker_id)
        if len(context.assignment(tp).replicas) > 1
        and tp in context.leadership
        and not context.being_deleted(tp.topic)
    ]
    led = [tp for tp in replicated if context.leadership[tp].leader == broker_id]
    followed = [tp for tp in replicated if context.leadership[tp].leader != broker_id]
    yield term.partitions.handle(led, PartitionPhase.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
    # Followers stop fetching first, so that they leave the ISR by this decision and not by lagging.
    term.batch.begin()
    for tp in followed:
        term.batch.add_stop_replica([broker_id], tp, delete=False)
    term.batch.send()
    yield term.replicas.handle([Replica(tp, broker_id) for tp in followed], ReplicaPhase.OFFLINE)
    return context.partitions_led_by(broker_id)
