"""`AutoCommit`: commits a consumer's positions now and then, and before partitions are given up, where
``enable.auto.commit`` says so.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from barnabas.client.committed import Offsets
from barnabas.client.group.commits import Commits
from barnabas.client.group.heartbeat import now_ms
from barnabas.client.group.settings import MemberSettings
from barnabas.client.retries import Deadline, is_retriable
from barnabas.client.subscription_state import SubscriptionState
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import TopicPartition

if TYPE_CHECKING:
    import asyncio

_DELETED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_log = EventLog("client.group")


class AutoCommit:
    """One consumer's."""

    def __init__(
        self,
        settings: MemberSettings,
        commits: Commits,
        subscriptions: SubscriptionState,
        on_news: Callable[[], object],
    ) -> None:
        self._settings = settings
        self._commits = commits
        self._subscriptions = subscriptions
        self._on_news = on_news
        self._next_ms = now_ms() + (settings.auto_commit_interval_ms or 0)
        self._last: asyncio.Task[None] | None = None
        """The commit before a rebalance."""
        self._given_up: frozenset[TopicPartition] | None = None
        """What is given up after it."""
        self._last_until_ms = 0.0
        self.not_before_ms = 0.0
        """When the commit before a rebalance is tried again."""

    @property
    def is_on(self) -> bool:
        return self._settings.auto_commit_interval_ms is not None

    @property
    def due_ms(self) -> float | None:
        """When the next one is due, on the monotonic clock; None where none is."""
        return self._next_ms if self.is_on else None

    def put_off(self) -> None:
        """There is a new assignment: the next one is an interval away."""
        self._next_ms = now_ms() + (self._settings.auto_commit_interval_ms or 0)

    def if_due(self) -> None:
        """Commits the positions when it is time (``maybeAutoCommitOffsetsAsync``)."""
        if self.is_on and now_ms() >= self._next_ms:
            self.put_off()
            self._commit()

    def before_assign(self) -> None:
        """The caller assigns other partitions: commits the positions in the background."""
        if self.is_on:
            self._commit()

    def done_before_rebalance(self, given_up: Iterable[TopicPartition]) -> bool:
        """Commits before these partitions are given up, of which nothing is handed out meanwhile; False while
        the commit runs or is to be tried again, at most for a rebalance time-out.
        """
        if not self.is_on:
            return True
        now, given_up = now_ms(), frozenset(given_up)
        if self._given_up != given_up:
            # Another rebalance: what was committed for one that did not come about is not the newest.
            self._given_up, self._last = given_up, None
            self._last_until_ms = now + self._settings.rebalance_timeout_ms
        if self._last is None:
            self._subscriptions.mark_pending_revocation(given_up)
            self._last = self._commit()
            self._last.add_done_callback(lambda _done: self._on_news())
        if now < self._last_until_ms:
            if not self._last.done():
                return False
            error = None if self._last.cancelled() else self._last.exception()
            # What is committed of a topic that was deleted matters to nobody.
            if error is not None and is_retriable(error) and _code(error) not in _DELETED:
                self._last = None
                self.not_before_ms = now + self._settings.retry_backoff_ms
                return False
        self._last = self._given_up = None
        return True

    def call_off(self) -> None:
        """Nothing is given up after all."""
        if self._given_up is not None:
            self._last = self._given_up = None
            self._subscriptions.mark_pending_revocation(())

    async def at_the_end(self, deadline: Deadline) -> None:
        """Commits before the consumer is closed, and ends the commits that are under way; what fails is
        logged.
        """
        try:
            await self._commits.commit(self._subscriptions.all_consumed() if self.is_on else {}, deadline)
        except (BarnabasError, OSError) as error:
            _log.warning("commit.failed", group=self._settings.group_id, error=error)

    def _commit(self) -> "asyncio.Task[None]":
        return self._commits.commit_soon(self._subscriptions.all_consumed(), self._committed)

    def _committed(self, offsets: Offsets, error: Exception | None) -> None:
        if error is None:
            return
        if is_retriable(error):
            self._next_ms = now_ms() + self._settings.retry_backoff_ms
        _log.warning("commit.failed", group=self._settings.group_id, partitions=len(offsets), error=error)

    def __repr__(self) -> str:
        return f"<AutoCommit {'on' if self.is_on else 'off'}>"


def _code(error: BaseException) -> ErrorCode | None:
    return error.code if isinstance(error, KafkaError) else None
