"""Produce (0), v0-13.

Behaviour: appends each partition's batch; acks=0 gets no answer, and a closed connection where one failed,
so that the producer looks for the leader again; acks=all is answered when the ISR has the records.
Versions:  v3 one batch of magic 2 a partition · v7 zstd · v8 error messages (KIP-467) · v9 flexible ·
           v10 names the leader where another broker is asked (KIP-951) · v11 TRANSACTION_ABORTABLE ·
           v12 adds partitions to a transaction (the second part of KIP-890) ·
           v13 topic ids (KIP-516, docs/decisions/0038).
           v0-2 are advertised, because librdkafka looks for them (KAFKA-18659), and refused per partition
           with UNSUPPORTED_FOR_MESSAGE_FORMAT: this broker knows batches of magic 2 only (KIP-896).
Repeats:   a partition that a request names several times is appended to once, with the records named last.
Limit:     of the refused records of a batch the first 100 are named.
Order:     the first batch of a transaction in a partition waits until the transaction's coordinator has said
           that it counts the partition to it (KIP-890); of several in a request it is asked at once.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from barnabas.broker.authorizer import Operation, Resource
from barnabas.broker.context import ADMIN_CLIENT_ID, RequestContext
from barnabas.broker.leaders import current_leader
from barnabas.broker.registry import handles
from barnabas.broker.throttling import NO_TIME
from barnabas.broker.transaction_requests import require_transactional_id
from barnabas.cluster.metadata.cache import PartitionState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import INTERNAL_TOPICS, ZERO_UUID, TopicPartition, Uuid, topic_partition
from barnabas.core.pending import Pending, gather
from barnabas.core.slices import Sliced, TurnEnd, Work, further_steps
from barnabas.log.producers import AppendOrigin
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
from barnabas.records.batch import (
    CODEC_MASK,
    TRANSACTIONAL_BIT,
    BatchHeader,
    only_header,
    transactional_producer,
)
from barnabas.records.compression import Codec
from barnabas.replica.partition import Partition
from barnabas.replica.produce import VALID_ACKS, Appender, AppendResult, Results, UnverifiedAppend
from barnabas.replica.verification import TransactionOf, TransactionSupport, support_of

MAGIC_2_SINCE: Final = 3
ZSTD_SINCE: Final = 7
LEADERS_SINCE: Final = 10
ABORTABLE_SINCE: Final = 11
ADDED_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
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
_CLIENT: Final = AppendOrigin.CLIENT
_NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_UNKNOWN_ID: Final = ErrorCode.UNKNOWN_TOPIC_ID


def _failed(request: ProduceRequest, error: KafkaError, _version: int) -> Sliced[ProduceResponse]:
    if request.acks == 0:
        raise CloseConnection(f"Closing connection due to error during produce request with ack=0: {error}")
    response = ProduceResponse()
    answers = response.responses
    for portion in (yield from _named_once(request.topic_data, _no_check)):
        answer = answers[-1] if answers else None
        if answer is None or answer.name != portion.name or answer.topic_id != portion.topic_id:
            answers.append(
                TopicProduceResponse(name=portion.name, topic_id=portion.topic_id, partition_responses=[])
            )
        for partition in portion.partition_data:
            answers[-1].partition_responses.append(
                PartitionProduceResponse(
                    index=partition.index,
                    error_code=error.code,
                    base_offset=-1,
                    error_message=error.own_message,
                )
            )
            yield
        yield
    return response


@handles(ApiKey.PRODUCE, versions=(0, 13), failed=_failed)
def produce(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | Pending[ProduceResponse | None] | Work[ProduceResponse | None] | None:
    work = _Produce(context, request)
    awaited = work.step(AT_ONCE_MAX)
    if work.done:
        answer: ProduceResponse | None = work.value
        return answer
    if type(awaited) is TurnEnd:
        return work
    return further_steps(work, awaited, context.broker.clock, PORTION, context.peer)


class _Produce(Work[ProduceResponse | None]):
    """A request: its records are appended, then acknowledged, then it is answered;
    a portion of them at a time.
    """

    __slots__ = (
        "_answers",
        "_appended",
        "_at",
        "_context",
        "_leaders",
        "_named_once",
        "_portions",
        "_producer",
        "_request",
        "_results",
        "_stage",
        "_topic_ids",
        "_unsettled",
        "_unverified",
    )

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        # As `Work.__init__`, without the call: there is such an object for each request.
        self.done = False
        self.value = None
        self._context = context
        self._request = request
        self._stage = _APPEND
        topics = request.topic_data
        self._portions = topics
        """What is appended: topics, of a larger request pieces of topics."""
        self._at = 0
        """Portions that were appended, then results that were answered."""
        self._results: Results = []
        """What became of each partition."""
        self._appended: Results = []
        """What the log has, or will have: what was refused waits for nothing."""
        self._answers: list[TopicProduceResponse] = []
        self._unsettled: list[Pending[None]] | None = None
        """What looks into batches that take long, and what asks the coordinators of transactions."""
        self._unverified: list[UnverifiedAppend] | None = None
        """The first batches of transactions in their partitions."""
        self._producer: tuple[int, int] | None = None
        """The one whose transactional batches these are."""
        self._leaders: dict[int, NodeEndpoint] | None = None
        self._named_once: Sliced[list[TopicProduceData]] | None = None
        self._topic_ids: dict[str, Uuid] | None = None
        """Where the request names topics by id: the ids of the names that they were given here."""
        entries = len(topics)
        for topic in topics:
            entries += len(topic.partition_data)
        if request.acks == 0:
            context.counted = NO_TIME
        if context.version >= TOPIC_IDS_SINCE:
            self._topic_ids = _name_topics(context, topics)
        # A look at a few names is cheaper than to name them again; no client that is right names one twice.
        if entries > ONE_PARTITION and (entries > AT_ONCE_MAX or _names_twice(topics)):
            self._named_once = _named_once(topics, self._check_transactions)
            self._stage = _NAME
        elif entries > ONE_PARTITION:
            for topic in topics:
                self._check_transactions(topic.partition_data)

    def step(self, entries: int) -> Pending[Any] | None:
        """The next portions of what is under way. In a request of few partitions one step is all of it."""
        context, request, stage = self._context, self._request, self._stage
        if stage <= _APPEND:
            if stage == _NAME and not self._name_once(entries):
                return None
            if not self._append(entries):
                self._stage = _APPEND
                return None
            if self._unverified is not None:
                self._unsettled = self._unsettled or []
                self._unsettled.append(self._append_verified(self._unverified))
            if self._unsettled is not None:
                settled = gather(self._unsettled)
                if not settled.done:
                    # What the producer sends next belongs behind it.
                    context.peer.hold()
                    settled.when_done(self._release)
                    self._stage = _ACKNOWLEDGE
                    return settled
        if stage < _ANSWER:
            self._stage = _ANSWER
            self._at = 0
            if request.acks == 0:
                # At once where it can be known: nothing that comes behind it is answered.
                self._close_on_error()
            appender = context.broker.replica_manager.appender
            outcome = appender.acknowledge(self._appended, request.acks, request.timeout_ms)
            if isinstance(outcome, Pending):
                return outcome
        if request.acks == 0:
            self._close_on_error()
            self.done = True
        else:
            self._answer(entries)
        return None

    def _release(self, _settled: object) -> None:
        self._context.peer.release()

    def _name_once(self, left: int) -> bool:
        """Looks at `left` more entries of the request; whether they were the last, and each partition is
        named once.
        """
        assert self._named_once is not None, "there is a request to be named again"
        try:
            for _ in range(left):
                next(self._named_once)
        except StopIteration as named:
            self._portions = named.value
            self._named_once = None
            return True
        return False

    def _append(self, left: int) -> bool:
        """Appends to about `left` partitions; whether there are no more."""
        context, request, portions, at = self._context, self._request, self._portions, self._at
        broker, acks, appended, results = context.broker, request.acks, self._appended, self._results
        appender: Appender = broker.replica_manager.appender
        for portion in portions[at : at + left] if at else portions:
            topic = portion.name
            refusal = _topic_refusal(context, topic, acks)
            known = broker.metadata_cache.snapshot.partitions.get(topic, _NOTHING)
            topic_id = None
            if self._topic_ids is not None:
                topic_id = self._topic_ids[topic]
                # Asked here again: since the request came the topic may have been deleted and made anew.
                if broker.metadata_cache.snapshot.topic_ids.get(topic) != topic_id:
                    refusal = _UNKNOWN_ID
            for entry in portion.partition_data:
                index, data = entry.index, entry.records
                tp = topic_partition(topic, index)
                records = data if isinstance(data, memoryview) else _NO_RECORDS
                checked = _checked(context, request, records, refusal, index in known)
                # Asked this way round, because to ask for a member of an enum takes far longer.
                if not isinstance(checked, BatchHeader):
                    results.append(AppendResult(tp, error=checked))
                    continue
                if topic_id is not None and _is_another(broker.replica_manager.partition(tp), topic_id):
                    results.append(AppendResult(tp, error=_UNKNOWN_ID))
                    continue
                if checked.attributes & TRANSACTIONAL_BIT:
                    unverified = appender.unverified(tp, records, checked, self._support)
                    if unverified is not None:
                        self._unverified = self._unverified or []
                        self._unverified.append(unverified)
                        results.append(unverified.result)
                        appended.append(unverified.result)
                        continue
                result = appender.append(tp, records, acks, _CLIENT, checked)
                results.append(result)
                if result.settled is not None:
                    self._unsettled = self._unsettled or []
                    self._unsettled.append(result.settled)
                elif result.partition is None:
                    continue
                appended.append(result)
            at += 1
            left -= len(portion.partition_data) + 1
            if left < 0:
                break
        self._at = at
        return at == len(portions)

    def _append_verified(self, batches: list[UnverifiedAppend]) -> Pending[None]:
        request, header = self._request, batches[0].header
        assert request.transactional_id is not None, "no batch of a transaction is taken without its id"
        return self._context.broker.replica_manager.appender.append_verified(
            TransactionOf(request.transactional_id, header.producer_id, header.producer_epoch),
            batches,
            request.acks,
            self._support,
        )

    @property
    def _support(self) -> TransactionSupport:
        return support_of(self._context.version, abortable_since=ABORTABLE_SINCE, added_since=ADDED_SINCE)

    def _check_transactions(self, entries: list[PartitionProduceData]) -> None:
        """A transaction is one producer's, who may use its id, and there is no batch of an unknown format
        (``RequestUtils.flags``). Raises what is refused of the whole request, before anything of it is
        appended; `_checked` does so for a request of one partition.
        """
        if self._context.version < MAGIC_2_SINCE:
            return
        for entry in entries:
            records = entry.records
            producer = transactional_producer(records) if isinstance(records, memoryview) else None
            if producer is None or producer == self._producer:
                continue
            require_transactional_id(self._context, self._request.transactional_id)
            if producer[0] < 0:
                continue  # a batch of nobody, which its log judges
            if self._producer is not None:
                raise KafkaError(
                    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                    "Transactional records contained more than one producer ID",
                )
            self._producer = producer

    def _answer(self, left: int) -> None:
        """Answers for `left` partitions, in the order of the request; done when there are no more. A topic
        that was named without a partition has no answer (``ProduceResponse.toData``).
        """
        answers, results, at = self._answers, self._results, self._at
        for result in results[at : at + left] if at or len(results) > left else results:
            info, error, tp = result.info, result.error, result.tp
            if error is _NOT_LEADER and self._topic_ids is not None and self._is_gone(tp):
                error = _UNKNOWN_ID
            answer = PartitionProduceResponse(
                index=tp[1],
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
            if error is _NOT_LEADER and self._context.version >= LEADERS_SINCE:
                self._name_leader(tp, answer)
            if answers and answers[-1].name == tp[0]:
                answers[-1].partition_responses.append(answer)
            elif self._topic_ids is None:
                answers.append(TopicProduceResponse(name=tp[0], partition_responses=[answer]))
            else:
                topic_id = self._topic_ids[tp[0]]
                answers.append(
                    TopicProduceResponse(name=tp[0], topic_id=topic_id, partition_responses=[answer])
                )
        self._at = at + left
        if at + left < len(results):
            return
        leaders = [] if self._leaders is None else list(self._leaders.values())
        self.value = ProduceResponse(responses=answers, node_endpoints=leaders)
        self.done = True

    def _is_gone(self, tp: TopicPartition) -> bool:
        """Whether the topic that the request names by id was deleted while the batch waited."""
        assert self._topic_ids is not None, "the request has ids"
        topic_ids = self._context.broker.metadata_cache.snapshot.topic_ids
        return topic_ids.get(tp.topic) != self._topic_ids[tp.topic]

    def _name_leader(self, tp: TopicPartition, answer: PartitionProduceResponse) -> None:
        leader = current_leader(self._context, tp)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader.id, leader_epoch=leader.epoch)
        if leader.endpoint is not None:
            self._leaders = self._leaders or {}
            self._leaders[leader.id] = NodeEndpoint(
                node_id=leader.id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
            )

    def _close_on_error(self) -> None:
        refused = [result for result in self._results if result.error]
        if refused:
            # The text goes into the log: one request may name hundreds of thousands of partitions.
            named = [f"{result.tp} -> {result.error.name}" for result in refused[:_ERRORS_NAMED_MAX]]
            more = [f"and {len(refused) - len(named)} more"] if len(refused) > len(named) else []
            summary = ", ".join(named + more)
            raise CloseConnection(
                f"Closing connection due to error during produce request with ack=0: {summary}"
            )


def _name_topics(context: RequestContext, topics: list[TopicProduceData]) -> dict[str, Uuid]:
    """Names the topics of a request that has ids: everything behind this works with names.

    One that no topic has gets a name that no topic can have. Returns the ids by name.
    """
    names = context.broker.metadata_cache.snapshot.topic_names
    topic_ids: dict[str, Uuid] = {}
    for topic in topics:
        topic_id = topic.topic_id
        topic.name = name = names.get(topic_id) or f"?{topic_id.hex()}"
        topic_ids[name] = topic_id
    return topic_ids


def _is_another(partition: Partition | None, topic_id: Uuid) -> bool:
    """Whether the replica here is that of a topic with another id: the controller says first what a broker
    leads, and only then what there is.
    """
    return partition is not None and partition.topic_id not in (topic_id, ZERO_UUID)


def _names_twice(topics: list[TopicProduceData]) -> bool:
    """Whether a topic, or a partition of one, is there more than once."""
    if len(topics) > 1 and len({topic.name for topic in topics}) < len(topics):
        return True
    for topic in topics:
        entries = topic.partition_data
        if len(entries) > 1 and len({entry.index for entry in entries}) < len(entries):
            return True
    return False


def _no_check(_entries: list[PartitionProduceData]) -> None:
    pass


def _named_once(
    topics: list[TopicProduceData], check: Callable[[list[PartitionProduceData]], None]
) -> Sliced[list[TopicProduceData]]:
    """Portions with each topic and each partition once: what is named later replaces what was named before.
    `check` looks at all entries that stay.

    Kafka's broker collects the records of a request in a map of partitions
    (``KafkaApis.handleProduceRequest``). A client that names a partition twice by mistake must not find its
    records twice in the log.
    """
    named: dict[str | Uuid, dict[int, PartitionProduceData]] = {}
    first: dict[str | Uuid, TopicProduceData] = {}
    for topic in topics:
        key = topic.name or topic.topic_id
        first.setdefault(key, topic)
        of_topic = named.setdefault(key, {})
        for entry in topic.partition_data:
            of_topic[entry.index] = entry
            yield
        yield
    portions = []
    for key, of_topic in named.items():
        name, topic_id = first[key].name, first[key].topic_id
        entries = list(of_topic.values())
        for start in range(0, len(entries) or 1, PORTION):
            portion = entries[start : start + PORTION]
            check(portion)
            portions.append(TopicProduceData(name=name, topic_id=topic_id, partition_data=portion))
            yield
    return portions


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
    is_known: bool,
) -> BatchHeader | ErrorCode:
    """The header of the one whole batch that there must be for a partition, or why it is not appended.

    Raises what is wrong with the whole request.
    """
    version = context.version
    checked: BatchHeader | ErrorCode
    if version < MAGIC_2_SINCE:
        checked = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    else:
        try:
            checked = header = only_header(records)
        except KafkaError as invalid:
            checked = invalid.code
        else:
            if version < ZSTD_SINCE and header.attributes & CODEC_MASK == _ZSTD:
                checked = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            elif header.attributes & TRANSACTIONAL_BIT:
                require_transactional_id(context, request.transactional_id)
    # Who may not write to a topic does not learn which partitions it has. Everybody else learns that first.
    if not is_known and topic_refusal is not _TOPIC_REFUSED and topic_refusal is not _UNKNOWN_ID:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return checked if topic_refusal is None else topic_refusal
