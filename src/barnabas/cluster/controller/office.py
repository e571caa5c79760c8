"""The office of the controller in the store: who holds it, how it is claimed, how it is given up.

/controller names the broker that holds it and goes with the session of that broker; /controller_epoch counts
the terms. The cluster must elect controllers also when /controller_epoch is unreadable. No epoch may be used
twice, and brokers refuse an epoch below the last one that they have seen. So the next epoch is then far above
all epochs in the states of partitions.
"""

from typing import Final

from barnabas.cluster.controller.fenced_store import ControllerMovedError, FencedStore
from barnabas.cluster.leadership import PartitionLeadership
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import (
    BadVersionError,
    Create,
    Delete,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Operation,
    SetData,
)
from barnabas.cluster.store.unreadable import readable
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_BROKER, TopicPartition
from barnabas.core.pending import Steps, steps

_events = EventLog("cluster.controller")

EPOCH_LEAP: Final = 10_000
"""More terms than may have passed without a partition that got a leader."""


@steps
def holder(store: MetadataStore, own_id: int) -> Steps[int]:
    """The broker that is elected; `NO_BROKER` while none is, or while it is not known which."""
    try:
        data, stat = yield store.get(znodes.CONTROLLER)
    except NoNodeError:
        return NO_BROKER
    broker_id = readable(store, znodes.CONTROLLER, znodes.decode_controller, data)
    if broker_id is not None:
        return broker_id
    # Its session still says whether the znode is this broker's. If it is another's, a claim fails because the
    # znode is there, and this broker waits until it changes or goes.
    return own_id if stat.ephemeral_owner == store.session_id else NO_BROKER


@steps
def claim(store: MetadataStore, broker_id: int, now_ms: int) -> Steps[tuple[int, int]]:
    """The new epoch and the version of its znode; ControllerMovedError where another was faster."""
    epoch, version = yield _epoch(store)
    # One transaction: nobody can hold /controller under an epoch that another one has raised (KAFKA-6082).
    operations: list[Operation] = [
        Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch + 1), version),
    ]
    try:
        _, stat = yield store.multi(operations)
    except (NodeExistsError, BadVersionError) as error:
        # The transaction failed: another broker has been faster, or the answer to an earlier try of this
        # broker was lost.
        mine = (yield holder(store, broker_id)) == broker_id
        now, now_version = yield _epoch(store)
        if mine and now == epoch + 1:
            return now, now_version  # an answer was lost: the znodes are ours
        raise ControllerMovedError from error
    return epoch + 1, stat.version


@steps
def _epoch(store: MetadataStore) -> Steps[tuple[int, int]]:
    """The epoch of the last term, and the version of its znode."""
    while True:
        try:
            data, stat = yield store.get(znodes.CONTROLLER_EPOCH)
        except NoNodeError:
            try:
                yield store.create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
            except NodeExistsError:
                _events.debug("controller_epoch_created_by_another")
            continue
        epoch = readable(store, znodes.CONTROLLER_EPOCH, znodes.decode_controller_epoch, data)
        if epoch is None:
            epoch = (yield _last_epoch_of_partitions(store)) + EPOCH_LEAP
        return epoch, stat.version


@steps
def _last_epoch_of_partitions(store: MetadataStore) -> Steps[int]:
    """The epoch of the last controller that gave a partition its leader, as far as the states can be read."""
    reader = FencedStore(store, epoch=0, epoch_version=0)
    partitions = []
    for topic in (yield reader.children(znodes.TOPICS)):
        names = yield reader.children(znodes.partitions_path(topic))
        partitions += [TopicPartition(topic, number) for number in znodes.numbered(names)]
    states = yield reader.partition_states(partitions)
    return max(
        (each.controller_epoch for each in states.values() if isinstance(each, PartitionLeadership)),
        default=0,
    )


@steps
def give_up(store: MetadataStore, epoch: int, epoch_version: int) -> Steps[None]:
    """Removes /controller, if the office is still that of this epoch; ControllerMovedError if not,
    NoNodeError if there is no such znode.

    The store of the term refuses all writes after its end, so this one goes through a fence of its own.
    """
    yield FencedStore(store, epoch, epoch_version).write(Delete(znodes.CONTROLLER))
