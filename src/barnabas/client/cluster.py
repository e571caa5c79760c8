"""`Cluster`: brokers, topics and leaders as one client sees them, and requests to the right broker.

Theory of operation
-------------------
One `NetworkClient` carries all requests of a client. The cluster is its `MetadataUpdater`: the nodes are the
bootstrap servers, with negative ids, until an answer to a Metadata request names the brokers.

One metadata request about all topics of interest is under way at a time; a caller that needs fresh metadata
meanwhile shares its answer. A topic that is new is asked for by itself, together with others that are new at
that moment (``ProducerMetadata.newMetadataRequestBuilderForNewTopics``): a producer that comes to its
10,000th topic need not hear of the 9,999 others again.
While no broker answers, the bootstrap servers are asked too; where that lasts, or another broker is at the
address of one that is known, they are the only nodes again (KIP-899, KIP-1242): their names may lead to
brokers that came since.
An answer replaces `metadata` as a whole, and the watchers get it with the names of the topics that it was
about. Metadata is asked for when a topic is new, when a leader has moved, when a broker is lost, and when it
is older than ``metadata.max.age.ms``. A failed attempt is repeated, at another broker and after a pause,
until the caller's deadline.

Before the first answer a bootstrap server that cannot be reached, or says nothing for a while, is looked at
(`network.probe`): a person learns at once that nothing listens there, or which other protocol it speaks.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from barnabas.client.channel_security import login_of, tls_of
from barnabas.client.config import REBOOTSTRAP, bootstrap_addresses
from barnabas.client.errors import ClientClosedError, ClientTimeoutError, NoBrokerError
from barnabas.client.home_loop import HomeLoop, end
from barnabas.client.metadata import Broker, ClusterMetadata, TopicMetadata
from barnabas.client.retries import Attempts, Deadline, is_retriable
from barnabas.client.topic_names import check_sendable
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.client import NetworkClient
from barnabas.network.errors import DisconnectedError, RebootstrapRequiredError
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.probe import AddressFinding, asks_for_log_in, probe
from barnabas.network.selector import Selector, completed
from barnabas.protocol.message import Request, Response
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

R = TypeVar("R", bound=Response)
T = TypeVar("T")

Watcher: TypeAlias = Callable[[ClusterMetadata, Collection[str]], object]
"""Is told of new metadata, and which topics in it may differ from before."""

Versions: TypeAlias = tuple[int, int]
"""The lowest and the highest version of a request that will do."""


def _in_time(failure: str, deadline: Deadline, reason: str) -> str:
    return f"{failure} in {deadline.total_ms:.0f} ms" + (f": {reason}" if reason else "")


class NamedLeader(Protocol):
    """The ``LeaderIdAndEpoch`` of an answer, of whichever API."""

    leader_id: int
    leader_epoch: int


class Endpoint(Protocol):
    """Its ``NodeEndpoint``."""

    node_id: int
    host: str
    port: int
    rack: str | None


_NO_ANSWER: Final = (
    "nothing has answered there; is it the address of a broker, and can it be reached from here?"
)
_SILENCE_S: Final = 2.0
"""How long a first answer may take before the bootstrap servers are looked at."""
_WARN_AFTER: Final = 3
"""Failed attempts after which a person who waits in front of a terminal should read why."""

_log = EventLog("client")


class Cluster:
    """What one client knows of a cluster; lives on one event loop."""

    def __init__(self, config: Config, *, in_flight_max: int, create_topics: bool = False) -> None:
        self.metadata = ClusterMetadata()
        self.backoff = ExponentialBackoff(
            initial_ms=config["retry.backoff.ms"],
            max_ms=config["retry.backoff.max.ms"],
            uniform=random.uniform,
        )
        self.home = HomeLoop()
        self._in_flight_max = in_flight_max
        self._config = config
        self._create_topics = create_topics
        self._login = login_of(config)
        self._tls = tls_of(config)
        addresses = bootstrap_addresses(config["bootstrap.servers"])
        self.bootstrap = ",".join(f"{host}:{port}" for host, port in addresses)
        """The bootstrap servers as text, for errors."""
        self._nodes = {-1 - index: Node(-1 - index, *address) for index, address in enumerate(addresses)}
        self._bootstrap_nodes = dict(self._nodes)
        self._may_rebootstrap = config["metadata.recovery.strategy"] == REBOOTSTRAP
        self._unanswered_since: float | None = None
        """When the first of the metadata requests failed that came after the last answer."""
        self._starts = 0
        """How often it has started again from the bootstrap servers."""
        self._client: NetworkClient | None = None
        self._topics: dict[str, float] = {}
        """Those that are asked about, and when each was last needed, in seconds of the monotonic clock."""
        self._all_topics = False
        self._complete = False
        self._refreshing: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        """All requests for metadata that are under way."""
        self._new_topics: set[str] = set()
        """Those that the next request for new topics will be about."""
        self._new_topics_request: asyncio.Task[None] | None = None
        """That request, while it has not been sent."""
        self._background: asyncio.Task[None] | None = None
        self._updated_at = float("-inf")
        self._watchers: list[Watcher] = []
        self._closed = False
        self._answered = False
        """Whether any broker has."""
        self._findings: dict[int, AddressFinding] = {}
        """What is at the bootstrap servers that did not answer, by their ids."""
        self._has_said_lost = False
        """Whether a person has read that no broker answers, since the last that did."""

    @property
    def network(self) -> NetworkClient:
        """The connections, opened on first use, on the loop that runs then; raises ClientClosedError,
        EventLoopError.
        """
        if self._closed:
            raise ClientClosedError("The client was closed")
        self.home.enter()
        if self._client is None:
            settings = ClientSettings(
                client_id=self._config["client.id"],
                max_in_flight=self._in_flight_max,
                request_timeout_ms=self._config["request.timeout.ms"],
                login=self._login,
            )
            # Seeded by the process's own generator, so that a simulation decides.
            rng = random.Random(random.getrandbits(64))
            self._client = NetworkClient(Selector(tls=lambda: self._tls), self, settings, rng)
        return self._client

    # `MetadataUpdater`, for the NetworkClient.

    def fetch_nodes(self) -> Sequence[Node]:
        """The brokers; while none of them tells metadata, the bootstrap servers too (KIP-899): one that has
        just come back may be there, of which this client has never heard.
        """
        if self._unanswered_since is not None and self._may_rebootstrap:
            return [*self._nodes.values(), *self._bootstrap_nodes.values()]
        nodes = list(self._nodes.values())
        if not self._answered and len(self._findings) < len(nodes):
            # A bootstrap server that said nothing is asked again once all others were, too.
            return [one for one in nodes if one.id not in self._findings]
        return nodes

    def handle_server_disconnect(self, node: Node, error: Exception) -> None:
        """A broker that has closed the connection may have handed over what it led."""
        if isinstance(error, RebootstrapRequiredError) and self._may_rebootstrap:
            self._rebootstrap(error)
        if node.id in self.metadata.brokers:
            _log.debug("broker.lost", node=node.id, error=error)
            self.refresh_soon()

    # Requests.

    @property
    def requests_in_flight(self) -> int:
        """How many requests have no answer yet."""
        if self._client is None:
            return 0
        return sum(self._client.in_flight_request_count(node_id) for node_id in self._nodes)

    def silent_brokers(self, longer_than_ms: float) -> list[str]:
        """Those who have owed an answer for longer than this, such as ``broker 2``; one that is known by its
        address alone, as a bootstrap server is, by that.
        """
        if self._client is None:
            return []
        brokers = self.metadata.brokers
        ids = {(one.host, one.port): one.node_id for one in brokers.values()}
        found = {
            node.id if node.id in brokers else ids.get((node.host, node.port), f"{node.host}:{node.port}")
            for node in self._client.silent_nodes(longer_than_ms)
        }
        return [one if isinstance(one, str) else f"broker {one}" for one in sorted(found, key=str)]

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)

    def pause_s(self, attempts: int) -> float:
        """Seconds to wait after this number of failed `attempts`, from 0."""
        return self.backoff.after(attempts) / 1000

    async def send(
        self,
        node: int | Node,
        request: Request,
        answer: type[R],
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """One request to one node, once. Raises DisconnectedError (the connection is lost, or cannot be made,
        or the answer took too long), UnsupportedVersionError.
        """
        call = self.request(node, request, versions=versions, timeout_ms=timeout_ms)
        response = await completed(call)
        assert isinstance(response, answer)
        return response

    def request(
        self,
        node: int | Node,
        request: Request,
        *,
        versions: Versions | None = None,
        timeout_ms: float | None = None,
        expects_response: bool = True,
    ) -> Pending[Any]:
        """As `send`: a Pending of the answer, which is complete as soon as the answer is there, in the same
        turn of the loop. A broker is named by its id, any other node (a coordinator) by itself.
        """
        try:
            known = self._nodes.get(node) if isinstance(node, int) else node
            if known is None:
                raise DisconnectedError(f"broker {node} is not known any more")
            return self.network.request(
                known, request, versions=versions, timeout_ms=timeout_ms, expects_response=expects_response
            )
        except BarnabasError as error:
            return Pending.failed(error)

    async def ask_any(self, request: Request, answer: type[R], *, versions: Versions | None = None) -> R:
        """One request to any broker, once; raises as `send`, and NoBrokerError."""
        node = self.network.least_loaded_node()
        if node is None:
            raise DisconnectedError("no broker can be reached at the moment")
        sending = self.send(node, request, answer, versions=versions)
        known = self._answered or (node.id in self._findings and not self._findings[node.id].is_final)
        return await (sending if known else self._first(node, sending))

    async def send_to_any(self, request: Request, answer: type[R], deadline: Deadline) -> R:
        """One request to any broker, repeated at others until one answers."""

        async def attempt() -> R:
            return await self.ask_any(request, answer)

        return await self.retrying(attempt, deadline, f"No broker of {self.bootstrap} answered")

    async def retrying(
        self, attempt: Callable[[], Coroutine[Any, Any, T]], deadline: Deadline, failure: str
    ) -> T:
        """The attempt's value; lost connections and retriable codes lead to another one, after a pause."""
        self.home.enter()
        attempts = Attempts(self.backoff, deadline)
        while True:
            try:
                # Not wait_for, which may swallow a cancellation (python/cpython#86296); so everywhere here.
                async with asyncio.timeout(deadline.left_s):
                    return await attempt()
            except TimeoutError as error:
                reason = self._found or ("" if self._answered else _NO_ANSWER)
                raise ClientTimeoutError(_in_time(failure, deadline, reason)) from error
            except (BarnabasError, OSError) as error:
                if not is_retriable(error):
                    raise
                last = error
            if attempts.failed + 1 == _WARN_AFTER and not self._found and self._is_news(last):
                _log.warning("client.waiting", problem=failure, error=last)
            if not await attempts.another():
                raise ClientTimeoutError(_in_time(failure, deadline, self._found or str(last))) from last

    def _is_news(self, error: Exception) -> bool:
        """Whether nobody has said yet that they wait because of this: a thousand may wait for one lost
        broker, and one line is enough until an answer comes.
        """
        if isinstance(error, KafkaError):
            return True
        said, self._has_said_lost = self._has_said_lost, True
        return not said

    async def _first(self, node: Node, sending: Coroutine[Any, Any, R]) -> R:
        """A request to a node before any has answered. Raises what it raises, and NoBrokerError."""
        task = asyncio.ensure_future(sending)
        try:
            await asyncio.wait({task}, timeout=_SILENCE_S)
            if not task.done() or isinstance(task.exception(), DisconnectedError):
                await self._look_at(node)
            response = await task
        finally:
            task.cancel()
        self._answered = True
        return response

    async def _look_at(self, node: Node) -> None:
        """Finds out what is at an address that did not answer. Once all were looked at, it is said.
        Raises NoBrokerError where waiting does not help.
        """
        finding = await probe(node.host, node.port)
        if finding is None or self._answered:
            return
        if finding is AddressFinding.TLS and self._tls is not None:
            # That is what this client speaks, too: a broker that is slow, as while it starts.
            finding = AddressFinding.SILENT
        if (
            finding is AddressFinding.SILENT
            and self._login is None
            and await asks_for_log_in(node.host, node.port, self._tls)
        ):
            finding = AddressFinding.SASL
        seen_before = node.id in self._findings
        self._findings[node.id] = finding
        if len(self._findings) < len(self._nodes):
            # Another server is asked at once; this one would have its whole request time-out.
            self.network.disconnect(node.id)
            return
        if all(one.is_final for one in self._findings.values()):
            raise NoBrokerError(f"No broker at {self._found}")
        if not seen_before:
            _log.warning("client.waiting", problem="No broker answers yet", error=self._found)

    @property
    def _found(self) -> str:
        """What was found at the bootstrap servers while none has answered."""
        found = {} if self._answered else self._findings
        nodes = ((self._nodes[each], one.value) for each, one in found.items())
        return ", ".join(f"{node.host}:{node.port}: {words}" for node, words in nodes)

    async def connect(self, deadline: Deadline) -> None:
        """Waits for the first metadata; raises ClientTimeoutError when no broker answers."""
        await self.retrying(self.refresh, deadline, f"No broker of {self.bootstrap} answered")

    def need(self, topics: Iterable[str]) -> None:
        """From now on these topics are asked about as well. Raises TypeError for a name that is no text, and
        KafkaError (INVALID_TOPIC_EXCEPTION) for a text that UTF-8 cannot encode: a request for it could never
        be sent, nor one for any other topic with it.
        """
        names = set(topics)
        for name in names:
            check_sendable(name)
        self._topics |= dict.fromkeys(names, time.monotonic())

    def is_needed(self, topic: str) -> bool:
        return topic in self._topics

    def needed_before(self, moment: float, topics: Iterable[str]) -> list[str]:
        """Those of the topics that are asked about, and were last needed before this time of the monotonic
        clock.
        """
        return [name for name in topics if name in self._topics and self._topics[name] < moment]

    def forget(self, topics: Collection[str]) -> None:
        """These are not asked about from now on, and nothing is known of them."""
        for name in topics:
            del self._topics[name]
        self.metadata = self.metadata.without(topics)

    def need_all(self, needed: bool) -> None:
        """From now on all topics are asked about, or no longer."""
        self._complete = self._complete and self._all_topics and needed
        self._all_topics = needed

    @property
    def is_complete(self) -> bool:
        """Whether `metadata` has every topic that there was at the last refresh."""
        return self._complete

    @property
    def age_ms(self) -> float:
        """Milliseconds since the last answer, infinite before the first."""
        return (time.monotonic() - self._updated_at) * 1000

    async def refresh(self) -> None:
        """Asks once for all topics of interest; joins a request that is under way. Raises what it raises."""
        if self._refreshing is None or self._refreshing.done():
            names = None if self._all_topics else frozenset(self._topics)
            self._refreshing = self._started(self._ask(names))
        await self._answer_of(self._refreshing)

    async def _request_update_for_new_topic(self, topic: str) -> None:
        """Asks once for a topic that is not known, with the others that are asked for in the same turn of the
        loop (``Metadata.requestUpdateForNewTopics``). Raises as `refresh`.
        """
        if not self.metadata.brokers or self._all_topics:
            await self.refresh()
            return
        self._new_topics.add(topic)
        if self._new_topics_request is None:
            self._new_topics_request = self._started(self._ask_for_new())
        await self._answer_of(self._new_topics_request)

    async def _ask_for_new(self) -> None:
        names, self._new_topics, self._new_topics_request = self._new_topics, set(), None
        await self._ask(names, partial=True)

    def _started(self, asking: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(asking)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        # The caller may no longer wait by the time it fails; then its error is read here.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _answer_of(self, asking: asyncio.Task[None]) -> None:
        try:
            await asyncio.shield(asking)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                # `close` cancelled the request; this caller was not cancelled.
                raise ClientClosedError("The client was closed") from None
            raise

    async def _ask(self, names: Iterable[str] | None, *, partial: bool = False) -> None:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._create_topics)
        starts = self._starts
        try:
            response = await self.ask_any(request, MetadataResponse)
        except (BarnabasError, OSError) as error:
            now = time.monotonic()
            if self._unanswered_since is None:
                self._unanswered_since = now
            patience_s = self._config["metadata.recovery.rebootstrap.trigger.ms"] / 1000
            if self._may_rebootstrap and now - self._unanswered_since >= patience_s:
                self._rebootstrap(error)
            raise
        if starts != self._starts:
            # It tells of the brokers of before, and a partial answer would be the view of all.
            raise DisconnectedError("the client has started again from its bootstrap servers")
        self.update(response, complete=names is None, partial=partial)

    def update(self, response: MetadataResponse, *, complete: bool, partial: bool = False) -> None:
        """Works an answer into `metadata`, and hands that to the watchers. A `partial` one is about new
        topics alone: the others are as old as before.
        """
        if not partial:
            self._updated_at = time.monotonic()
        self._has_said_lost = False
        if self._unanswered_since is not None:
            self._unanswered_since = None
            self._retire_all_but_known(self._bootstrap_nodes)
        if not response.brokers:
            return  # a broker that has just started knows no brokers yet
        if not partial:
            # What new topics are added to stays complete.
            self._complete = complete
        metadata = self.metadata.updated(response, complete=complete)
        self._become(
            metadata, metadata.topics if complete else [one.name or "" for one in response.topics or ()]
        )

    def _become(self, metadata: ClusterMetadata, topics: Collection[str]) -> None:
        self.metadata = metadata
        previous, self._nodes = (
            self._nodes,
            {
                one.node_id: Node(one.node_id, one.host, one.port, cluster_id=self.metadata.cluster_id)
                for one in self.metadata.brokers.values()
            },
        )
        self._retire_all_but_known(previous)
        for watcher in self._watchers:
            watcher(self.metadata, topics)

    def leaders_changed(
        self, leaders: Mapping[TopicPartition, NamedLeader], endpoints: Iterable[Endpoint]
    ) -> Collection[TopicPartition]:
        """A broker that was asked in vain says who leads these partitions, and where that is (KIP-951). The
        partitions whose leader is another one now: they can be asked for at once.
        """
        named = {tp: (one.leader_id, one.leader_epoch) for tp, one in leaders.items() if one.leader_id >= 0}
        if not named:
            return ()
        before = self.metadata
        brokers = [Broker(one.node_id, one.host, one.port, one.rack) for one in endpoints]
        after = before.with_leaders(named, brokers)
        if after is before:
            return ()
        self._become(after, {tp.topic for tp in named})
        return {tp for tp in named if after.partition(tp) != before.partition(tp)}

    def _retire_all_but_known(self, nodes: Mapping[int, Node]) -> None:
        for node in nodes.values():
            if self._nodes.get(node.id) != node:
                self.network.retire(node.id)

    def _rebootstrap(self, reason: Exception) -> None:
        """Starts again from the bootstrap servers (``Metadata.rebootstrap``). The watchers hear of the next
        answer: until then nothing has changed that they could act on.
        """
        self._unanswered_since = None
        if self._closed or self._nodes == self._bootstrap_nodes:
            return
        self._starts += 1
        _log.warning("client.rebootstrap", servers=self.bootstrap, reason=reason)
        previous, self._nodes = self._nodes, dict(self._bootstrap_nodes)
        self.metadata = ClusterMetadata()
        self._complete = False
        self._retire_all_but_known(previous)
        self.refresh_soon()

    def refresh_soon(self) -> None:
        """Asks for metadata in the background, and again after a pause until an answer came."""
        if not self._closed and (self._background is None or self._background.done()):
            self._background = asyncio.create_task(self._refresh_persistently())

    async def _refresh_persistently(self) -> None:
        attempts = Attempts(self.backoff)
        # The pause comes first: what just failed is seldom mended a millisecond later.
        while await attempts.another() and not self._closed:
            try:
                await self.refresh()
                return
            except (BarnabasError, OSError) as error:
                _log.debug("metadata.failed", error=error)

    def refresh_if_old(self) -> None:
        """Asks in the background when the metadata is older than ``metadata.max.age.ms``."""
        if self.age_ms > self._config["metadata.max.age.ms"]:
            self.refresh_soon()

    async def topic(self, name: str, deadline: Deadline) -> TopicMetadata:
        """The topic, asked for until it is known and has a leader somewhere.

        Raises `KafkaError` when it may not be used, `ClientTimeoutError` when it does not appear in time.
        """

        async def attempt() -> TopicMetadata:
            self.need([name])
            known = self.metadata.topics.get(name)
            if known is None:
                await self._request_update_for_new_topic(name)
            elif not known.available:
                await self.refresh()
            return self._known(name)

        return await self.retrying(attempt, deadline, f"Topic {name} not present in metadata")

    def _known(self, name: str) -> TopicMetadata:
        known = self.metadata.topics.get(name)
        if known is None:
            error = self.metadata.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise KafkaError(error, f"{error.message} (topic {name})")
        if not known.available:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        return known

    def by_leader(self, partitions: Iterable[TopicPartition]) -> Mapping[int, list[TopicPartition]]:
        """The partitions under their leaders, -1 for those without a known one."""
        grouped: dict[int, list[TopicPartition]] = {}
        for tp in partitions:
            grouped.setdefault(self.metadata.leader(tp), []).append(tp)
        return grouped

    async def close(self) -> None:
        """Harmless when repeated. Raises EventLoopError."""
        self.home.enter_to_end()
        self._closed = True
        await end(*self._asking, self._background)
        if self._client is not None:
            await self._client.close()
            self._client = None

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap} {self.metadata!r}>"
