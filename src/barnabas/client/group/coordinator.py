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
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from barnabas.client.assignors import Assignor, RebalanceProtocol, Topics, common_protocol
from barnabas.client.cluster import Cluster
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
from barnabas.client.group.auto_commit import AutoCommit
from barnabas.client.group.commits import Commits
from barnabas.client.group.heartbeat import Heartbeat, HeartbeatTask, now_ms
from barnabas.client.group.listeners import call, revoke
from barnabas.client.group.membership import REJOIN_AT_ONCE, Membership, MemberState
from barnabas.client.group.settings import MemberSettings
from barnabas.client.group.subscribed_topics import SubscribedTopics
from barnabas.client.retries import Deadline, is_retriable
from barnabas.client.subscription_state import SubscriptionState, SubscriptionType
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

JOIN_GROUP_TIMEOUT_LAPSE_MS: Final = 5_000
"""How much longer than the rebalance time-out an answer to JoinGroup may take."""
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
        self.auto_commit = AutoCommit(settings, self.commits, subscriptions, on_news)
        self._topics = SubscribedTopics(settings, cluster, subscriptions)
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
        self._not_before_ms = 0.0
        self._joined_topics: frozenset[str] | None = None
        """The subscription that the last round was joined with (``joinedSubscription``)."""
        self._divided_topics: Topics | None = None
        """While this member leads: the topics as they were when it divided them (``assignmentSnapshot``)."""
        self._metadata_changed = False

    def _news(self) -> None:
        self._heartbeat_task.wake()
        self._on_news()

    @property
    def wait_s(self) -> float:
        """After how many seconds `poll` should be called again, even if nothing happens
        (``timeToNextPoll``).
        """
        now = now_ms()
        moments = [self._not_before_ms, self.auto_commit.not_before_ms, self.auto_commit.due_ms or 0]
        # What is overdue waits for something else, which will wake the consumer.
        waits = [moment - now for moment in moments if moment > now]
        return min([self._settings.heartbeat_interval_ms, *waits]) / 1000

    async def poll(self) -> None:
        """Does what can be done now. Raises KafkaError, and what a listener raises."""
        news = self._topics.follow()
        # A leader divides again when what it divided is not what there is.
        if news and self._divided_topics is not None and self._divided_topics != self._relevant_topics():
            self._metadata_changed = True
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
        self.auto_commit.if_due()

    def enforce_rebalance(self, reason: str | None) -> None:
        """The next poll begins a rebalance."""
        self.membership.request_rejoin(reason or "rebalance enforced by user")

    def subscription_changed(self) -> None:
        """There are other topics to join with."""
        self._topics.changed()
        self._news()

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
            if now_ms() < max(self._not_before_ms, self.auto_commit.not_before_ms):
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
        is_eager = self._protocol is RebalanceProtocol.EAGER
        # What will be revoked is not known yet where members keep what nobody else gets.
        given_up = list(self._subscriptions.partitions) if is_eager else []
        if not self.auto_commit.done_before_rebalance(given_up):
            return False
        self.membership.prepared = True
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self.membership.generation.is_none:
            # Out of the group: others may read these partitions by now.
            if owned:
                problem = await revoke(self._subscriptions, owned, lost=True)
        elif is_eager:
            problem = await revoke(self._subscriptions, owned)
        elif gone := [tp for tp in owned if tp.topic not in self._subscriptions.topics]:
            problem = await revoke(self._subscriptions, gone)
        self._divided_topics = None
        self._subscriptions.group_topics = frozenset()
        if problem is not None:
            raise problem
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
            problem = await revoke(self._subscriptions, revoked)
            self.membership.request_rejoin("need to revoke partitions and re-join")
        if self._subscriptions.kind is SubscriptionType.PATTERN and self._joined_topics is not None:
            # The leader may know topics that match the pattern and that this member has not seen yet.
            unseen = {tp.topic for tp in assigned} - self._joined_topics
            self._subscriptions.topics |= unseen
            self._joined_topics |= unseen
        generation = self.membership.generation
        self._assignor(generation.protocol).on_assignment(assigned, generation.number)
        self.auto_commit.put_off()
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
        raised = await call(self._subscriptions.on_assigned, added)
        return problem or raised

    # Leaving.

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Gives up all partitions and leaves the group (``onLeavePrepare``, ``maybeLeaveGroup``). Raises what
        a listener raises.
        """
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self._subscriptions.automatic and owned:
            lost = self.membership.generation.is_none or self.membership.rebalancing
            problem = await revoke(self._subscriptions, owned, lost=lost)
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
        try:
            await self.auto_commit.at_the_end(deadline)
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
