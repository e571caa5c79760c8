"""Which rare states a history of transactions has come to (`barnabas.testing.sometimes`)."""

from typing import Any, Final, Protocol, TypeVar

from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.transaction.metadata import TransactionMetadata
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from barnabas.core.chunks import materialize
from barnabas.core.errors import KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from barnabas.log.log import Log
from barnabas.log.manager import LogManager
from barnabas.protocol.coordinator.topics import TRANSACTION_STATE
from barnabas.protocol.message import Request
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from barnabas.records.batch import batch_headers, decode_records_of
from barnabas.replica.manager import ReplicaManager
from barnabas.testing.sometimes import sometimes

T = TypeVar("T")

_S: Final = TransactionState
_WHOLE: Final = 1 << 30


class Coordinating(Protocol):
    """What is looked at in a broker."""

    replicas: ReplicaManager
    logs: LogManager
    group_coordinator: GroupCoordinator
    transaction_coordinator: TransactionCoordinator


def before(broker: Coordinating, request: Request) -> None:
    """A broker is about to handle a request, in this moment."""
    if isinstance(request, WriteTxnMarkersRequest):
        _before_markers(broker, request)
    elif isinstance(request, InitProducerIdRequest):
        _before_producer(_known(broker, request.transactional_id))
    elif isinstance(request, EndTxnRequest):
        known = _known(broker, request.transactional_id)
        if known is not None and request.committed and known.state is _S.COMPLETE_COMMIT:
            sometimes("a commit is asked for again when all is done")


def _before_markers(broker: Coordinating, request: WriteTxnMarkersRequest) -> None:
    loading = set(broker.group_coordinator.loading)
    for marker in request.markers:
        for topic in marker.topics:
            if topic.name == GROUP_METADATA_TOPIC and loading & set(topic.partition_indexes):
                sometimes("a marker comes while the offsets of its partition are being loaded")
            for number in topic.partition_indexes:
                log = broker.logs.get(TopicPartition(topic.name, number))
                state = None if log is None else log.producers.producers.get(marker.producer_id)
                if state is None or state.current_txn_first_offset is not None:
                    continue
                if (state.epoch, state.coordinator_epoch) == (
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                ):
                    sometimes("a marker is doubled")


def _before_producer(known: TransactionMetadata | None) -> None:
    if known is None:
        return
    if known.pending_state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT):
        sometimes("a producer begins while the end of the last transaction is pending")
    if known.pending_state is _S.ONGOING:
        sometimes("a producer begins while an addition is pending")
    if known.state.is_prepared:
        sometimes("a producer begins while the markers of the last transaction are on their way")
    if known.has_failed_epoch_fence:
        sometimes("a fence that could not be written is tried again")


def _known(broker: Coordinating, transactional_id: str | None) -> TransactionMetadata | None:
    try:
        return broker.transaction_coordinator.describe(transactional_id or "")
    except KafkaError:
        return None


def marker_goes_to(leader: int | None) -> None:
    """The leader of a partition that needs a marker."""
    if leader is None:
        sometimes("a partition of a transaction is deleted before its marker is written")


def watch_elections(broker: Coordinating) -> None:
    """Looks at what a new coordinator is about to load."""
    listeners = broker.replicas.listeners.leadership
    listeners[TRANSACTION_STATE_TOPIC] = _Elections(broker)


class _Elections:
    """Stands before the transaction coordinator."""

    def __init__(self, broker: Coordinating) -> None:
        self._broker = broker

    def elected(self, partition: int, leader_epoch: int) -> None:
        """As `LeadershipListener.elected`."""
        log = self._broker.logs.get(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
        prepared = [] if log is None else _prepared(log)
        if prepared:
            sometimes("a coordinator moves between a decision and its last marker")
        for offset in prepared:
            if log is not None and offset >= log.high_watermark:
                sometimes("a decision is loaded that the replicas may not have")
        self._broker.transaction_coordinator.elected(partition, leader_epoch)

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """As `LeadershipListener.resigned`."""
        self._broker.transaction_coordinator.resigned(partition, leader_epoch)


def _prepared(log: Log) -> list[int]:
    """The offsets of decisions that nothing follows."""
    last: dict[bytes, tuple[int, bytes | None]] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        records = log.read(offset, _WHOLE, min_one_message=True).records
        data = records if isinstance(records, bytes) else materialize([records])
        for header in batch_headers(data):
            for each in decode_records_of(data, header):
                last[bytes(each.key or b"")] = (each.offset, each.value)
            offset = header.next_offset
    found = []
    for key, (at, value) in last.items():
        state: Any = TRANSACTION_STATE.decode(key, None if value is None else bytes(value))[1]
        if state is not None and TransactionState(state.transaction_status).is_prepared:
            found.append(at)
    return found
