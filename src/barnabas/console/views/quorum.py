"""KRaft's quorum, and transactions that nobody will end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from barnabas.admin import AsyncAdmin, QuorumReplica
from barnabas.console.figure import Figure
from barnabas.console.reading import Freshness
from barnabas.console.views.live import LiveView, asked
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.network.errors import UnsupportedVersionError
from barnabas.operations.hanging_transactions import hanging_where_known

_TIMEOUT_MS: Final = 3_000
_UNREAD_SHOWN: Final = 20
_LONGEST_MS: Final = 15 * 60_000
"""``transaction.max.timeout.ms`` of brokers that do not say otherwise."""


@dataclass(frozen=True, slots=True)
class QuorumRow:
    """A replica of the metadata log."""

    node: int
    is_voter: bool
    is_leader: bool
    end_offset: int
    lag: int
    """Offsets behind the leader; -1 when unknown."""
    fetched_ms: int
    """Its last fetch by the leader's clock; -1 for the leader and when unknown."""
    caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumView(LiveView):
    """The quorum; nothing of it on a cluster that keeps its metadata in ZooKeeper."""

    leader: int | None
    epoch: int | None
    high_watermark: int | None
    replicas: Sequence[QuorumRow]


@dataclass(frozen=True, slots=True)
class HangingRow:
    """A transaction that is open in a partition, and that no coordinator knows of."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    start_offset: int
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class HangingView(LiveView):
    """What hangs."""

    hanging: Sequence[HangingRow]
    unread: Sequence[str]
    """Partitions that were not looked at, and why; at most 20."""
    unread_count: int


async def quorum(watched: WatchedCluster) -> QuorumView:
    """Voters and observers, the leader first."""

    async def ask(admin: AsyncAdmin) -> list[QuorumView]:
        try:
            found = await admin.cluster.describe_quorum(timeout_ms=_TIMEOUT_MS)
        except UnsupportedVersionError:
            return []  # brokers before KIP-595, and all that keep their metadata in ZooKeeper
        end = next((one.log_end_offset for one in found.voters if one.replica_id == found.leader_id), -1)

        def row(one: QuorumReplica, *, is_voter: bool) -> QuorumRow:
            is_known = one.log_end_offset >= 0 and end >= 0
            return QuorumRow(
                one.replica_id,
                is_voter,
                one.replica_id == found.leader_id,
                one.log_end_offset,
                max(end - one.log_end_offset, 0) if is_known else -1,
                one.last_fetch_timestamp_ms,
                one.last_caught_up_timestamp_ms,
            )

        rows = [row(one, is_voter=True) for one in found.voters]
        rows += [row(one, is_voter=False) for one in found.observers]
        rows.sort(key=lambda one: (not one.is_leader, not one.is_voter, one.node))
        state = Figure(len(rows))
        return [QuorumView(state, False, found.leader_id, found.leader_epoch, found.high_watermark, rows)]

    state, is_pending, views = await asked(watched, "quorum", ask)
    if not views:
        return QuorumView(state, is_pending, None, None, None, [])
    counted = replace(state, value=len(views[0].replicas))
    return replace(views[0], state=counted, is_pending=is_pending)


async def hanging(watched: WatchedCluster) -> HangingView:
    """All partitions are asked: it takes its time on a large cluster, and is done when it is asked for."""

    async def ask(admin: AsyncAdmin) -> list[tuple[list[HangingRow], dict[TopicPartition, str]]]:
        found, missing = await hanging_where_known(admin, _LONGEST_MS, _TIMEOUT_MS)
        rows = [
            HangingRow(
                tp.topic,
                tp.partition,
                one.producer_id,
                one.epoch,
                -1 if one.current_transaction_start_offset is None else one.current_transaction_start_offset,
                one.last_timestamp,
            )
            for tp, one in found
        ]
        return [(rows, dict(missing))]

    state, is_pending, answers = await asked(watched, "hanging", ask)
    if not answers:
        return HangingView(state, is_pending, [], [], 0)
    [(rows, unread)] = answers
    state = replace(state, value=len(rows))
    if unread and state.state is Freshness.OK:
        why = f"partitions that were not looked at: {len(unread)}"
        state = replace(state, state=Freshness.STALE, age_s=None, why=why)
    named = [f"{tp}: {why}" for tp, why in sorted(unread.items())[:_UNREAD_SHOWN]]
    return HangingView(state, is_pending, rows, named, len(unread))
