"""`LeaderCalls`: the way of the real replica fetchers to leaders, over the wire of the model.

Requests and answers pass through their codecs. What the handlers of Fetch and ListOffsets do for a follower
is done here without them: they belong to a broker with listeners.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, Final, Protocol

from barnabas.broker.fetch_context import FetchContext, new_context
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.cluster.metadata.registration import BrokerRegistration
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.log.manager import LogManager
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.node.leader_endpoint import FetchSettings, Follower, leader_endpoints
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, PartitionData
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.replica.cached_partition import CachedPartition
from barnabas.replica.fetch_reader import FetchParams, PartitionRead
from barnabas.replica.fetch_session import FetchSessionCache
from barnabas.replica.fetcher.manager import ReplicaFetcherManager
from barnabas.replica.log_read import Isolation
from barnabas.replica.manager import ReplicaManager
from barnabas.replica.quota import ReplicationQuotaManager
from barnabas.testing.clock import ProcessClock
from barnabas.testing.replication import rare
from barnabas.testing.replication.wire import Party, PartyNetwork, on_the_wire

_WAIT_MS: Final = 200
_BACKOFF_MS: Final = 50
_SIZES: Final = (200, 2_000, 10_000)


class FetchingBroker(Party, Protocol):
    """What a fetch needs of the broker that makes it, and of the one that serves it.
    They are `broker.SimulatedBroker`, which imports this module.
    """

    id: int
    rng: Random
    wire: PartyNetwork
    clock: ProcessClock
    metadata: MetadataCache
    replicas: ReplicaManager
    fetch_sessions: FetchSessionCache
    registration: BrokerRegistration
    logs: LogManager
    active_segments: dict[TopicPartition, int]

    @property
    def brokers(self) -> Mapping[int, "FetchingBroker"]: ...


class LeaderCalls:
    """Implements `node.leader_endpoint.LeaderClient` for one life of a broker."""

    def __init__(self, broker: FetchingBroker) -> None:
        self._broker = broker
        self._open: dict[int, Pending[Any]] = {}
        self.idle = False
        """Whether nothing of this broker gets through to leaders for a while."""

    def request(self, node: Node, request: Request, *, versions: tuple[int, int]) -> Pending[Any]:
        """Calls the leader; one call at a time, as a fetcher makes them."""
        answer: Pending[Any] = Pending()
        self._open[node.id] = answer
        me, leader, version = self._broker, self._broker.brokers[node.id], versions[1]
        if self.idle:
            me.clock.call_later(_BACKOFF_MS, lambda: answer.fail(DisconnectedError("idle")))
            return answer
        sent = on_the_wire(request, version)

        def answered(outcome: Pending[Response]) -> None:
            if outcome.error is not None:
                answer.fail(DisconnectedError(str(outcome.error)))
            else:
                answer.complete(outcome.result())

        def serve() -> Pending[Response]:
            # Encoded at once: what a leader has sent does not change with its log.
            return _serve(leader, sent, version).then(lambda response: on_the_wire(response, version))

        me.wire.call(me, leader, serve, answered)
        return answer

    def disconnect(self, node_id: int) -> None:
        """What the leader answers from now on is not heard."""
        answer = self._open.pop(node_id, None)
        if answer is not None:
            answer.fail(DisconnectedError("closed"))

    def __repr__(self) -> str:
        return f"<LeaderCalls of {self._broker.id}{' idle' if self.idle else ''}>"


def fetchers(broker: FetchingBroker, calls: LeaderCalls) -> ReplicaFetcherManager:
    """The real fetchers of a broker, with settings that make small steps."""
    size = broker.rng.choice(_SIZES)
    end_points = leader_endpoints(
        [calls],
        lambda leader: Node(leader, "there", 9092),
        Follower(broker.id, lambda: broker.registration.broker_epoch),
        FetchSettings(
            max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=broker.rng.choice(_SIZES), partition_max_bytes=size
        ),
        broker.clock,
    )
    return ReplicaFetcherManager(
        end_points,
        broker.clock,
        backoff_ms=_BACKOFF_MS,
        truncated=lambda: rare.after_a_cut(broker),
        quota=ReplicationQuotaManager(broker.clock.monotonic_ms, samples=11, window_ms=1000),
    )


def _serve(leader: FetchingBroker, request: Request, version: int) -> Pending[Response]:
    if isinstance(request, FetchRequest):
        return _fetch(leader, request, version)
    assert isinstance(request, ListOffsetsRequest), request
    return Pending.of(_list_offset(leader, request))


def _fetch(leader: FetchingBroker, request: FetchRequest, version: int) -> Pending[Response]:
    names = leader.metadata.snapshot.topic_names
    context = new_context(leader.fetch_sessions, request, version, names, from_follower=True)
    replica = request.replica_state
    assert replica is not None, "a follower says who it is"
    params = FetchParams(
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation=Isolation.LOG_END,
        replica_id=replica.replica_id,
        broker_epoch=replica.replica_epoch,
    )
    known = [each for each in context.partitions() if each.topic is not None]
    unknown = [each for each in context.partitions() if each.topic is None]
    reads = leader.replicas.fetches.fetch(params, known)
    waiting = reads if isinstance(reads, Pending) else Pending.of(reads)
    return waiting.then(lambda done: _respond(context, done, unknown))


def _respond(
    context: FetchContext, reads: list[PartitionRead], unknown: list[CachedPartition]
) -> FetchResponse:
    results = [(each.partition, _answer(each)) for each in reads]
    results += [(each, _refused(each, ErrorCode.UNKNOWN_TOPIC_ID)) for each in unknown]
    return context.respond(results)


def _answer(read: PartitionRead) -> PartitionData:
    found = read.found
    if found is None:
        return _refused(read.partition, read.error)
    end = found.diverging
    return PartitionData(
        partition_index=read.partition.partition,
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        diverging_epoch=None if end is None else EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset),
        records=found.records,
    )


def _refused(partition: CachedPartition, code: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=partition.partition, error_code=code, high_watermark=-1, records=b"")


def _list_offset(leader: FetchingBroker, request: ListOffsetsRequest) -> ListOffsetsResponse:
    (topic,) = request.topics
    (asked,) = topic.partitions
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    try:
        found = in_one_piece(
            leader.replicas.list_offset(
                TopicPartition(topic.name, asked.partition_index),
                asked.timestamp,
                Isolation.LOG_END,
                asked.current_leader_epoch,
            )
        )
        answer.offset = found.offset
    except KafkaError as error:
        answer.error_code = error.code
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=[answer])])
