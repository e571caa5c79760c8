"""Judges of those who read: rebalances, lag, what retention takes, transactions that hold readers back."""

from typing import Final

from barnabas.console.health.outcome import Measured
from barnabas.console.lag import all_lags
from barnabas.console.reading import Freshness
from barnabas.console.snapshot import ClusterSnapshot

_NOTHING_TO_SAY: Final = frozenset(
    {"no position was committed", "the group has no positions", "the topic was deleted"}
)


def rebalancing(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that rebalance for so many minutes."""
    times = sorted(((now_ms - at) / 60_000, name) for name, at in snapshot.rebalancing_since_ms.items())[::-1]
    bad = [f"{name} for {minutes:.1f} min" for minutes, name in times if minutes >= limit]
    return Measured(times[0][0] if times else 0, bad, _unread_groups(snapshot, now_ms))


def _unread_groups(snapshot: ClusterSnapshot, now_ms: int) -> list[str]:
    if not snapshot.group_listings:
        return ["groups: not read yet"]
    return [
        f"groups of broker {broker}: {reading.error or 'too old'}"
        for broker, reading in snapshot.group_listings.items()
        if reading.state(now_ms) is not Freshness.OK
    ]


def lag_seconds(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that are behind for so many seconds."""
    times, unknown = [], _unread_groups(snapshot, now_ms)
    for name, whole in all_lags(snapshot, now_ms).items():
        found = whole.seconds
        if isinstance(found.value, int | float):
            times.append((found.value, name))
        elif found.why not in _NOTHING_TO_SAY:
            unknown.append(f"{name}: {found.why}")
    times.sort(reverse=True)
    bad = [f"{name} {seconds:.0f} s" for seconds, name in times if seconds > limit]
    return Measured(times[0][0] if times else 0, bad, unknown)


def data_loss(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Groups that retention overtakes within so many hours, or has overtaken."""
    bad, soonest = [], None
    for name, whole in all_lags(snapshot, now_ms).items():
        if whole.lost:
            bad.append(f"{name} has lost {whole.lost} records to retention")
        elif whole.seconds_to_data_loss is not None:
            hours = whole.seconds_to_data_loss / 3600
            soonest = hours if soonest is None else min(soonest, hours)
            if hours < limit:
                bad.append(f"{name} in {max(hours, 0):.1f} h")
    return Measured(soonest, bad, _unread_groups(snapshot, now_ms))


def hanging_transactions(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Partitions whose last stable offset has stood still for so many minutes below the end: readers of
    committed records wait there, whether a coordinator knows of the transaction or not.
    """
    reading = snapshot.held_offsets
    if reading.value is None:
        return Measured(unknown=[f"last stable offsets: {reading.error}"])
    times = sorted(
        (((now_ms - one.since_ms) / 60_000, str(tp), one.offset) for tp, one in reading.value.items()),
        reverse=True,
    )
    bad = [f"{tp} at offset {at} for {minutes:.0f} min" for minutes, tp, at in times if minutes >= limit]
    stale = reading.state(now_ms) is not Freshness.OK
    unknown = [f"last stable offsets: {reading.error or 'too old'}"] if stale else []
    return Measured(times[0][0] if times else 0, bad, unknown)
