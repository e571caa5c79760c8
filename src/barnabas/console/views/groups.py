"""Groups, and one group with its members and its lag."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.admin import GroupListing
from barnabas.console.figure import Figure, figure
from barnabas.console.lag import GroupLag, LagRow, group_lag, partition_lags
from barnabas.console.reading import known
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.trend import Trend
from barnabas.console.views.paging import Paging, cut

_CLOCK_APART_MS: Final = 60_000
"""Clocks that are this far apart are said to be."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in the list."""

    name: str
    type: str
    protocol: str
    state: Figure
    members: Figure
    coordinator: int
    lag: GroupLag
    trend: Sequence[float]


@dataclass(frozen=True, slots=True)
class GroupsView:
    """A page of groups."""

    rows: Sequence[GroupRow]
    paging: Paging
    search: str
    sort: str
    unread: dict[int, str]
    """Brokers whose groups are not known, and why."""


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: Sequence[str]


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group."""

    row: GroupRow
    assignor: str
    members: Sequence[MemberRow]
    partitions: Sequence[LagRow]
    seconds_to_catch_up: float | None
    """At the pace of the last looks; None where the lag does not shrink, or is not known."""
    clock_ahead_s: float | None
    """How far the newest record of its partitions is ahead of the console's clock; None where that is no
    more than a minute, and where no group has anything left to read.
    """


def groups(
    snapshot: ClusterSnapshot, trend: Trend, now_ms: int, *, search: str, sort: str, page: int, size: int
) -> GroupsView:
    """A page of the groups whose names have the text."""
    there = {
        one.group_id: (broker, one)
        for broker, reading in snapshot.group_listings.items()
        for one in reading.value or ()
    }
    found = [name for name in there if search.casefold() in name.casefold()]
    if sort == "lag":
        found.sort(key=lambda name: (-_last(trend.lags(name)), name))
    else:
        sort = "name"
        found.sort()
    shown, paging = cut(found, page, size)
    rows = [_row(snapshot, trend, name, *there[name], now_ms) for name in shown]
    unread = {broker: one.error for broker, one in snapshot.group_listings.items() if one.error is not None}
    return GroupsView(rows, paging, search, sort, unread)


def _last(samples: Sequence[float]) -> float:
    return samples[-1] if samples else -1


def _row(
    snapshot: ClusterSnapshot, trend: Trend, name: str, broker: int, listing: GroupListing, now_ms: int
) -> GroupRow:
    described = snapshot.groups.get(name)
    members = len(described.value.members) if described and described.value else None
    state = str(listing.state) if listing.state else None
    if state is None and described and described.value:
        state = str(described.value.state)
    return GroupRow(
        name,
        str(listing.type or "Unknown"),
        listing.protocol,
        figure(snapshot.group_listings[broker], now_ms, state or "Unknown"),
        figure(described, now_ms, members),
        broker,
        group_lag(partition_lags(snapshot, name, now_ms)),
        list(trend.lags(name)),
    )


def group(
    snapshot: ClusterSnapshot, trend: Trend, name: str, now_ms: int, round_s: float
) -> GroupView | None:
    """One group; None where no broker lists it."""
    listed = next(
        (
            (broker, one)
            for broker, each in snapshot.group_listings.items()
            for one in each.value or ()
            if one.group_id == name
        ),
        None,
    )
    if listed is None:
        return None
    described = snapshot.groups.get(name)
    description = described.value if described else None
    members = [
        MemberRow(
            one.member_id,
            one.group_instance_id,
            one.client_id,
            one.host,
            [str(tp) for tp in sorted(one.assignment)],
        )
        for one in (description.members if description else ())
    ]
    return GroupView(
        _row(snapshot, trend, name, *listed, now_ms),
        description.assignor if description else "",
        members,
        partition_lags(snapshot, name, now_ms),
        _to_catch_up(trend.lags(name), round_s),
        _clock_ahead(snapshot, name, now_ms),
    )


def _clock_ahead(snapshot: ClusterSnapshot, name: str, now_ms: int) -> float | None:
    """A broker's clock that is ahead, or a producer's, writes records of the future."""
    positions = snapshot.positions.get(name)
    newest = [known(snapshot.newest_ms, tp) or 0 for tp in (positions.value if positions else None) or ()]
    ahead_ms = max(newest, default=0) - now_ms
    return ahead_ms / 1000 if ahead_ms > _CLOCK_APART_MS else None


def _to_catch_up(lags: Sequence[float], round_s: float) -> float | None:
    if not lags or not lags[-1]:
        return 0.0 if lags else None
    shrunk = lags[0] - lags[-1]
    if len(lags) < 3 or shrunk <= 0:
        return None
    return lags[-1] / (shrunk / ((len(lags) - 1) * round_s))
