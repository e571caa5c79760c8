"""Blocks of producer ids, handed out through /latest_producer_id_block (``ZkProducerIdManager``)."""

from typing import NamedTuple

from barnabas.cluster.controller.term import Term
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import BadVersionError, MetadataStore
from barnabas.cluster.store.unreadable import readable
from barnabas.core.config import LONG_MAX
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.pending import Steps, steps


class ProducerIdBlock(NamedTuple):
    """`size` ids from `first` that only one broker hands out."""

    first: int
    size: int


class ProducerIdsExhaustedError(BarnabasError):
    """All 2^63 ids are given out."""


@steps
def process_allocate_producer_ids(term: Term, broker_id: int, broker_epoch: int) -> Steps[ProducerIdBlock]:
    """``processAllocateProducerIds``. Raises KafkaError: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH."""
    known = term.context.broker_epochs.get(broker_id)
    if known is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED)
    # A request of the broker's former life.
    if known != broker_epoch:
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
    block: ProducerIdBlock = yield allocate_block(term.store.store, broker_id, term.clock.time_ms())
    return block


@steps
def allocate_block(store: MetadataStore, broker_id: int, now_ms: int) -> Steps[ProducerIdBlock]:
    """The next block; tried again where another broker took it first."""
    while True:
        data, stat = yield store.get(znodes.PRODUCER_ID_BLOCK)
        last = readable(store, znodes.PRODUCER_ID_BLOCK, znodes.decode_producer_ids_end, data)
        if last is None:
            # No id may be given out twice. There have been fewer than a thousand a millisecond since 1970.
            last = now_ms * znodes.PRODUCER_ID_BLOCK_SIZE
        if last > LONG_MAX - znodes.PRODUCER_ID_BLOCK_SIZE:
            raise ProducerIdsExhaustedError("Have exhausted all producerIds.")
        payload = znodes.encode_producer_ids(broker_id, last + 1)
        try:
            yield store.set(znodes.PRODUCER_ID_BLOCK, payload, stat.version)
        except BadVersionError:
            continue
        return ProducerIdBlock(last + 1, znodes.PRODUCER_ID_BLOCK_SIZE)
