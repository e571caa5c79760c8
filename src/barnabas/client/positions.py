"""`Positions`: where a consumer begins to read each partition that has no position yet.

Theory of operation
-------------------
A partition begins where the last `seek_to_...`, or `seek` with a time, says; else at the offset that its
group has committed; else where ``auto.offset.reset`` says. One look-up is under way at a time, for all
partitions without a position.
When some of them are taken away meanwhile, it starts again with those that are left: else it might wait for
partitions that are no longer assigned.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.client.cluster import Cluster
from barnabas.client.config import ISOLATION_LEVELS
from barnabas.client.errors import NoOffsetError
from barnabas.client.group.commits import Commits
from barnabas.client.home_loop import end
from barnabas.client.keyed_call import raise_first
from barnabas.client.offsets import list_offsets
from barnabas.client.retries import Deadline
from barnabas.client.subscription_state import AssignedPartition
from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from barnabas.core.config import Config
from barnabas.core.ids import TopicPartition

_RESETS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP, "none": None}


class Positions:
    """Looks them up, for one consumer."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        partitions: Mapping[TopicPartition, AssignedPartition],
        commits: Commits | None,
        on_news: Callable[[], object],
    ) -> None:
        self.default: int | None = _RESETS[config["auto.offset.reset"]]
        """The special timestamp to begin at; None where the caller has to say."""
        self._isolation_level = ISOLATION_LEVELS[config["isolation.level"]]
        self._timeout_ms = config["default.api.timeout.ms"]
        self._cluster = cluster
        self._partitions = partitions
        self._commits = commits
        self._on_news = on_news
        self._task: asyncio.Task[None] | None = None
        self._wanted: list[AssignedPartition] = []

    def advance(self) -> None:
        """Sees to it that a look-up is under way where one is needed. Raises what the last one raised."""
        task = self._task
        if task is not None and not all(map(self._is_wanted, self._wanted)):
            task.cancel()
            self._task = task = None
        if task is not None and task.done():
            self._task = None
            task.result()
        unplaced = [state for state in self._partitions.values() if state.position is None]
        if self._task is None and unplaced:
            self._wanted = unplaced
            self._task = asyncio.create_task(self._place(unplaced))
            self._task.add_done_callback(self._over)

    def _over(self, finished: "asyncio.Task[None]") -> None:
        if not finished.cancelled():
            finished.exception()  # The consumer may be closed, and nobody looks at the error.
        self._on_news()

    def _is_wanted(self, state: AssignedPartition) -> bool:
        return self._partitions.get(state.tp) is state

    async def find(self, deadline: Deadline) -> None:
        """Waits until every partition has a position, or the time is over. Raises `NoOffsetError`,
        `KafkaError`, `ClientTimeoutError`.
        """
        self.advance()
        while self._task is not None and not deadline.is_over:
            await asyncio.wait([self._task], timeout=deadline.left_s)
            self.advance()

    async def _place(self, unplaced: list[AssignedPartition]) -> None:
        if self._commits is not None:
            await self._place_as_committed([one for one in unplaced if one.reset_to is None], self._commits)
        left = [state for state in unplaced if state.position is None]
        wanted = {state.tp: self.default if state.reset_to is None else state.reset_to for state in left}
        lost = {tp: None for tp, timestamp in wanted.items() if timestamp is None}
        if lost:
            raise NoOffsetError(lost)
        found = raise_first(
            await list_offsets(
                self._cluster,
                {tp: timestamp for tp, timestamp in wanted.items() if timestamp is not None},
                isolation_level=self._isolation_level,
                timeout_ms=self._timeout_ms,
            )
        )
        # A time for which there is no record yet: what comes next is.
        late = {tp: LATEST_TIMESTAMP for tp, one in found.items() if one.offset < 0}
        if late:
            found |= raise_first(
                await list_offsets(
                    self._cluster,
                    late,
                    isolation_level=self._isolation_level,
                    timeout_ms=self._timeout_ms,
                )
            )
        for state in left:
            # A seek in the meantime wins.
            if state.position is None and state.tp in found:
                state.seek(found[state.tp].offset)

    async def _place_as_committed(self, unplaced: list[AssignedPartition], commits: Commits) -> None:
        found = await commits.committed([state.tp for state in unplaced], Deadline(self._timeout_ms))
        for state in unplaced:
            known = found[state.tp]
            if known is not None and state.position is None and state.reset_to is None:
                state.seek(known.offset, known.leader_epoch)

    async def close(self) -> None:
        await end(self._task)

    def __repr__(self) -> str:
        return f"<Positions {'looking up' if self._task is not None else 'known'}>"
