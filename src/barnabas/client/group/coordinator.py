"""`ConsumerCoordinator`: a consumer as a member of its group, driven by the consumer's polls.

Theory of operation
-------------------
`poll` never waits for the network. It looks at where things are and starts what comes next, as tasks whose
end wakes the consumer: the look-up of the coordinator, the commit before a rebalance, the round of JoinGroup
and SyncGroup. So a consumer whose group rebalances continues to read what it keeps, and only what touches the
caller's partitions (the listeners, a changed assignment) happens inside its own poll.

A rebalance goes like this::

    _on_join_prepare    commit positions, if that is automatic; then give up partitions: all of them (eager),
                        those no longer subscribed to (cooperative), or, if the member was thrown out, all as
    lost
    _join_and_sync      JoinGroup; the leader divides the partitions; SyncGroup
    _on_join_complete   cooperative: revoke what is not in the new assignment, and go round once more;
                        apply the new assignment

`membership` is the machine under it: the states, what each request says and what each answer means. Between
polls only `heartbeat` acts. It may find the member out of the group; then the partitions are lost, which the
caller learns at its next poll. (``AbstractCoordinator`` and ``ConsumerCoordinator`` of Kafka 3.9.)
"""

import asyncio
import inspect
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.client.assignors import Assignor, RebalanceProtocol, Topics, assignors_named, common_protocol
from barnabas.client.cluster import Cluster
from barnabas.client.committed import Offsets
from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import ClientTimeoutError, GroupError
from barnabas.client.group.assignment import (
    divide,
    offered_protocols,
    read_assignment,
    read_subscriptions,
    topics_with_racks,
)
from barnabas.client.group.commits import Commits
from barnabas.client.group.heartbeat import Heartbeat, HeartbeatTask, now_ms
from barnabas.client.group.membership import REJOIN_AT_ONCE, Membership, MemberState
from barnabas.client.group.settings import MemberSettings
from barnabas.client.retries import Deadline, is_retriable
from barnabas.client.subscription_state import Listener, SubscriptionState, SubscriptionType
from barnabas.client.types import ConsumerGroupMetadata
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.client.metadata import ClusterMetadata

JOIN_GROUP_TIMEOUT_LAPSE_MS: Final = 5_000
"""How much longer than the rebalance time-out an answer to JoinGroup may take."""
_TOPIC_REFUSED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
_LEAVE_BY_MEMBERS: Final = (3, 5)

_log = EventLog("client.group")


class ConsumerCoordinator:
    """One consumer's part in one group; lives on one event loop."""

    def __init__(
        self,
        settings: MemberSettings,
        cluster: Cluster,
        subscriptions: SubscriptionState,
        assignors: Sequence[Assignor],
        on_news: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = common_protocol(assignors)
        self._on_news = on_news
        self.membership = Membership(settings)
        self.link = CoordinatorLink(cluster, settings.group_id, self._news)
        self.commits = Commits(settings, cluster, self.link, self.membership, subscriptions)
        backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms,
            max_ms=settings.retry_backoff_max_ms,
            uniform=random.uniform,
        )
        self._heartbeat = Heartbeat(settings, backoff, now_ms())
        self._heartbeat_task = HeartbeatTask(
            self.membership,
            self.link,
            self._heartbeat,
            pause_ms=settings.retry_backoff_ms,
            leave=self._leave_group,
            on_news=self._on_news,
        )
        self._round: asyncio.Task[bytes] | None = None
        self._last_commit: asyncio.Task[None] | None = None
        """The commit before a rebalance."""
        self._prepare_until_ms: float | None = None
        self._not_before_ms = 0.0
        self._next_commit_ms = now_ms() + (settings.auto_commit_interval_ms or 0)
        self._joined_topics: frozenset[str] | None = None
        """The subscription that the last round was joined with (``joinedSubscription``)."""
        self._divided_topics: Topics | None = None
        """While this member leads: the topics as they were when it divided them (``assignmentSnapshot``)."""
        self._seen: ClusterMetadata | None = None
        self._metadata_changed = False
        self._missing: set[str] = set()
        """Topics that are subscribed to and did not exist at the last look."""

    def _news(self) -> None:
        self._heartbeat_task.wake()
        self._on_news()

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        generation = self.membership.generation
        return ConsumerGroupMetadata(
            self._settings.group_id, generation.number, generation.member_id, self._settings.group_instance_id
        )

    @property
    def wait_s(self) -> float:
        """After how many seconds `poll` should be called again, even if nothing happens
        (``timeToNextPoll``).
        """
        now = now_ms()
        moments = [self._not_before_ms]
        if self._settings.auto_commit_interval_ms is not None:
            moments.append(self._next_commit_ms)
        # What is overdue waits for something else, which will wake the consumer.
        waits = [moment - now for moment in moments if moment > now]
        return min([self._settings.heartbeat_interval_ms, *waits]) / 1000

    async def poll(self) -> None:
        """Does what can be done now. Raises KafkaError, and what a listener raises."""
        self._follow_metadata()
        await self.commits.invoke_callbacks()
        self._heartbeat_task.raise_failure()
        if self._subscriptions.automatic:
            self._heartbeat.polled(now_ms())
            # ensureCoordinatorReadyAsync
            if self.link.node is None:
                self.link.raise_failure()
                self.link.find_soon()
                return
            self._heartbeat_task.start()
            if not await self._ensure_active_group():
                return
        self._maybe_auto_commit()

    def subscription_changed(self) -> None:
        """There are other topics to join with."""
        self._subscriptions.apply_pattern(self._cluster.metadata)
        self._seen = None
        self._news()

    def _follow_metadata(self) -> None:
        """Notices new topics and partitions (``maybeUpdateSubscriptionMetadata``)."""
        metadata = self._cluster.metadata
        topics = self._subscriptions.topics
        if metadata is not self._seen:
            self._seen = metadata
            self._subscriptions.apply_pattern(metadata)
            for topic in topics:
                code = metadata.errors.get(topic, ErrorCode.NONE)
                if code in _TOPIC_REFUSED:
                    raise KafkaError(code, f"{code.message} (topic {topic})")
            self._warn_of_missing(metadata, topics)
            # A leader divides again when what it divided is not what there is.
            if self._divided_topics is not None and self._divided_topics != self._relevant_topics():
                self._metadata_changed = True
        if self._is_metadata_lacking(topics) and self._cluster.age_ms > self._settings.retry_backoff_max_ms:
            self._cluster.refresh_soon()

    def _warn_of_missing(self, metadata: "ClusterMetadata", topics: Collection[str]) -> None:
        """Names each topic once that is subscribed to and does not exist: nothing else would say why no
        record comes. Java's consumer does so with each answer.
        """
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = {topic for topic in topics if metadata.errors.get(topic) is unknown}
        for topic in sorted(missing - self._missing):
            _log.warning(
                "topic.missing",
                topic=topic,
                group=self._settings.group_id,
                advice="it is read once it exists; is the name right?",
            )
        self._missing = missing

    def _is_metadata_lacking(self, topics: Collection[str]) -> bool:
        if self._subscriptions.kind is SubscriptionType.PATTERN:
            return not self._cluster.is_complete
        return any(topic not in self._cluster.metadata.topics for topic in topics)

    def _relevant_topics(self) -> Topics:
        """What the assignment depends on: partitions of the topics, and racks where this client has one."""
        known = topics_with_racks(self._cluster.metadata, self._subscriptions.metadata_topics)
        if self._settings.rack is not None:
            return known
        return {topic: [frozenset()] * len(partitions) for topic, partitions in known.items()}

    # A rebalance.

    async def _ensure_active_group(self) -> bool:
        """Continues a rebalance where one is needed; returns whether none is needed now
        (``ensureActiveGroup``, ``joinGroupIfNeeded``).
        """
        while self._rejoin_needed_or_pending():
            if now_ms() < self._not_before_ms:
                return False
            # Once for each rebalance, however many attempts its round takes.
            if not self.membership.prepared and not await self._on_join_prepare():
                return False
            if self._round is None:
                if self.link.node is None:
                    return False
                self._round = asyncio.create_task(self._join_and_sync())
                self._round.add_done_callback(self._round_ended)
            if not self._round.done() or not await self._finish_round(self._round):
                return False
        return True

    def _round_ended(self, finished: "asyncio.Task[bytes]") -> None:
        if not finished.cancelled():
            finished.exception()  # A member that has left meanwhile does not look at it.
        self._news()

    def _rejoin_needed_or_pending(self) -> bool:
        """Whether a round is wanted or under way (``rejoinNeededOrPending``)."""
        if self._metadata_changed:
            self._metadata_changed = False
            self.membership.request_rejoin("cached metadata has changed", only_if_none=True)
        joined = self._joined_topics
        if joined is not None and joined != self._subscriptions.topics and self._round is None:
            self.membership.request_rejoin("subscription has changed", only_if_none=True)
        return self.membership.rejoin_needed or self._round is not None

    async def _on_join_prepare(self) -> bool:
        """Before a round; False while there is something to wait for (``onJoinPrepare``)."""
        if not self._committed_before_round():
            return False
        self.membership.prepared = True
        self._prepare_until_ms = None
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self.membership.generation.is_none:
            # Out of the group: others may read these partitions by now.
            if owned:
                problem = await self._revoke(owned, lost=True)
        elif self._protocol is RebalanceProtocol.EAGER:
            problem = await self._revoke(owned)
        elif gone := [tp for tp in owned if tp.topic not in self._subscriptions.topics]:
            problem = await self._revoke(gone)
        self._divided_topics = None
        self._subscriptions.group_topics = frozenset()
        if problem is not None:
            raise problem
        return True

    def _committed_before_round(self) -> bool:
        """Commits positions where that is automatic;
        False while the commit runs, at most for a rebalance time-out.
        """
        if self._settings.auto_commit_interval_ms is None:
            return True
        now = now_ms()
        if self._prepare_until_ms is None:
            self._prepare_until_ms = now + self._settings.rebalance_timeout_ms
        if self._last_commit is None:
            if self._protocol is RebalanceProtocol.EAGER:
                self._subscriptions.mark_pending_revocation()
            self._last_commit = self._auto_commit()
            self._last_commit.add_done_callback(lambda _done: self._on_news())
        if now >= self._prepare_until_ms:
            self._last_commit = None
            return True
        if not self._last_commit.done():
            return False
        error = None if self._last_commit.cancelled() else self._last_commit.exception()
        self._last_commit = None
        if error is not None and is_retriable(error):
            self._not_before_ms = now + self._settings.retry_backoff_ms
            return False
        return True

    async def _join_and_sync(self) -> bytes:
        """One round; this member's assignment. Raises KafkaError, DisconnectedError."""
        if self._subscriptions.kind is SubscriptionType.PATTERN:
            # Members that find a new topic at different times would each cause a rebalance of their own.
            await self._cluster.refresh()
            self._subscriptions.apply_pattern(self._cluster.metadata)
        self._joined_topics = self._subscriptions.topics

        # sendJoinGroupRequest. The answer comes when all members have joined, so it may take a rebalance
        # time-out.
        sent = self.membership.generation
        join = self.membership.join_request(
            offered_protocols(
                self._assignors.values(),
                self._joined_topics,
                self._subscriptions.partitions,
                sent.number,
                self._settings.rack,
            )
        )
        timeout_ms = self._settings.rebalance_timeout_ms + JOIN_GROUP_TIMEOUT_LAPSE_MS
        joined = await self.link.send(
            join, JoinGroupResponse, timeout_ms=max(self._settings.request_timeout_ms, timeout_ms)
        )
        is_leader = self.membership.joined(joined, sent)

        # sendSyncGroupRequest. The leader brings the assignments of all members, a follower brings none.
        assignments = await self._on_leader_elected(joined) if is_leader else {}
        sent = self.membership.generation
        sync = self.membership.sync_request(assignments)
        return self.membership.synced(await self.link.send(sync, SyncGroupResponse), sent)

    async def _on_leader_elected(self, response: JoinGroupResponse) -> Mapping[str, bytes]:
        """The assignment of each member;
        of none where the last one still stands (``onLeaderElected``, KIP-814).
        """
        assignor = self._assignor(response.protocol_name)
        subscriptions = read_subscriptions(response.members)
        topics = frozenset(topic for one in subscriptions.values() for topic in one.topics)
        # The leader watches the topics of all members: its own view decides when to divide again.
        self._subscriptions.group_topics = topics
        self._cluster.need(topics)
        metadata = self._cluster.metadata
        if any(topic not in metadata.topics and topic not in metadata.errors for topic in topics):
            await self._cluster.retrying(
                self._cluster.refresh,
                Deadline(self._settings.request_timeout_ms),
                f"No metadata of the topics of group {self._settings.group_id}",
            )
        self._divided_topics = self._relevant_topics()
        if response.skip_assignment:
            return {}
        existing = topics_with_racks(self._cluster.metadata, topics)
        return divide(assignor, self._protocol, existing, subscriptions)

    def _assignor(self, name: str | None) -> Assignor:
        chosen = self._assignors.get(name or "")
        if chosen is None:
            raise GroupError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"Coordinator selected invalid assignment protocol: {name} (group {self._settings.group_id})",
            )
        return chosen

    async def _finish_round(self, finished: "asyncio.Task[bytes]") -> bool:
        """A round is over; False when a pause should follow. Raises what only the caller can deal with."""
        error = finished.exception()
        if error is not None:
            self._round = None
            return self._round_failed(error)
        problem: Exception | None = None
        if self.membership.state is MemberState.STABLE:
            try:
                problem = await self._on_join_complete(finished.result())
            except BarnabasError as bad_assignment:
                self.membership.request_rejoin("the assignment cannot be used")
                problem = bad_assignment
        self._round = None
        self.membership.prepared = False
        if problem is not None:
            raise problem
        return True

    def _round_failed(self, error: BaseException) -> bool:
        code = error.code if isinstance(error, KafkaError) else None
        if code is not ErrorCode.MEMBER_ID_REQUIRED:
            name = type(error).__name__ if code is None else code.name
            self.membership.request_rejoin(f"rebalance failed due to {name}")
        if code is not None and code in COORDINATOR_MOVED:
            self.link.lost(f"error response {code.name}")
        if code in REJOIN_AT_ONCE:
            return True
        if not is_retriable(error) and not isinstance(error, ClientTimeoutError):
            raise error
        self._not_before_ms = now_ms() + self._settings.retry_backoff_ms
        return False

    async def _on_join_complete(self, assignment: bytes) -> Exception | None:
        """Applies the assignment of a round; what a listener raised (``onJoinComplete``)."""
        assigned = read_assignment(assignment)
        owned = set(self._subscriptions.partitions)
        if not self._subscriptions.matches(assigned):
            self.membership.request_rejoin("received assignment does not match the current subscription")
            return None
        problem = None
        if self._protocol is RebalanceProtocol.COOPERATIVE and (
            revoked := sorted(owned.difference(assigned))
        ):
            # What is given up goes to other members in the next round (KIP-429).
            problem = await self._revoke(revoked)
            self.membership.request_rejoin("need to revoke partitions and re-join")
        if self._subscriptions.kind is SubscriptionType.PATTERN and self._joined_topics is not None:
            # The leader may know topics that match the pattern and that this member has not seen yet.
            unseen = {tp.topic for tp in assigned} - self._joined_topics
            self._subscriptions.topics |= unseen
            self._joined_topics |= unseen
        generation = self.membership.generation
        self._assignor(generation.protocol).on_assignment(assigned, generation.number)
        self._next_commit_ms = now_ms() + (self._settings.auto_commit_interval_ms or 0)
        self._subscriptions.set_partitions(assigned)
        added = [tp for tp in assigned if tp not in owned]
        self._cluster.need({tp.topic for tp in added})
        _log.info(
            "group.assigned",
            group=self._settings.group_id,
            generation=generation.number,
            partitions=len(assigned),
            added=len(added),
        )
        raised = await _call(self._subscriptions.on_assigned, added)
        return problem or raised

    async def _revoke(self, partitions: Sequence[TopicPartition], *, lost: bool = False) -> Exception | None:
        """Calls the listener, then gives the partitions up; what the listener raised
        (``invokePartitionsRevoked``, ``invokePartitionsLost``).
        """
        listener = self._subscriptions.on_revoked
        if lost:
            # As Java's default method: without a listener for lost partitions, they count as revoked.
            listener = self._subscriptions.on_lost or listener
        problem = await _call(listener, partitions)
        kept = self._subscriptions.partitions.keys() - set(partitions)
        self._subscriptions.set_partitions(sorted(kept))
        return problem

    # Automatic commits.

    def _maybe_auto_commit(self) -> None:
        """Commits the positions when it is time (``maybeAutoCommitOffsetsAsync``)."""
        interval = self._settings.auto_commit_interval_ms
        if interval is not None and now_ms() >= self._next_commit_ms:
            self._next_commit_ms = now_ms() + interval
            self._auto_commit()

    def commit_before_assign(self) -> None:
        """The caller assigns other partitions:
        commits the positions in the background, where that is automatic.
        """
        if self._settings.auto_commit_interval_ms is not None:
            self._auto_commit()

    def _auto_commit(self) -> "asyncio.Task[None]":
        return self.commits.commit_soon(self._subscriptions.all_consumed(), self._auto_committed)

    def _auto_committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            return
        if is_retriable(error):
            self._next_commit_ms = now_ms() + self._settings.retry_backoff_ms
        _log.warning("commit.failed", group=self._settings.group_id, partitions=len(offsets), error=error)

    # Leaving.

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Gives up all partitions and leaves the group (``onLeavePrepare``, ``maybeLeaveGroup``). Raises what
        a listener raises.
        """
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self._subscriptions.automatic and owned:
            lost = self.membership.generation.is_none or self.membership.rebalancing
            problem = await self._revoke(owned, lost=lost)
        try:
            async with asyncio.timeout(deadline.left_s):
                await self._leave_group(reason)
        except TimeoutError:
            _log.warning("group.leave_failed", group=self._settings.group_id, error="no answer in time")
        self._joined_topics = self._divided_topics = None
        if problem is not None:
            raise problem

    async def _leave_group(self, reason: str) -> None:
        """Says so to the coordinator, in one attempt, and is out."""
        request = self.membership.leave_request(reason)
        coordinator_known = self.link.node is not None
        if self._round is not None:
            if not self._round.done():
                # The answer to a JoinGroup may be minutes away, and a broker answers in order.
                self._round.cancel()
                self.link.reconnect()
            self._round = None
        self.membership.reset("consumer pro-actively leaving the group")
        if request is not None and coordinator_known:
            try:
                answer = await self.link.send(request, LeaveGroupResponse, versions=_LEAVE_BY_MEMBERS)
                _log.info(
                    "group.left", group=self._settings.group_id, error=ErrorCode.of(answer.error_code).name
                )
            except (BarnabasError, OSError) as error:
                _log.warning("group.leave_failed", group=self._settings.group_id, error=error)

    async def close(self, deadline: Deadline) -> None:
        """Commits, where that is automatic, and leaves the group. Raises what a listener raises."""
        automatic = self._settings.auto_commit_interval_ms is not None
        try:
            try:
                await self.commits.commit(self._subscriptions.all_consumed() if automatic else {}, deadline)
            except (BarnabasError, OSError) as error:
                _log.warning("commit.failed", group=self._settings.group_id, error=error)
            await self._heartbeat_task.close()
            await self.leave("the consumer is being closed", deadline)
        finally:
            if self._round is not None:
                self._round.cancel()
            await self._heartbeat_task.close()
            await self.commits.close()
            await self.link.close()

    def __repr__(self) -> str:
        return f"<ConsumerCoordinator {self.membership!r} {self.link!r}>"


def coordinator_of(
    config: Config, cluster: Cluster, subscriptions: SubscriptionState, on_news: Callable[[], object]
) -> ConsumerCoordinator | None:
    """What a consumer's configuration asks for; None without a group. Raises ConfigError."""
    settings = MemberSettings.of(config)
    assignors = assignors_named(config["partition.assignment.strategy"])
    if settings is None:
        return None
    return ConsumerCoordinator(settings, cluster, subscriptions, assignors, on_news)


async def _call(listener: Listener | None, partitions: Sequence[TopicPartition]) -> Exception | None:
    """Calls the listener; returns what it raised, because a rebalance continues nevertheless."""
    if listener is None:
        return None
    try:
        outcome = listener(list(partitions))
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        return error
    return None
