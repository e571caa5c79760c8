"""Fetch sessions (KIP-227): what both sides count, and `FetchSessionHandler`, the half of the one that
fetches.

Theory of operation
-------------------
A full request (epoch 0) names every partition and asks for a session; its answer carries the session's id.
From then on a request names only what changed since the last one, and the partitions to forget, under an
epoch that counts up from 1 and wraps from 2^31-1 to 1. A broker that does not know the session, or no longer
does, or counts differently, says so; then the next request is full again. Session id 0 means that the broker
keeps none.

Consumers and replica fetchers both fetch, and the broker counts the same epochs: so this is a part of the
protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition, Uuid

INVALID_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """``FetchMetadata.nextEpoch``: it wraps to 1, because 0 would open a new session."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == _EPOCH_MAX else epoch + 1


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """What is asked of one partition; equal targets need not be named again within a session."""

    topic_id: Uuid
    offset: int
    leader_epoch: int
    max_bytes: int
    last_fetched_epoch: int = -1
    """The epoch of the record before the offset, where the answer is to say whether the logs diverge."""
    log_start_offset: int = -1
    """Of replicas only."""


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """What the next request of a session says."""

    session_id: int
    epoch: int
    named: Mapping[TopicPartition, FetchTarget]
    forgotten: Mapping[TopicPartition, Uuid]


class FetchSessionHandler:
    """The session with one broker (``FetchSessionHandler``); one request at a time."""

    __slots__ = ("_epoch", "_partitions", "_session_id")

    def __init__(self) -> None:
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, FetchTarget] = {}

    def plan(self, wanted: Mapping[TopicPartition, FetchTarget]) -> FetchPlan:
        """The next request, for these partitions and no others."""
        before, self._partitions = self._partitions, dict(wanted)
        if self._epoch == INITIAL_EPOCH:
            return FetchPlan(self._session_id, INITIAL_EPOCH, wanted, {})
        named = {tp: target for tp, target in wanted.items() if before.get(tp) != target}
        forgotten = {
            tp: target.topic_id
            for tp, target in before.items()
            # A topic that was deleted and created again has another id: the broker must forget the old one
            # (KIP-516).
            if tp not in wanted or wanted[tp].topic_id != target.topic_id
        }
        return FetchPlan(self._session_id, self._epoch, named, forgotten)

    @property
    def opens_session(self) -> bool:
        """Whether the next request is a full one, so that `plan` is to be asked for it."""
        return self._epoch == INITIAL_EPOCH

    def plan_changes(self, changes: Mapping[TopicPartition, FetchTarget | None]) -> FetchPlan:
        """The next request of an open session, by what changed since the last one; None for what is no longer
        wanted.

        `plan` compares all partitions; a replica fetcher has thousands, of which few move.
        """
        assert self._epoch != INITIAL_EPOCH, "a full request names everything"
        named: dict[TopicPartition, FetchTarget] = {}
        forgotten: dict[TopicPartition, Uuid] = {}
        for tp, target in changes.items():
            before = self._partitions.get(tp)
            if before is not None and (target is None or target.topic_id != before.topic_id):
                forgotten[tp] = before.topic_id
            if target is None:
                self._partitions.pop(tp, None)
            elif target != before:
                named[tp] = self._partitions[tp] = target
        return FetchPlan(self._session_id, self._epoch, named, forgotten)

    def target(self, tp: TopicPartition) -> FetchTarget | None:
        """What the last request asked of a partition, there or in an earlier one of the session."""
        return self._partitions.get(tp)

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """``handleResponse``: takes note of an answer's top-level error and session id."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._restart(INVALID_SESSION_ID)
        elif error is not ErrorCode.NONE:
            self._restart(self._session_id)  # a full request under the old id closes that session
        elif self._epoch == INITIAL_EPOCH:
            self._session_id = session_id
            self._epoch = next_epoch(INITIAL_EPOCH) if session_id != INVALID_SESSION_ID else INITIAL_EPOCH
        else:
            self._epoch = next_epoch(self._epoch)

    def failed(self) -> None:
        """``handleError``: the request had no answer, so the broker may have seen it or not."""
        self._restart(self._session_id)

    def _restart(self, session_id: int) -> None:
        self._session_id = session_id
        self._epoch = INITIAL_EPOCH
        self._partitions = {}

    def __repr__(self) -> str:
        return (
            f"<FetchSessionHandler {self._session_id} epoch={self._epoch} partitions={len(self._partitions)}>"
        )
