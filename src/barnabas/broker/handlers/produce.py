"""Produce (0), v0-11.

Behaviour: appends each partition's batch; acks=0 gets no answer, and a closed connection where one failed,
so that the producer looks for the leader again; acks=all is answered when the ISR has the records.
Versions:  v3 one batch of magic 2 a partition · v7 zstd · v8 error messages (KIP-467) · v9 flexible ·
           v10 names the leader where another broker is asked (KIP-951).
           v0-2 are advertised, because librdkafka looks for them (KAFKA-18659), and refused per partition
           with UNSUPPORTED_FOR_MESSAGE_FORMAT: this broker knows batches of magic 2 only (KIP-896).
Repeats:   a partition that a request names several times is appended to once, with the records named last.
Limit:     of the refused records of a batch the first 100 are named.
Not implemented: transactional batches, as there is no transaction to add them to.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import ADMIN_CLIENT_ID, RequestContext
from barnabas.broker.leaders import current_leader
from barnabas.broker.registry import handles
from barnabas.cluster.metadata.cache import PartitionState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, TopicPartition, topic_partition
from barnabas.core.pending import Pending, gather
from barnabas.core.slices import Sliced, Work, run
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

# The stages of a request.
_NAME: Final = 0
_APPEND: Final = 1
_ACKNOWLEDGE: Final = 2
_ANSWER: Final = 3

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
) -> ProduceResponse | Pending[ProduceResponse | None] | Work[ProduceResponse | None] | None:
    work = _Produce(context, request)
    return run(work, context.broker.clock, at_once=AT_ONCE_MAX, portion=PORTION, holder=context.peer)


class _Produce(Work[ProduceResponse | None]):
    """A request: its records are appended, then acknowledged, then it is answered; a portion of them at a time."""

    __slots__ = (
        "_answer",
        "_answered",
        "_appended",
        "_context",
        "_entry",
        "_leaders",
        "_named_once",
        "_request",
        "_results",
        "_stage",
        "_topic",
        "_unsettled",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        super().__init__()
        self._context = context
        self._request = request
        self._stage = _APPEND
        self._topic = self._entry = 0
        """Where in the request the next portion begins."""
        self._results: Results = []
        """What became of each partition, in the order of the request."""
        self._appended: Results = []
        """Those that the log has, or will have: what was refused waits for nothing."""
        self._unsettled: list[Pending[None]] = []
        """What looks into batches that take long."""
        self._answer: list[TopicProduceResponse] = []
        self._answered = 0
        """Partitions in the answer."""
        self._leaders: dict[int, NodeEndpoint] = {}
        self._named_once: Sliced[list[TopicProduceData]] | None = None
        entries = len(request.topic_data)
        for topic in request.topic_data:
            entries += len(topic.partition_data)
        # A look at a few names is cheaper than to name them again; no client that is right names one twice.
        if entries > ONE_PARTITION and (entries > AT_ONCE_MAX or _names_twice(request.topic_data)):
            self._named_once = _named_once(request.topic_data)
            self._stage = _NAME

    def step(self, entries: int) -> Pending[Any] | None:
        """The next portion of what is under way. In a request of few partitions one step is all of it."""
        context, request = self._context, self._request
        if self._stage == _NAME:
            if not self._name_once(entries):
                return None
            self._stage = _APPEND
        if self._stage == _APPEND:
            if not self._append(entries):
                return None
            self._stage = _ACKNOWLEDGE
            if self._unsettled:
                settled = gather(self._unsettled)
                if not settled.done:
                    # What the producer sends next belongs behind it.
                    context.peer.hold()
                    settled.when_done(self._release)
                    return settled
        if self._stage == _ACKNOWLEDGE:
            self._stage = _ANSWER
            self._topic = 0
            appender = context.broker.replica_manager.appender
            outcome = appender.acknowledge(self._appended, request.acks, request.timeout_ms)
            if isinstance(outcome, Pending):
                return outcome
        if request.acks == 0:
            _close_on_error(self._results)
            self.finish(None)
        elif self._respond(entries):
            leaders = list(self._leaders.values()) if self._leaders else []
            self.finish(ProduceResponse(responses=self._answer, node_endpoints=leaders))
        return None

    def _release(self, _settled: object) -> None:
        self._context.peer.release()

    def _name_once(self, left: int) -> bool:
        """Whether the request names each partition once, after so many more of its entries."""
        assert self._named_once is not None, "there is a request to be named again"
        try:
            for _ in range(left):
                next(self._named_once)
        except StopIteration as named:
            self._request.topic_data = named.value
            return True
        return False

    def _portion(self, topic: TopicProduceData, most: int) -> list[PartitionProduceData]:
        """The next partitions of a topic; behind its last one the next topic comes."""
        partitions, first = topic.partition_data, self._entry
        if first + most >= len(partitions):
            self._topic += 1
            self._entry = 0
            return partitions[first:] if first else partitions
        self._entry = first + most
        return partitions[first : first + most]

    def _append(self, left: int) -> bool:
        """Appends to about so many partitions; whether these were the last."""
        context, request = self._context, self._request
        appender: Appender = context.broker.replica_manager.appender
        topics, acks = request.topic_data, request.acks
        while left > 0 and self._topic < len(topics):
            topic = topics[self._topic]
            name = topic.name
            portion = self._portion(topic, left)
            left -= len(portion) + 1
            refusal = _topic_refusal(context, name, acks)
            known = context.broker.metadata_cache.snapshot.partitions.get(name, _NOTHING)
            for entry in portion:
                index, data = entry.index, entry.records
                records = data if isinstance(data, memoryview) else _NO_RECORDS
                tp = topic_partition(name, index)
                checked = _checked(context, request, records, refusal, is_known=index in known)
                if isinstance(checked, ErrorCode):
                    self._results.append(AppendResult(tp, error=checked))
                    continue
                result = appender.append(tp, records, acks, header=checked)
                self._results.append(result)
                if result.settled is not None:
                    self._unsettled.append(result.settled)
                elif result.partition is None:
                    continue
                self._appended.append(result)
        return self._topic == len(topics)

    def _respond(self, left: int) -> bool:
        """Answers for about so many partitions, in the order of the request; whether these were the last."""
        topics = self._request.topic_data
        while left > 0 and self._topic < len(topics):
            topic = topics[self._topic]
            if not self._entry:
                self._answer.append(TopicProduceResponse(name=topic.name))
            count = len(self._portion(topic, left))
            left -= count + 1
            answers = self._answer[-1].partition_responses
            for result in self._results[self._answered : self._answered + count]:
                answers.append(_answer(self._context, result, self._leaders))
            self._answered += count
        return self._topic == len(topics)


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


# --- who is refused, in which order, with which code ------------------------------------------------------


def _topic_refusal(context: RequestContext, topic: str, acks: int) -> ErrorCode | None:
    """Why nothing may be appended to a topic, if so."""
    if not context.authorize(_WRITE, _TOPIC, topic):
        return _TOPIC_REFUSED
    if acks not in VALID_ACKS:
        return ErrorCode.INVALID_REQUIRED_ACKS
    if topic in INTERNAL_TOPICS and context.header.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None


def _checked(
    context: RequestContext,
    request: ProduceRequest,
    records: memoryview,
    topic_refusal: ErrorCode | None,
    *,
    is_known: bool,
) -> BatchHeader | ErrorCode:
    """The header of a partition's batch, or why it may not be appended.

    Raises what is wrong with the whole request.
    """
    error: ErrorCode | None = None
    header: BatchHeader | None = None
    try:
        header = _checked_header(records, context.version)
    except KafkaError as invalid:
        error = invalid.code
        if error is ErrorCode.INVALID_TXN_STATE:
            _authorize_transaction(context, request)
    # Who may not write to a topic does not learn which partitions it has. Everybody else learns that first.
    if not is_known and topic_refusal is not _TOPIC_REFUSED:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic_refusal is not None:
        return topic_refusal
    if error is not None:
        return error
    assert header is not None, "records without a header have an error"
    return header


def _authorize_transaction(context: RequestContext, request: ProduceRequest) -> None:
    name = request.transactional_id
    if name is None or not context.authorize(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _checked_header(records: memoryview, version: int) -> BatchHeader:
    """The header of the one whole batch that there must be; raises what is wrong with the records."""
    if version < MAGIC_2_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    header = only_header(records)
    attributes = header.attributes
    if version < ZSTD_SINCE and attributes & CODEC_MASK == _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if attributes & TRANSACTIONAL_BIT:
        # No coordinator has added the partition to a transaction (KIP-890).
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return header


# --- the answer -------------------------------------------------------------------------------------------


def _answer(
    context: RequestContext, result: AppendResult, leaders: dict[int, NodeEndpoint]
) -> PartitionProduceResponse:
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
    return answer


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
