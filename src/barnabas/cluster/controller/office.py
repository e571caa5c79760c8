"""The office of the controller in the store: who holds it, how it is claimed, how it is given up.

/controller names the broker that holds it and goes with the session of that broker; /controller_epoch counts the terms.
"""

from barnabas.cluster.controller.fenced_store import ControllerMovedError, FencedStore
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
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import NO_BROKER
from barnabas.core.pending import Steps, steps

_events = EventLog("cluster.controller")


@steps
def holder(store: MetadataStore) -> Steps[int]:
    """The broker that is elected; `NO_BROKER` while none is."""
    try:
        data, _ = yield store.get(znodes.CONTROLLER)
    except NoNodeError:
        return NO_BROKER
    return znodes.decode_controller(data)


@steps
def claim(store: MetadataStore, broker_id: int, now_ms: int) -> Steps[tuple[int, int]]:
    """The new epoch and the version of its znode; ControllerMovedError where another was faster."""
    epoch, version = yield _epoch(store)
    operations: list[Operation] = [
        Create(znodes.CONTROLLER, znodes.encode_controller(broker_id, now_ms), ephemeral=True),
        SetData(znodes.CONTROLLER_EPOCH, str(epoch + 1).encode(), version),
    ]
    try:
        _, stat = yield store.multi(operations)
    except (NodeExistsError, BadVersionError) as error:
        mine = (yield holder(store)) == broker_id
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
                yield store.create(znodes.CONTROLLER_EPOCH, b"0")
            except NodeExistsError:
                _events.debug("controller_epoch_created_by_another")
            continue
        return int(data), stat.version


@steps
def give_up(store: MetadataStore, epoch: int, epoch_version: int) -> Steps[None]:
    """Removes /controller, if the office is still that of this epoch; ControllerMovedError if not, NoNodeError if it is gone.

    The store of the term refuses all writes after its end, so this one goes through a fence of its own.
    """
    yield FencedStore(store, epoch, epoch_version).write(Delete(znodes.CONTROLLER))
