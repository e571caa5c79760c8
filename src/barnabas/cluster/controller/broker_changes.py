"""Events of a term about brokers: they come, go, bounce, change their endpoints, lose a log directory."""

from collections.abc import Iterable
from typing import Final

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.context import Replica
from barnabas.cluster.controller.states import ReplicaPhase
from barnabas.cluster.controller.term import Term
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import NoNodeError
from barnabas.core.errors import ErrorCode
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Steps, gather, steps
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrResponse

_events: Final = EventLog("cluster.controller.brokers")


@steps
def broker_change(term: Term) -> Steps[None]:
    """Compares /brokers/ids with what is known (``processBrokerChange``)."""
    registered: dict[int, tuple[Broker, int]] = {
        broker.id: (broker, epoch) for broker, epoch in (yield term.read_brokers())
    }
    known = dict(term.context.broker_epochs)
    new = sorted(registered.keys() - known.keys())
    dead = sorted(known.keys() - registered.keys())
    # The same id with a later czxid: it went and came back before this event was processed.
    bounced = sorted(each for each in registered.keys() & known.keys() if registered[each][1] > known[each])
    _events.info("broker_change", new=new, dead=dead, bounced=bounced, live=sorted(registered))
    for broker_id in (*bounced, *dead):
        term.channel.remove_broker(broker_id)
    for broker_id in (*new, *bounced):
        term.channel.add_broker(registered[broker_id][0])
    if new:
        yield _came(term, [registered[broker_id] for broker_id in new])
    if bounced:
        yield _went(term, bounced)
        yield _came(term, [registered[broker_id] for broker_id in bounced])
    if dead:
        yield _went(term, dead)


@steps
def _came(term: Term, arrivals: list[tuple[Broker, int]]) -> Steps[None]:
    """``onBrokerStartup``: the others learn of the new brokers, these learn everything and get their replicas."""
    context = term.context
    for broker, epoch in arrivals:
        context.add_broker(broker, epoch)
        context.offline_log_dirs.pop(broker.id, None)
    ids = [broker.id for broker, _ in arrivals]
    term.send_update_metadata([], [each for each in context.live_brokers if each not in ids])
    term.send_update_metadata(context.partitions_with_leaders(), ids)
    replicas = context.replicas_on(ids)
    yield term.replicas.handle(replicas, ReplicaPhase.ONLINE)
    yield term.partitions.trigger_online()
    yield term.deletion.resume_for({each.topic for each in replicas})
    yield term.watch_brokers(ids)


@steps
def _went(term: Term, broker_ids: list[int]) -> Steps[None]:
    """``onBrokerFailure``."""
    for broker_id in broker_ids:
        term.context.remove_broker(broker_id)
        term.context.offline_log_dirs.pop(broker_id, None)
        term.context.shutting_down.discard(broker_id)
        term.watches.mute(znodes.broker_path(broker_id))
    yield term.replicas_went_offline(term.context.replicas_on(broker_ids))


@steps
def broker_modification(term: Term, broker_id: int) -> Steps[None]:
    """A broker wrote its registration: others learn new endpoints or features."""
    try:
        data, _ = yield term.watches.get(znodes.broker_path(broker_id), term.events.broker_written)
    except NoNodeError:
        return
    old, new = term.context.live_brokers.get(broker_id), znodes.decode_broker(broker_id, data)
    if old is not None and (old.endpoints, old.features) != (new.endpoints, new.features):
        _events.info("broker_modified", broker=new)
        term.context.live_brokers[broker_id] = new
        term.send_update_metadata([])


@steps
def log_dir_failure(term: Term) -> Steps[None]:
    """Brokers lost log directories: asks them which replicas are left, by sending their LeaderAndIsr again."""
    names = yield term.watches.children(znodes.LOG_DIR_EVENTS, term.events.log_dir_event)
    paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in names]
    reads = [term.store.store.get(path) for path in paths]
    yield gather(reads)
    broker_ids = {znodes.decode_log_dir_event(each.result()[0]) for each in reads if each.error is None}
    try:
        yield term.replicas.handle(term.context.replicas_on(broker_ids), ReplicaPhase.ONLINE)
    finally:
        yield term.store.delete_quietly(paths)


@steps
def leader_and_isr_answered(term: Term, response: LeaderAndIsrResponse, broker_id: int) -> Steps[None]:
    """A broker answered; replicas whose log directory failed there are offline from now on."""
    if response.error_code != ErrorCode.NONE:
        _events.error(
            "leader_and_isr_refused", broker=broker_id, error=ErrorCode.of(response.error_code).name
        )
        return
    online, failed = _sorted_out(term, response)
    before = term.context.offline_log_dirs.get(broker_id, set())
    now = (before - online) | failed
    term.context.offline_log_dirs[broker_id] = now
    newly = [Replica(tp, broker_id) for tp in sorted(now - before)]
    if newly:
        _events.warning("replicas_offline", broker=broker_id, partitions=[str(each.tp) for each in newly])
        yield term.replicas_went_offline(newly)


def _sorted_out(
    term: Term, response: LeaderAndIsrResponse
) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """The partitions that are well, and those that answered KAFKA_STORAGE_ERROR."""
    online: set[TopicPartition] = set()
    failed: set[TopicPartition] = set()
    for tp, code in _errors(term, response):
        if code == ErrorCode.NONE:
            online.add(tp)
        elif code == ErrorCode.KAFKA_STORAGE_ERROR:
            failed.add(tp)
    return online, failed


def _errors(term: Term, response: LeaderAndIsrResponse) -> Iterable[tuple[TopicPartition, int]]:
    for error in response.partition_errors:  # before version 5
        yield TopicPartition(error.topic_name, error.partition_index), error.error_code
    for topic in response.topics:
        name = term.context.topic_names.get(topic.topic_id)
        if name is not None:
            for error in topic.partition_errors:
                yield TopicPartition(name, error.partition_index), error.error_code
