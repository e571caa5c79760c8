"""`GroupMember`: a consumer in its group, driven by the consumer's polls.

Theory of operation
-------------------
`poll` never waits for the network. It looks at where things are and starts what comes next, as tasks whose end
wakes the consumer: the look-up of the coordinator, the commit before a rebalance, the round of JoinGroup and
SyncGroup. So a consumer whose group rebalances goes on reading what it keeps, and only what touches the
caller's partitions (the listeners, a changed assignment) happens inside its own poll.

A rebalance goes like this::

    prepare    commit positions, if that is automatic; then give up partitions: all of them (eager), those
               no longer subscribed to (cooperative), or, if the member was thrown out, all as lost
    round      JoinGroup, SyncGroup                                                    (`rounds`)
    complete   cooperative: revoke what is not in the new assignment, and go round once more;
               take over the new assignment

Between polls only `heartbeats` act. They may find the member out of the group; then what it owned is lost, which
the caller hears at its next poll. (``ConsumerCoordinator`` of Kafka 3.9.)
"""

import asyncio
import inspect
import random
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.client.assignors import Assignor, RebalanceProtocol, assignors_named
from barnabas.client.cluster import Cluster
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.group.commits import Commits, Offsets
from barnabas.client.group.coordinator_link import CoordinatorLink
from barnabas.client.group.heartbeat import Heartbeat
from barnabas.client.group.heartbeats import Heartbeats, now_ms
from barnabas.client.group.leader import read_assignment
from barnabas.client.group.membership import REJOIN_AT_ONCE, Membership, MemberState
from barnabas.client.group.rounds import Rounds
from barnabas.client.group.settings import GroupSettings
from barnabas.client.group.subscriptions import Kind, Listener, Subscriptions
from barnabas.client.retries import Deadline, is_retriable
from barnabas.client.types import ConsumerGroupMetadata
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition
from barnabas.network.backoff import ExponentialBackoff
from barnabas.protocol.messages.leave_group import LeaveGroupResponse

if TYPE_CHECKING:
    from barnabas.client.metadata import ClusterMetadata

_TOPIC_REFUSED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION})
_LEAVE_BY_MEMBERS: Final = (3, 5)

_log = EventLog("client.group")


class GroupMember:
    """One consumer's part in one group; lives on one event loop."""

    def __init__(
        self,
        settings: GroupSettings,
        cluster: Cluster,
        subscriptions: Subscriptions,
        assignors: Sequence[Assignor],
        on_news: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._on_news = on_news
        self.membership = Membership(settings)
        self.link = CoordinatorLink(cluster, settings.group_id, self._news)
        self.commits = Commits(settings, cluster, self.link, self.membership, subscriptions)
        self._rounds = Rounds(settings, cluster, subscriptions, self.membership, self.link, assignors)
        backoff = ExponentialBackoff(
            initial_ms=settings.retry_backoff_ms,
            max_ms=settings.retry_backoff_max_ms,
            uniform=random.uniform,
        )
        self._timing = Heartbeat(settings, backoff, now_ms())
        self._heartbeats = Heartbeats(
            self.membership,
            self.link,
            self._timing,
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
        self._seen: ClusterMetadata | None = None
        self._metadata_changed = False

    def _news(self) -> None:
        self._heartbeats.wake()
        self._on_news()

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this member is."""
        generation = self.membership.generation
        return ConsumerGroupMetadata(
            self._settings.group_id, generation.number, generation.member_id, self._settings.group_instance_id
        )

    @property
    def wait_s(self) -> float:
        """After how many seconds `poll` should be called again, even if nothing happens."""
        now = now_ms()
        moments = [self._not_before_ms]
        if self._settings.auto_commit_interval_ms is not None:
            moments.append(self._next_commit_ms)
        # What is overdue waits for something else, which will wake the consumer.
        waits = [moment - now for moment in moments if moment > now]
        return min([self._settings.heartbeat_interval_ms, *waits]) / 1000

    # Polling.

    async def poll(self) -> None:
        """Does what can be done now. Raises KafkaError, and what a listener raises."""
        self._follow_metadata()
        await self.commits.tell()
        if self._heartbeats.failure is not None:
            failure, self._heartbeats.failure = self._heartbeats.failure, None
            raise failure
        if self._subscriptions.automatic:
            self._timing.polled(now_ms())
            if self.link.node is None:
                self.link.raise_failure()
                self.link.find_soon()
                return
            self._heartbeats.start()
            if not await self._rebalance():
                return
        self._commit_if_due()

    def _follow_metadata(self) -> None:
        metadata = self._cluster.metadata
        topics = self._subscriptions.topics
        if metadata is not self._seen:
            self._seen = metadata
            self._subscriptions.match(metadata)
            for topic in topics:
                code = metadata.errors.get(topic, ErrorCode.NONE)
                if code in _TOPIC_REFUSED:
                    raise KafkaError(code, f"{code.message} (topic {topic})")
            divided = self._rounds.divided_topics
            if divided is not None and divided != self._rounds.relevant_topics():
                self._metadata_changed = True
        if self._is_metadata_lacking(topics) and self._cluster.age_ms > self._settings.retry_backoff_max_ms:
            self._cluster.refresh_soon()

    def _is_metadata_lacking(self, topics: Collection[str]) -> bool:
        if self._subscriptions.kind is Kind.PATTERN:
            return not self._cluster.is_complete
        return any(topic not in self._cluster.metadata.topics for topic in topics)

    def _commit_if_due(self) -> None:
        interval = self._settings.auto_commit_interval_ms
        if interval is not None and now_ms() >= self._next_commit_ms:
            self._next_commit_ms = now_ms() + interval
            self.commits.commit_soon(self._subscriptions.consumed(), self._auto_committed)

    def _auto_committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            return
        if is_retriable(error):
            self._next_commit_ms = now_ms() + self._settings.retry_backoff_ms
        _log.warning("commit.failed", group=self._settings.group_id, partitions=len(offsets), error=error)

    def commit_now(self) -> None:
        """Commits the positions in the background, where that is automatic."""
        if self._settings.auto_commit_interval_ms is not None:
            self.commits.commit_soon(self._subscriptions.consumed(), self._auto_committed)

    def subscription_changed(self) -> None:
        """There are other topics to join with."""
        self._subscriptions.match(self._cluster.metadata)
        self._seen = None
        self._news()

    # Rebalancing.

    async def _rebalance(self) -> bool:
        """Goes on with a rebalance where one is needed; whether none is (any more)."""
        while self._is_round_needed():
            if now_ms() < self._not_before_ms:
                return False
            if not self.membership.prepared and not await self._prepare():
                return False
            if self._round is None:
                if self.link.node is None:
                    return False
                self._round = asyncio.create_task(self._rounds.run())
                self._round.add_done_callback(self._round_over)
            if not self._round.done() or not await self._finish(self._round):
                return False
        return True

    def _round_over(self, finished: "asyncio.Task[bytes]") -> None:
        if not finished.cancelled():
            finished.exception()  # Nobody may look any more: that is nobody's mistake.
        self._news()

    def _is_round_needed(self) -> bool:
        if self._metadata_changed:
            self._metadata_changed = False
            self.membership.request_rejoin("cached metadata has changed", only_if_none=True)
        joined = self._rounds.joined_topics
        if joined is not None and joined != self._subscriptions.topics and self._round is None:
            self.membership.request_rejoin("subscription has changed", only_if_none=True)
        return self.membership.rejoin_needed or self._round is not None

    async def _prepare(self) -> bool:
        """Before a round; False while there is something to wait for."""
        if not self._committed_before_round():
            return False
        self.membership.prepared = True
        self._prepare_until_ms = None
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self.membership.generation.is_none:
            if owned:
                problem = await self._take_away(owned, lost=True)
        elif self._rounds.protocol is RebalanceProtocol.EAGER:
            problem = await self._take_away(owned)
        elif gone := [tp for tp in owned if tp.topic not in self._subscriptions.topics]:
            problem = await self._take_away(gone)
        self._rounds.divided_topics = None
        self._subscriptions.group_topics = frozenset()
        if problem is not None:
            raise problem
        return True

    def _committed_before_round(self) -> bool:
        """Commits positions where that is automatic; False while that takes its time, and may."""
        if self._settings.auto_commit_interval_ms is None:
            return True
        now = now_ms()
        if self._prepare_until_ms is None:
            self._prepare_until_ms = now + self._settings.rebalance_timeout_ms
        if self._last_commit is None:
            if self._rounds.protocol is RebalanceProtocol.EAGER:
                self._subscriptions.hold_back()
            self._last_commit = self.commits.commit_soon(self._subscriptions.consumed(), self._auto_committed)
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

    async def _take_away(
        self, partitions: Sequence[TopicPartition], *, lost: bool = False
    ) -> Exception | None:
        """Tells the listener, then gives the partitions up; what the listener raised."""
        listener = self._subscriptions.on_revoked
        if lost:
            # As with Java's default method: who does not care about the difference hears it as a revocation.
            listener = self._subscriptions.on_lost or listener
        problem = await _told(listener, partitions)
        kept = self._subscriptions.partitions.keys() - set(partitions)
        self._subscriptions.set_partitions(sorted(kept))
        return problem

    async def _finish(self, finished: "asyncio.Task[bytes]") -> bool:
        """A round is over; False when a pause should follow. Raises what only the caller can deal with."""
        error = finished.exception()
        if error is not None:
            self._round = None
            return self._round_failed(error)
        problem: Exception | None = None
        if self.membership.state is MemberState.STABLE:
            try:
                problem = await self._complete(finished.result())
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
        if code in COORDINATOR_MOVED:
            self.link.lost(f"error response {code.name}" if code else "")
        if code in REJOIN_AT_ONCE:
            return True
        if not is_retriable(error) and not isinstance(error, ClientTimeoutError):
            raise error
        self._not_before_ms = now_ms() + self._settings.retry_backoff_ms
        return False

    async def _complete(self, assignment: bytes) -> Exception | None:
        """Takes over the assignment of a round; what a listener raised."""
        assigned = read_assignment(assignment)
        owned = set(self._subscriptions.partitions)
        if not self._subscriptions.admits(assigned):
            self.membership.request_rejoin("received assignment does not match the current subscription")
            return None
        problem = None
        if self._rounds.protocol is RebalanceProtocol.COOPERATIVE and (
            revoked := sorted(owned.difference(assigned))
        ):
            problem = await self._take_away(revoked)
            self.membership.request_rejoin("need to revoke partitions and re-join")
        self._obey_pattern(assigned)
        generation = self.membership.generation
        self._rounds.assignor(generation.protocol).on_assignment(assigned, generation.number)
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
        told = await _told(self._subscriptions.on_assigned, added)
        return problem or told

    def _obey_pattern(self, assigned: Collection[TopicPartition]) -> None:
        """The leader may know topics that match the pattern and that this member has not seen yet."""
        if self._subscriptions.kind is Kind.PATTERN and self._rounds.joined_topics is not None:
            added = {tp.topic for tp in assigned} - self._rounds.joined_topics
            self._subscriptions.topics |= added
            self._rounds.joined_topics |= added

    # Leaving.

    async def _leave_group(self, reason: str) -> None:
        """Tells the coordinator, in one attempt, and is out."""
        request = self.membership.leave_request(reason)
        node_known = self.link.node is not None
        if self._round is not None:
            if not self._round.done():
                # The answer to a JoinGroup may be minutes away, and a broker answers in order.
                self._round.cancel()
                self.link.reconnect()
            self._round = None
        self.membership.reset("consumer pro-actively leaving the group")
        if request is not None and node_known:
            try:
                answer = await self.link.send(request, LeaveGroupResponse, versions=_LEAVE_BY_MEMBERS)
                _log.info(
                    "group.left", group=self._settings.group_id, error=ErrorCode.of(answer.error_code).name
                )
            except (BarnabasError, OSError) as error:
                _log.warning("group.leave_failed", group=self._settings.group_id, error=error)

    async def leave(self, reason: str, deadline: Deadline) -> None:
        """Gives up all partitions and leaves the group. Raises what a listener raises."""
        owned = sorted(self._subscriptions.partitions)
        problem = None
        if self._subscriptions.automatic and owned:
            lost = self.membership.generation.is_none or self.membership.rebalancing
            problem = await self._take_away(owned, lost=lost)
        try:
            async with asyncio.timeout(deadline.left_s):
                await self._leave_group(reason)
        except TimeoutError:
            _log.warning("group.leave_failed", group=self._settings.group_id, error="no answer in time")
        self._rounds.joined_topics = self._rounds.divided_topics = None
        if problem is not None:
            raise problem

    async def close(self, deadline: Deadline) -> None:
        """Commits, where that is automatic, and leaves the group. Raises what a listener raises."""
        try:
            await self._commit_at_end(deadline)
            await self._heartbeats.close()
            await self.leave("the consumer is being closed", deadline)
        finally:
            if self._round is not None:
                self._round.cancel()
            await self._heartbeats.close()
            await self.commits.close()
            await self.link.close()

    async def _commit_at_end(self, deadline: Deadline) -> None:
        automatic = self._settings.auto_commit_interval_ms is not None
        try:
            await self.commits.commit(self._subscriptions.consumed() if automatic else {}, deadline)
        except (BarnabasError, OSError) as error:
            _log.warning("commit.failed", group=self._settings.group_id, error=error)

    def __repr__(self) -> str:
        return f"<GroupMember {self.membership!r} {self.link!r}>"


def member_of(
    config: Config, cluster: Cluster, subscriptions: Subscriptions, on_news: Callable[[], object]
) -> GroupMember | None:
    """The member that a consumer's configuration asks for; None without a group. Raises ConfigError."""
    settings = GroupSettings.of(config)
    assignors = assignors_named(config["partition.assignment.strategy"])
    return None if settings is None else GroupMember(settings, cluster, subscriptions, assignors, on_news)


async def _told(listener: Listener | None, partitions: Sequence[TopicPartition]) -> Exception | None:
    """Calls the listener; what it raised, since a rebalance goes on nevertheless."""
    if listener is None:
        return None
    try:
        outcome = listener(list(partitions))
        if inspect.isawaitable(outcome):
            await outcome
    except Exception as error:
        return error
    return None
