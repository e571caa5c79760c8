"""`RemoteLeaderEndPoint`: the requests of a follower to one leader, and the fetch session with it (KIP-227).

Implements `replica.fetcher.replica_fetcher.LeaderEndPoint` with Fetch (1) and ListOffsets (2).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition, Uuid
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Slices
from barnabas.log.leader_epochs import EpochEnd
from barnabas.network.errors import DisconnectedError
from barnabas.network.node_link import Node
from barnabas.protocol.fetch_session import FetchPlan, FetchSessionHandler, FetchTarget
from barnabas.protocol.message import Request
from barnabas.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.replica.fetcher.replica_fetcher import Answers, FetchData, LeaderEndPoint

# The versions of inter.broker.protocol.version 3.9 (``MetadataVersion``). In this one topics are named by
# their ids, which the controller gives to each topic that has none.
FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 9

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

_SESSION_LOST: Final = {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}


class LeaderClient(Protocol):
    """What the fetchers need of a `network.client.NetworkClient`."""

    def request(self, node: Node, request: Request, *, versions: tuple[int, int]) -> Pending[Any]:
        """Sends a request; fails when no answer came."""

    def disconnect(self, node_id: int) -> None:
        """Closes the connection to a node; its requests fail."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What every fetch of this broker says; sizes in bytes."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int

    @classmethod
    def of(cls, config: Config) -> "FetchSettings":
        """The ``replica.fetch.*`` keys of a broker's configuration."""
        return cls(
            max_wait_ms=config["replica.fetch.wait.max.ms"],
            min_bytes=config["replica.fetch.min.bytes"],
            max_bytes=config["replica.fetch.response.max.bytes"],
            partition_max_bytes=config["replica.fetch.max.bytes"],
        )


class Follower(NamedTuple):
    """Who fetches. By the broker epoch a leader recognises a fetch of the broker's former life (KIP-903)."""

    broker_id: int
    broker_epoch: Callable[[], int]


class RemoteLeaderEndPoint:
    """One leader, as one fetcher of this broker sees it; one request at a time."""

    __slots__ = (
        "_client",
        "_clock",
        "_find_node",
        "_follower",
        "_names",
        "_session",
        "_settings",
        "leader_id",
    )

    def __init__(
        self,
        leader_id: int,
        client: LeaderClient,
        find_node: Callable[[int], Node | None],
        follower: Follower,
        settings: FetchSettings,
        clock: Clock,
    ) -> None:
        self.leader_id = leader_id
        self._settings = settings
        self._client = client
        self._clock = clock
        self._find_node = find_node
        self._follower = follower
        self._session = FetchSessionHandler()
        self._names: dict[Uuid, str] = {}
        """The topics of the session, which answers name by id."""

    # --- fetching -----------------------------------------------------------------------------------------

    @property
    def partition_max_bytes(self) -> int:
        """How much may be asked of one partition."""
        return self._settings.partition_max_bytes

    @property
    def opens_session(self) -> bool:
        """Whether the next fetch names all partitions, not only what changed."""
        return self._session.opens_session

    def plan(self, wanted: Mapping[TopicPartition, FetchTarget]) -> FetchPlan:
        """The first fetch of a session."""
        self._names = {target.topic_id: tp.topic for tp, target in wanted.items()}
        return self._session.plan(wanted)

    def plan_changes(self, changes: Mapping[TopicPartition, FetchTarget | None]) -> FetchPlan:
        """The next fetch of the session, by what changed since the last one;
        None for what is not fetched now.
        """
        plan = self._session.plan_changes(changes)
        for tp, target in plan.named.items():
            self._names[target.topic_id] = tp.topic
        return plan

    def requested(self, tp: TopicPartition) -> FetchTarget | None:
        """What the last fetch asked of a partition."""
        return self._session.target(tp)

    @steps
    def fetch(self, plan: FetchPlan) -> Steps[Answers]:
        """What the leader answers, by partition: nothing where nothing is new, or the session is lost.

        Raises DisconnectedError, and KafkaError where the leader refuses the request as a whole.
        """
        try:
            request = yield from self._request(plan)
            response = yield self._send(request, FETCH_VERSION)
        except Exception:
            self._session.failed()
            raise
        assert isinstance(response, FetchResponse)
        error = ErrorCode.of(response.error_code)
        self._session.answered(error, response.session_id)
        if error is not ErrorCode.NONE and error not in _SESSION_LOST:
            raise KafkaError(error)
        return self._answers(response)

    def _request(self, plan: FetchPlan) -> Steps[FetchRequest]:
        """The request of a plan, in slices: the first one of a session names all partitions."""
        settings, slices = self._settings, Slices(self._clock)
        topics: dict[Uuid, FetchTopic] = {}
        for tp, target in plan.named.items():
            topic = topics.get(target.topic_id)
            if topic is None:
                topic = topics[target.topic_id] = FetchTopic(topic=tp.topic, topic_id=target.topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=target.leader_epoch,
                    fetch_offset=target.offset,
                    last_fetched_epoch=target.last_fetched_epoch,
                    log_start_offset=target.log_start_offset,
                    partition_max_bytes=target.max_bytes,
                )
            )
            if slices.over():
                yield slices.next_turn()
        forgotten: dict[Uuid, ForgottenTopic] = {}
        for tp, topic_id in plan.forgotten.items():
            gone = forgotten.setdefault(topic_id, ForgottenTopic(topic=tp.topic, topic_id=topic_id))
            gone.partitions.append(tp.partition)
        return FetchRequest(
            replica_state=ReplicaState(
                replica_id=self._follower.broker_id, replica_epoch=self._follower.broker_epoch()
            ),
            max_wait_ms=settings.max_wait_ms,
            min_bytes=settings.min_bytes,
            max_bytes=settings.max_bytes,
            session_id=plan.session_id,
            session_epoch=plan.epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(forgotten.values()),
        )

    def _answers(self, response: FetchResponse) -> Answers:
        for topic in response.responses:
            name = self._names.get(topic.topic_id)
            if name is not None:
                for data in topic.partitions:
                    yield TopicPartition(name, data.partition_index), _fetch_data(data)

    # --- offsets ------------------------------------------------------------------------------------------

    def fetch_latest_offset(self, tp: TopicPartition, leader_epoch: int) -> Pending[int]:
        """Where the leader's log ends. Fails with what the leader answers, and with DisconnectedError."""
        return self._fetch_offset(tp, leader_epoch, LATEST_TIMESTAMP)

    def fetch_earliest_offset(self, tp: TopicPartition, leader_epoch: int) -> Pending[int]:
        """Where the leader's log starts."""
        return self._fetch_offset(tp, leader_epoch, EARLIEST_TIMESTAMP)

    @steps
    def _fetch_offset(self, tp: TopicPartition, leader_epoch: int, timestamp: int) -> Steps[int]:
        partition = ListOffsetsPartition(
            partition_index=tp.partition, current_leader_epoch=leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._follower.broker_id,
            topics=[ListOffsetsTopic(name=tp.topic, partitions=[partition])],
        )
        response = yield self._send(request, LIST_OFFSETS_VERSION)
        assert isinstance(response, ListOffsetsResponse)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise KafkaError(ErrorCode.of(answer.error_code))
        return answer.offset

    def _send(self, request: Request, version: int) -> Pending[Any]:
        # The broker may have come back at another address.
        node = self._find_node(self.leader_id)
        if node is None:
            return Pending.failed(DisconnectedError(f"broker {self.leader_id} has no endpoint for brokers"))
        try:
            return self._client.request(node, request, versions=(version, version))
        except DisconnectedError as error:
            return Pending.failed(error)

    def close(self) -> None:
        """Ends the connection."""
        self._client.disconnect(self.leader_id)

    def __repr__(self) -> str:
        return f"<RemoteLeaderEndPoint {self.leader_id} {self._session}>"


def _fetch_data(data: PartitionData) -> FetchData:
    diverging = data.diverging_epoch
    return FetchData(
        ErrorCode.of(data.error_code),
        data.records,
        data.high_watermark,
        data.log_start_offset,
        None if diverging is None else EpochEnd(diverging.epoch, diverging.end_offset),
    )


def leader_endpoints(
    clients: Sequence[LeaderClient],
    find_node: Callable[[int], Node | None],
    follower: Follower,
    settings: FetchSettings,
    clock: Clock,
) -> list[Callable[[int], LeaderEndPoint]]:
    """What makes the end points of each fetcher, by the id of a leader;
    `find_node` says where a leader is reached.
    """
    return [
        partial(
            RemoteLeaderEndPoint,
            client=client,
            find_node=find_node,
            follower=follower,
            settings=settings,
            clock=clock,
        )
        for client in clients
    ]
