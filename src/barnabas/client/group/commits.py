"""`Commits`: keeps a consumer's positions at the coordinator of its group, and asks for them.

Theory of operation
-------------------
A member of a group commits in its generation, and only while it is stable in it: in between, others may have
its partitions already. A consumer that assigns its partitions itself commits in no generation. `commit` tries
until it is done. `commit_soon` tries once, in the background; the caller's callback gets the outcome at
the next poll, in the order in which the commits were asked for.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.committed import Offsets, commit_topics, fetched_offset, with_metadata
from barnabas.client.consumer_hooks import intercepted_commit
from barnabas.client.coordinator_link import CoordinatorLink
from barnabas.client.coordinators import COORDINATOR_MOVED
from barnabas.client.errors import ClientTimeoutError, CommitFailedError, GroupError
from barnabas.client.group.membership import Generation
from barnabas.client.group.settings import MemberSettings
from barnabas.client.home_loop import end
from barnabas.client.retries import Deadline
from barnabas.client.subscription_state import SubscriptionState
from barnabas.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, by_topic
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)

T = TypeVar("T")

CommitCallback: TypeAlias = Callable[[Offsets, Exception | None], Awaitable[object] | object]
"""Called with what was to be committed and what went wrong; may be a coroutine function."""

_BY_NAME: Final = (2, 9)
"""From v10 on OffsetCommit names topics by id."""
_ALL: Final = (2, OffsetCommitRequest.max_version)
_STABLE_ONLY: Final = (7, 7)
_ANY: Final = (1, 6)
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        *COORDINATOR_MOVED,
    }
)
_EXPLAINED: Final = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    }
)
_REBALANCING: Final = (
    "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition"
    " assignment. You can try completing the rebalance by calling poll() and then retry the operation."
)
_NOT_A_MEMBER: Final = (
    "Offset commit cannot be completed since the consumer is not part of an active group for auto partition"
    " assignment; it is likely that the consumer was kicked out of the group."
)

_log = EventLog("client.group")


def offsets_to_commit(given: Mapping[TopicPartition, int | OffsetAndMetadata]) -> Offsets:
    """What the caller wants committed, as offsets with metadata.
    Raises BarnabasError for a negative offset.
    """
    offsets = with_metadata(given)
    for tp, one in offsets.items():
        if one.offset < 0:
            raise BarnabasError(f"Invalid offset: {one.offset} (committing {tp})")
    return offsets


class StaleEpochError(KafkaError):
    """The member's epoch has grown at the coordinator, and the answer that says so is on its way."""

    @property
    def retriable(self) -> bool:
        """The next attempt is made in the new epoch."""
        return True


class CommittingMember(Protocol):
    """What commits are made in, and what they find out; a membership of either protocol."""

    @property
    def generation(self) -> Generation:
        """Where the member stands."""

    @property
    def stable_generation(self) -> Generation | None:
        """What may be committed in now; None where nothing may."""

    @property
    def rebalancing(self) -> bool:
        """Whether a round of the group is under way for it."""

    @property
    def is_preparing(self) -> bool:
        """Whether such a round has not given it a new generation yet."""

    def request_rejoin(self, reason: str) -> None:
        """The coordinator says that the group rebalances."""

    def reset_after(self, code: ErrorCode, request: str) -> None:
        """The coordinator says that the member is out of the group."""


class Commits:
    """The committed offsets of one group, for one of its consumers."""

    def __init__(
        self,
        settings: MemberSettings,
        cluster: Cluster,
        link: CoordinatorLink,
        membership: CommittingMember,
        subscriptions: SubscriptionState,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._link = link
        self._membership = membership
        self._subscriptions = subscriptions
        self._under_way: deque[tuple[asyncio.Task[None], Offsets, CommitCallback | None]] = deque()

    @property
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group."""
        generation = self._membership.generation
        return ConsumerGroupMetadata(
            self._settings.group_id, generation.number, generation.member_id, self._settings.group_instance_id
        )

    # Committing.

    async def commit(self, offsets: Offsets, deadline: Deadline) -> None:
        """Commits, trying again while it may help.

        Raises CommitFailedError, KafkaError (REBALANCE_IN_PROGRESS: poll, then try again),
        ClientTimeoutError.
        """
        # Commits keep their order: what was sent before is over before this one is.
        if self._under_way:
            await asyncio.wait([task for task, _, _ in self._under_way], timeout=deadline.left_s)
        await self.invoke_callbacks()
        if offsets:
            await self._until_done(lambda: self.commit_once(offsets), deadline, "No offsets were committed")

    async def _until_done(self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, failure: str) -> T:
        async def found() -> T:
            await self._link.find()
            return await attempt()

        try:
            return await self._cluster.retrying(found, deadline, failure)
        except ClientTimeoutError as error:
            if self._link.node is not None:
                raise
            group_id = self._settings.group_id
            raise ClientTimeoutError(f"{error}: the coordinator of group {group_id} was not found") from error

    async def commit_once(self, offsets: Offsets) -> None:
        """One attempt (``sendOffsetCommitRequest``). Raises as `commit`, and what may be tried again."""
        generation = self._generation()
        request = self._commit_request(offsets, generation)
        names = {topic.topic_id: topic.name for topic in request.topics}
        # Topics go by id from v10 on; where the id of one is not known, all go by name.
        versions = _BY_NAME if ZERO_UUID in names else _ALL
        response = await self._link.send(request, OffsetCommitResponse, versions=versions)
        unauthorised = set()
        for topic in response.topics:
            name = topic.name or names.get(topic.topic_id, "")
            for one in topic.partitions:
                code = ErrorCode.of(one.error_code)
                if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    unauthorised.add(name)
                elif code is not ErrorCode.NONE:
                    raise self._commit_failed(code, TopicPartition(name, one.partition_index), generation)
        if unauthorised:
            named = ", ".join(sorted(unauthorised))
            raise GroupError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Not authorized to access topics: [{named}]"
            )
        intercepted_commit(self._settings.interceptors, offsets)

    def _generation(self) -> Generation:
        """The one to commit in. Raises while a member is in none."""
        if not self._subscriptions.automatic:
            return Generation()
        generation = self._membership.stable_generation
        if generation is not None:
            return generation
        if self._membership.rebalancing:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, _REBALANCING)
        raise CommitFailedError(ErrorCode.UNKNOWN_MEMBER_ID, _NOT_A_MEMBER)

    def _commit_request(self, offsets: Offsets, generation: Generation) -> OffsetCommitRequest:
        topics = commit_topics({tp: offsets[tp] for tp in sorted(offsets)})
        for topic in topics:
            topic.topic_id = self._cluster.metadata.topic_id(topic.name)
        return OffsetCommitRequest(
            group_id=self._settings.group_id,
            generation_id_or_member_epoch=generation.number,
            member_id=generation.member_id,
            group_instance_id=self._settings.group_instance_id if self._subscriptions.automatic else None,
            topics=topics,
        )

    def _commit_failed(self, code: ErrorCode, tp: TopicPartition, sent: Generation) -> KafkaError:
        _log.debug("commit.failed", group=self._settings.group_id, partition=tp, error=code.name)
        membership = self._membership
        outdated = membership.generation != sent
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._cluster.refresh_soon()
        if code in COORDINATOR_MOVED or code is ErrorCode.REQUEST_TIMED_OUT:
            self._link.lost(f"error response {code.name}")
        if code in _RETRIED:
            return KafkaError(code, f"{code.message} (committing {tp})")
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            membership.request_rejoin("offset commit failed since group is already rebalancing")
            return KafkaError(code, _REBALANCING)
        if code is ErrorCode.STALE_MEMBER_EPOCH:
            return StaleEpochError(code, f"{code.message} (committing {tp})")
        if code in {
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        }:
            if outdated and membership.is_preparing:
                return KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, _REBALANCING)
            if code is ErrorCode.FENCED_INSTANCE_ID and not outdated:
                return GroupError(code, f"{code.message} (group {self._settings.group_id})")
            if code is not ErrorCode.FENCED_INSTANCE_ID and not outdated:
                # Java resets in a newer generation, too; there the answer says nothing about this membership.
                membership.reset_after(code, "OFFSET_COMMIT")
            return CommitFailedError(code, _NOT_A_MEMBER)
        message = code.message if code in _EXPLAINED else f"Unexpected error in commit: {code.message}"
        return GroupError(code, f"{message} (committing {tp})")

    # Committing in the background.

    def commit_soon(self, offsets: Offsets, callback: CommitCallback | None) -> "asyncio.Task[None]":
        """One attempt in the background; a later poll calls the callback (``commitOffsetsAsync``)."""
        task = asyncio.create_task(self._commit_when_found(offsets))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._under_way.append((task, offsets, callback))
        return task

    async def _commit_when_found(self, offsets: Offsets) -> None:
        if not offsets:
            return
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                await self._link.find()
        except TimeoutError:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from None
        await self.commit_once(offsets)

    async def invoke_callbacks(self) -> None:
        """Calls the callbacks of the commits that are done (``invokeCompletedOffsetCommitCallbacks``). Raises
        GroupError once a static member is fenced.
        """
        while self._under_way and self._under_way[0][0].done():
            task, offsets, callback = self._under_way.popleft()
            error = None if task.cancelled() else task.exception()
            if callback is not None:
                outcome = callback(offsets, error if isinstance(error, Exception) else None)
                if isinstance(outcome, Awaitable):
                    await outcome
            elif error is not None:
                _log.warning("commit.failed", group=self._settings.group_id, error=error)
            if isinstance(error, GroupError) and error.code is ErrorCode.FENCED_INSTANCE_ID:
                raise error

    async def close(self) -> None:
        await end(*(task for task, _, _ in self._under_way))

    # Asking.

    async def committed(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What is committed for each partition. Raises KafkaError, ClientTimeoutError."""
        wanted = list(partitions)
        if not wanted:
            return {}
        failure = "No committed offsets were found"
        found = await self._until_done(lambda: self._fetch_once(wanted), deadline, failure)
        return {tp: found.get(tp) for tp in wanted}

    async def _fetch_once(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        topics = [
            OffsetFetchRequestTopic(name=name, partition_indexes=[tp.partition for tp in members])
            for name, members in by_topic(partitions).items()
        ]
        response = await self._ask(topics)
        code = ErrorCode.of(response.error_code)
        if code in COORDINATOR_MOVED:
            self._link.lost(f"error response {code.name}")
        if code is not ErrorCode.NONE:
            raise self._fetch_failed(code)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                code = ErrorCode.of(one.error_code)
                if code is not ErrorCode.NONE:
                    raise self._fetch_failed(code, tp)
                found[tp] = fetched_offset(one)
        return found

    async def _ask(self, topics: list[OffsetFetchRequestTopic]) -> OffsetFetchResponse:
        """KIP-447: not what an open transaction may still change, where the broker knows about that."""
        request = OffsetFetchRequest(group_id=self._settings.group_id, topics=topics, require_stable=True)
        try:
            return await self._link.send(request, OffsetFetchResponse, versions=_STABLE_ONLY)
        except UnsupportedVersionError:
            request = OffsetFetchRequest(group_id=self._settings.group_id, topics=topics)
            return await self._link.send(request, OffsetFetchResponse, versions=_ANY)

    def _fetch_failed(self, code: ErrorCode, tp: TopicPartition | None = None) -> KafkaError:
        place = f"group {self._settings.group_id}" if tp is None else str(tp)
        message = f"{code.message} (fetching committed offsets of {place})"
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and tp is not None:
            return GroupError(code, f"Topic or Partition {tp} does not exist")
        return KafkaError(code, message) if code.retriable else GroupError(code, message)

    def __repr__(self) -> str:
        return f"<Commits {self._settings.group_id} {len(self._under_way)} under way>"
