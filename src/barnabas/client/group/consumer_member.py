"""`ConsumerGroupMember`: a consumer as a member of a group of the protocol ``consumer`` (KIP-848), driven by
the consumer's polls.

Theory of operation
-------------------
A task sends the heartbeats of `ConsumerMembership`: at the interval that the coordinator names, and at once
when there is something to tell. What touches the caller's partitions happens inside its own poll, in
`_reconcile`: commit what was read, where that is automatic; revoke what is not in the target; take what is
new. The heartbeat after it tells the coordinator, which may then give what was revoked to others.

A member that was thrown out, or left because its caller did not poll, loses all its partitions; the caller
hears so at its next poll, and the member joins again. (``ConsumerMembershipManager`` and
``ConsumerHeartbeatRequestManager`` of Java's ``AsyncKafkaConsumer``.)
"""

import asyncio
import random
from collections.abc import Callable

from barnabas.client.cluster import Cluster
from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import GroupError
from barnabas.client.group.auto_commit import AutoCommit
from barnabas.client.group.commits import Commits
from barnabas.client.group.consumer_membership import FENCED, ConsumerMembership, ConsumerMemberState, Owned
from barnabas.client.group.heartbeat import now_ms
from barnabas.client.group.listeners import call, revoke
from barnabas.client.group.settings import MemberSettings
from barnabas.client.group.subscribed_topics import SubscribedTopics
from barnabas.client.home_loop import end
from barnabas.client.retries import Deadline
from barnabas.client.subscription_state import SubscriptionState, SubscriptionType
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition, Uuid, random_uuid, uuid_text
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

_log = EventLog("client.group")


class ConsumerGroupMember:
    """One consumer's part in one group; lives on one event loop. Implements `group.member.GroupMember`."""

    def __init__(
        self,
        settings: MemberSettings,
        cluster: Cluster,
        subscriptions: SubscriptionState,
        on_news: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._on_news = on_news
        self.membership = ConsumerMembership(settings, uuid_text(random_uuid(random.SystemRandom())))
        self.link = CoordinatorLink(cluster, settings.group_id, self._news)
        self.commits = Commits(settings, cluster, self.link, self.membership, subscriptions)
        self.auto_commit = AutoCommit(settings, self.commits, subscriptions, on_news)
        self._topics = SubscribedTopics(settings, cluster, subscriptions)
        self._ids: dict[TopicPartition, Uuid] = {}
        """Of the topics of what it owns: a topic that was made anew is another one."""
        self._backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms,
            max_ms=settings.retry_backoff_max_ms,
            uniform=random.uniform,
        )
        self._failures = 0
        self._next_ms = self._not_before_ms = 0.0
        self._poll_until_ms = now_ms() + settings.rebalance_timeout_ms
        self._refusal: KafkaError | None = None
        """What a heartbeat was refused for although the member stays, until it was raised."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._heartbeat: asyncio.Task[None] | None = None

    def _news(self) -> None:
        self._wake.set()
        self._on_news()

    @property
    def wait_s(self) -> float:
        """After how many seconds `poll` should be called again, even if nothing happens."""
        now = now_ms()
        moments = (self.auto_commit.due_ms or 0, self.auto_commit.not_before_ms)
        waits = [moment - now for moment in moments if moment > now]
        return min([self.membership.heartbeat_interval_ms, *waits]) / 1000

    # Within the caller's polls.

    async def poll(self) -> None:
        """Does what can be done now. Raises KafkaError, and what a listener raises."""
        self._topics.follow()
        await self.commits.invoke_callbacks()
        if self._subscriptions.automatic:
            self._poll_until_ms = now_ms() + self._settings.rebalance_timeout_ms
            self._raise_failure()
            if self.membership.has_lost_all:
                await self._lose_all()
            self._join()
            if self.membership.state is ConsumerMemberState.RECONCILING:
                await self._reconcile()
            else:
                self.auto_commit.call_off()
        self.auto_commit.if_due()

    def _raise_failure(self) -> None:
        if self.membership.failure is not None:
            raise self.membership.failure
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal

    def subscription_changed(self) -> None:
        """There are other topics to read."""
        self._topics.changed()
        self._news()

    def enforce_rebalance(self, reason: str | None) -> None:
        """The coordinator alone decides when to divide again; the log says so, as Java's."""
        _log.warning("group.no_rebalance", group=self._settings.group_id, reason=reason)

    def _join(self) -> None:
        """Sees to it that it is in the group, with the topics of now."""
        by_pattern = self._subscriptions.kind is SubscriptionType.PATTERN
        if by_pattern and not self._cluster.is_complete:
            return  # Which topics match is not known yet.
        if self.membership.topics != self._subscriptions.topics:
            self.membership.topics = self._subscriptions.topics
            self._wake.set()
        self.membership.subscribed()
        if self.link.node is None:
            self.link.raise_failure()
            self.link.find_soon()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    async def _lose_all(self) -> None:
        owned = sorted(self._subscriptions.partitions)
        self._ids.clear()
        problem = await revoke(self._subscriptions, owned, lost=True) if owned else None
        if self.membership.has_lost_all:
            self.membership.dropped()
            self._wake.set()
        if problem is not None:
            raise problem

    async def _reconcile(self) -> None:
        """Makes what the coordinator wants it to own its own (``maybeReconcile``)."""
        stay, target = self.membership.stay, self._named(self.membership.target)
        gone = sorted(tp for tp, topic_id in self._ids.items() if target.get(tp) != topic_id)
        if not gone:
            self.auto_commit.call_off()
        elif not self.auto_commit.done_before_rebalance(gone):
            return
        if target == self._ids:
            return  # The rest is of topics that metadata have still to name.
        problem = None
        if gone:
            problem = await revoke(self._subscriptions, gone)
        if self.membership.stay != stay:
            return  # Thrown out while the listener ran: what is left is lost at the next poll.
        added = sorted(tp for tp, topic_id in target.items() if self._ids.get(tp) != topic_id)
        self._ids = target
        self._cluster.need({tp.topic for tp in added})
        self._subscriptions.set_partitions(sorted(target))
        self.auto_commit.put_off()
        self.membership.applied(_owned(target))
        _log.info(
            "group.assigned",
            group=self._settings.group_id,
            generation=self.membership.generation.number,
            partitions=len(target),
            added=len(added),
        )
        self._wake.set()
        raised = await call(self._subscriptions.on_assigned, added)
        if problem or raised:
            raise problem or raised  # type: ignore[misc]

    def _named(self, target: Owned) -> dict[TopicPartition, Uuid]:
        """The partitions of a target by name, as far as the topics are known here."""
        names = self._cluster.metadata.names
        if not target.keys() <= names.keys():
            self._cluster.refresh_soon()
        return {
            TopicPartition(names[topic_id], number): topic_id
            for topic_id, numbers in target.items()
            if topic_id in names
            for number in numbers
        }

    # Between them.

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            wait_ms = await self._step(now_ms())
            try:
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _step(self, now: float) -> float | None:
        """Does what is due; how long to wait after it, None until there is news."""
        membership = self.membership
        if not membership.sends_heartbeats:
            return None
        if now >= self._poll_until_ms:
            # The caller is stuck: others read its partitions until it polls again.
            _log.warning(
                "group.poll_expired",
                advice="poll more often, or raise max.poll.interval.ms, or lower max.poll.records",
            )
            await self._say_leave()
            if membership.sends_heartbeats:
                membership.expired()
            self._on_news()
            return None
        left_ms = self._poll_until_ms - now
        if self._heartbeat is not None and not self._heartbeat.done():
            return left_ms
        if self.link.node is None:
            self.link.find_soon()
            return min(left_ms, self._settings.retry_backoff_ms)
        due_ms = self._not_before_ms if membership.has_news else max(self._next_ms, self._not_before_ms)
        if now < due_ms:
            return min(left_ms, due_ms - now)
        self._next_ms = now + membership.heartbeat_interval_ms
        self._heartbeat = asyncio.create_task(self._send_heartbeat())
        return left_ms

    async def _send_heartbeat(self) -> None:
        sent = self.membership.heartbeat()
        try:
            try:
                response = await self.link.send(sent.request, ConsumerGroupHeartbeatResponse)
            except UnsupportedVersionError:
                response = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            self.membership.heard(response, sent)
        except (BarnabasError, OSError) as error:
            self._heartbeat_failed(error)
        else:
            self._failures = 0
            self._next_ms = now_ms() + self.membership.heartbeat_interval_ms
        self._news()

    def _heartbeat_failed(self, error: BarnabasError | OSError) -> None:
        _log.debug("heartbeat.failed", error=error)
        self.membership.not_answered()
        if isinstance(error, KafkaError) and error.code in COORDINATOR_MOVED:
            self.link.lost(f"error response {error.code.name}")
        if isinstance(error, GroupError):
            self._refusal = error
        if self._failures or not (isinstance(error, KafkaError) and error.code in FENCED):
            # Who was thrown out joins again at once, but not without end.
            self._not_before_ms = now_ms() + self._backoff.after(self._failures)
        self._failures += 1

    # Leaving.

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Gives up all partitions and leaves the group. Raises what a listener raises."""
        owned = sorted(self._subscriptions.partitions) if self._subscriptions.automatic else []
        problem = None
        if owned:
            lost = self.membership.generation.is_none
            problem = await revoke(self._subscriptions, owned, lost=lost)
        self._ids.clear()
        try:
            async with asyncio.timeout(deadline.left_s):
                await self._say_leave()
        except TimeoutError:
            _log.warning("group.leave_failed", group=self._settings.group_id, error="no answer in time")
        self.membership.left()
        _log.debug("group.left", group=self._settings.group_id, reason=reason)
        if problem is not None:
            raise problem

    async def _say_leave(self) -> None:
        """Says so to the coordinator, in one attempt, behind a heartbeat that is under way."""
        request = self.membership.leave_request()
        if request is None or self.link.node is None:
            return
        try:
            answer = await self.link.send(request, ConsumerGroupHeartbeatResponse)
            code = ErrorCode.of(answer.error_code)
            _log.info("group.left", group=self._settings.group_id, error=code.name)
        except (BarnabasError, OSError) as error:
            _log.warning("group.leave_failed", group=self._settings.group_id, error=error)

    async def close(self, deadline: Deadline) -> None:
        """Commits, where that is automatic, and leaves the group. Raises what a listener raises."""
        try:
            await self.auto_commit.at_the_end(deadline)
            await end(self._task)
            await self.leave("the consumer is being closed", deadline)
        finally:
            await end(self._task, self._heartbeat)
            await self.commits.close()
            await self.link.close()

    def __repr__(self) -> str:
        return f"<ConsumerGroupMember {self.membership!r} {self.link!r}>"


def _owned(partitions: dict[TopicPartition, Uuid]) -> Owned:
    numbers: dict[Uuid, set[int]] = {}
    for tp, topic_id in partitions.items():
        numbers.setdefault(topic_id, set()).add(tp.partition)
    return {topic_id: frozenset(those) for topic_id, those in numbers.items()}
