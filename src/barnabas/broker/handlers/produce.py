"""Produce (0), v0-11.

Behaviour: appends each partition's batch; acks=0 gets no answer, and a closed connection where one failed,
so that the producer looks for the leader again; acks=all is answered when the ISR has the records.
Versions:  v3 one batch of magic 2 a partition · v7 zstd · v8 error messages (KIP-467) · v9 flexible ·
           v10 names the leader where another broker is asked (KIP-951).
           v0-2 are advertised, because librdkafka looks for them (KAFKA-18659), and refused per partition
           with UNSUPPORTED_FOR_MESSAGE_FORMAT: this broker knows batches of magic 2 only (KIP-896).
Repeats:   a partition that a request names several times is appended to once, with the records named last.
Limit:     of the refused records of a batch the first 100 are named.
Not implemented: asking the transaction's coordinator before the first batch in a partition (KIP-890).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import ADMIN_CLIENT_ID, Deferred, RequestContext
from barnabas.broker.leaders import current_leader
from barnabas.broker.registry import handles
from barnabas.broker.transaction_requests import require_transactional_id
from barnabas.cluster.metadata.cache import PartitionState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, TopicPartition, topic_partition
from barnabas.core.pending import Pending, Steps, gather, steps
from barnabas.core.slices import Sliced, in_one_piece, in_slices
from barnabas.network.errors import CloseConnection
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from barnabas.records.batch import CODEC_MASK, TRANSACTIONAL_BIT, BatchHeader, only_header
from barnabas.records.compression import Codec
from barnabas.replica.produce import VALID_ACKS, Appender, AppendResult, Results

MAGIC_2_SINCE: Final = 3
ZSTD_SINCE: Final = 7
LEADERS_SINCE: Final = 10
ONE_PARTITION: Final = 2
"""The entries of a request for one partition: its topic and itself."""
AT_ONCE_MAX: Final = 100
"""Topics and partitions of a request that is worked off in one piece: nearly every request there is."""
PORTION: Final = 20
"""Partitions of a larger request that are worked off in one piece; an append may take 50 us."""

_ERRORS_NAMED_MAX: Final = 10
_NO_RECORDS: Final = memoryview(b"")
_NOTHING: Final[Mapping[int, PartitionState]] = MappingProxyType({})

# Bound once: every request asks for these, and an enum takes its time to find a member.
_WRITE: Final = Operation.WRITE
_TOPIC: Final = Resource.TOPIC
_ZSTD: Final = int(Codec.ZSTD)
_TOPIC_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _failed(request: ProduceRequest, error: KafkaError, _version: int) -> Sliced[ProduceResponse]:
    if request.acks == 0:
        raise CloseConnection(f"Closing connection due to error during produce request with ack=0: {error}")
    response = ProduceResponse()
    for topic in (yield from _named_once(request.topic_data)):
        answer = TopicProduceResponse(name=topic.name)
        response.responses.append(answer)
        for partition in topic.partition_data:
            answer.partition_responses.append(
                PartitionProduceResponse(index=partition.index, error_code=error.code, base_offset=-1)
            )
            yield
        yield
    return response


@handles(ApiKey.PRODUCE, versions=(0, 11), failed=_failed)
def produce(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[ProduceResponse | None] | None:
    broker = context.broker
    entries = len(request.topic_data)
    for topic in request.topic_data:
        entries += len(topic.partition_data)
    if entries > AT_ONCE_MAX:
        return in_slices(_produce_much(context, request), context.broker.clock, holder=context.peer)
    if entries > ONE_PARTITION and _names_twice(request.topic_data):
        request.topic_data = in_one_piece(_named_once(request.topic_data))
    results: Results = []
    unsettled: list[Pending[None]] = []
    for topic in request.topic_data:
        _append(context, request, topic.name, topic.partition_data, results, unsettled, may_defer=True)
    for result in results:
        if result.unwritten is not None:
            context.deferred = _Unwritten(request, results)
            break
    if unsettled:
        return _when_settled(context, request, results, unsettled)
    outcome = broker.replica_manager.appender.acknowledge(results, request.acks, request.timeout_ms)
    if isinstance(outcome, Pending):
        return _when_acknowledged(context, request, outcome)
    return _respond(context, request, outcome)


def _names_twice(topics: list[TopicProduceData]) -> bool:
    """Whether a topic, or a partition of one, is there more than once."""
    if len(topics) > 1 and len({topic.name for topic in topics}) < len(topics):
        return True
    for topic in topics:
        entries = topic.partition_data
        if len(entries) > 1 and len({entry.index for entry in entries}) < len(entries):
            return True
    return False


def _named_once(topics: list[TopicProduceData]) -> Sliced[list[TopicProduceData]]:
    """Each topic and each partition once: what is named later replaces what was named before.

    Kafka's broker collects the records of a request in a map of partitions (``KafkaApis.handleProduceRequest``).
    A client that names a partition twice by mistake must not find its records twice in the log.
    """
    named: dict[str, dict[int, PartitionProduceData]] = {}
    for topic in topics:
        entries = named.setdefault(topic.name, {})
        for entry in topic.partition_data:
            entries[entry.index] = entry
            yield
        yield
    once = []
    for name, entries in named.items():
        once.append(TopicProduceData(name=name, partition_data=list(entries.values())))
        yield
    return once


class _Unwritten(Deferred):
    """A request with records that are written when the turn ends."""

    __slots__ = ("_request", "_results")

    def __init__(self, request: ProduceRequest, results: Results) -> None:
        self._request = request
        self._results = results

    def answer_again(self, context: RequestContext) -> ProduceResponse | None:
        return _respond(context, self._request, self._results)


def _when_acknowledged(
    context: RequestContext, request: ProduceRequest, acknowledged: Pending[Results]
) -> Pending[ProduceResponse | None]:
    return acknowledged.then(lambda done: _respond(context, request, done))


def _append(
    context: RequestContext,
    request: ProduceRequest,
    topic: str,
    entries: list[PartitionProduceData],
    results: Results,
    unsettled: list[Pending[None]],
    *,
    may_defer: bool = False,
) -> None:
    """Appends to partitions of one topic; `results` gets what became of each, `unsettled` what ends later."""
    broker, acks, version = context.broker, request.acks, context.version
    appender: Appender = broker.replica_manager.appender
    refusal = _refusal(context, topic, acks)
    known = broker.metadata_cache.snapshot.partitions.get(topic, _NOTHING)
    for partition in entries:
        index, data = partition.index, partition.records
        tp = topic_partition(topic, index)
        records = data if isinstance(data, memoryview) else _NO_RECORDS
        error: ErrorCode | None = None
        try:
            header = _checked_header(records, version)
            if header.attributes & TRANSACTIONAL_BIT:
                require_transactional_id(context, request.transactional_id)
        except KafkaError as invalid:
            error = invalid.code
            if error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise
        if index not in known and refusal is not _TOPIC_REFUSED:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif refusal is not None:
            error = refusal
        if error is not None:
            results.append(AppendResult(tp, error=error))
            continue
        result = appender.append(tp, records, acks, header=header, may_defer=may_defer)
        results.append(result)
        if result.settled is not None:
            unsettled.append(result.settled)


@steps
def _when_settled(
    context: RequestContext, request: ProduceRequest, results: Results, unsettled: list[Pending[None]]
) -> Steps[ProduceResponse | None]:
    """The answer where batches are validated in another process."""
    yield from _settled(context, unsettled)
    outcome = context.broker.replica_manager.appender.acknowledge(results, request.acks, request.timeout_ms)
    if isinstance(outcome, Pending):
        outcome = yield outcome
    return _respond(context, request, outcome)


def _settled(context: RequestContext, unsettled: list[Pending[None]]) -> Steps[None]:
    """Holds the connection until all is appended: what the producer sends next belongs behind it."""
    settled = gather(unsettled)
    if not settled.done:
        context.peer.hold()
        yield settled
        context.peer.release()


def _produce_much(context: RequestContext, request: ProduceRequest) -> Sliced[ProduceResponse | None]:
    """The same for a request of many partitions, a portion of them at a time."""
    request.topic_data = yield from _named_once(request.topic_data)
    results: Results = []
    appended: Results = []
    unsettled: list[Pending[None]] = []
    for topic in request.topic_data:
        yield
        entries = topic.partition_data
        for start in range(0, len(entries), PORTION):
            portion: Results = []
            _append(context, request, topic.name, entries[start : start + PORTION], portion, unsettled)
            results += portion
            appended += [
                result for result in portion if result.partition is not None or result.settled is not None
            ]
            yield
    yield from _settled(context, unsettled)
    # What was refused waits for nothing: so this is no longer than the list of what this broker leads.
    acknowledged = context.broker.replica_manager.appender.acknowledge(
        appended, request.acks, request.timeout_ms
    )
    if isinstance(acknowledged, Pending):
        yield acknowledged
    if request.acks == 0:
        _close_on_error(results)
        return None
    response = ProduceResponse()
    leaders: dict[int, NodeEndpoint] = {}
    first = 0
    for topic in request.topic_data:
        answer = TopicProduceResponse(name=topic.name)
        until = first + len(topic.partition_data)
        while first < until:
            portion = results[first : min(first + PORTION, until)]
            answer.partition_responses += _answers(context, portion, leaders)
            first += len(portion)
            yield
        response.responses.append(answer)
        yield
    response.node_endpoints = list(leaders.values())
    return response


def _refusal(context: RequestContext, topic: str, acks: int) -> ErrorCode | None:
    """Why nothing may be appended to a topic, if so."""
    if not context.authorize(_WRITE, _TOPIC, topic):
        return _TOPIC_REFUSED
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if topic in INTERNAL_TOPICS and context.header.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None


def _checked_header(records: memoryview, version: int) -> BatchHeader:
    """The header of the one whole batch that there must be; raises what is wrong with the records."""
    if version < MAGIC_2_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    header = only_header(records)
    attributes = header.attributes
    if version < ZSTD_SINCE and attributes & CODEC_MASK == _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return header


def _respond(context: RequestContext, request: ProduceRequest, results: Results) -> ProduceResponse | None:
    """The answer, in the order of the request; none for acks=0."""
    if request.acks == 0:
        _close_on_error(results)
        return None
    leaders: dict[int, NodeEndpoint] = {}
    topics = []
    first = 0
    for topic in request.topic_data:
        until = first + len(topic.partition_data)
        answers = _answers(context, results[first:until], leaders)
        topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        first = until
    return ProduceResponse(responses=topics, node_endpoints=list(leaders.values()) if leaders else [])


def _answers(
    context: RequestContext, results: Results, leaders: dict[int, NodeEndpoint]
) -> list[PartitionProduceResponse]:
    answers = []
    for result in results:
        info, error = result.info, result.error
        answer = PartitionProduceResponse(
            index=result.tp.partition,
            error_code=error,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
            error_message=result.message,
        )
        if result.record_errors:
            answer.record_errors = [
                BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=reason)
                for index, reason in result.record_errors
            ]
        if error is _NOT_LEADER and context.version >= LEADERS_SINCE:
            _name_leader(context, result.tp, answer, leaders)
        answers.append(answer)
    return answers


def _name_leader(
    context: RequestContext,
    tp: TopicPartition,
    answer: PartitionProduceResponse,
    leaders: dict[int, NodeEndpoint],
) -> None:
    leader = current_leader(context, tp)
    answer.current_leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
    if leader.endpoint is not None:
        leaders[leader.id] = NodeEndpoint(
            node_id=leader.id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
        )


def _close_on_error(results: Results) -> None:
    refused = [result for result in results if result.error]
    if refused:
        # The text goes into the log: one request may name hundreds of thousands of partitions.
        named = [f"{result.tp} -> {result.error.name}" for result in refused[:_ERRORS_NAMED_MAX]]
        more = [f"and {len(refused) - len(named)} more"] if len(refused) > len(named) else []
        summary = ", ".join(named + more)
        raise CloseConnection(f"Closing connection due to error during produce request with ack=0: {summary}")
