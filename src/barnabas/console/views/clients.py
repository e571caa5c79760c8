"""Clients as they see themselves: what they push to brokers (KIP-714), by client id.

Several clients may have one id, and one client may have pushed to several brokers. What a client has counted
is added up over brokers, as each counts from its own first push; of anything else the broker that heard of it
last is asked. Over the clients of an id, rates and counts are added up, and of averages and maxima the worst
one is shown. Clients that are silent for longer than they should be count only where no other one is left.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final, NamedTuple

from barnabas.console.figure import Figure, figure, unknown
from barnabas.console.reading import Freshness, Observation
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.views.paging import Paging, cut
from barnabas.operations.client_pushes import (
    ERRORS,
    LAG,
    LATENCIES,
    RATES,
    SERIES_MAX,
    ClientPushes,
    Labels,
    PushingClient,
    kind_of,
)

_ADDED: Final = (".rate", ".per.hour", ".total", "_total", ".count", ".assigned.partitions", ".in.flight")
_WHOLE_MAX: Final = 1e15
_TOO_LARGE: Final = "its clients push values that are too large to be added up"
_ALTER: Final = "barnabas client-metrics --alter --name NAME --metrics"
_SUBSCRIBE: Final = (
    f"nobody pushes metrics to it: {_ALTER} org.apache.kafka. asks all clients for them,"
    " where the broker has the profile 4.4"
)


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client id in the list."""

    client_id: str
    kinds: Sequence[str]
    """Producer, consumer, admin, streams, as the names of its metrics tell."""
    clients: int
    """How many clients have this id."""
    records_per_s: Figure
    latency_ms: Figure
    """The worst average of a kind of request; of a consumer that of Fetch, with what it waits for records."""
    errors: Figure
    """Records that a producer gave up and log-ins that failed, since the brokers know the client."""
    lag: Figure | None
    """The most records that a consumer is behind in a partition; None for a client that is none."""
    heard: Figure
    """How many seconds ago one of them has pushed."""


@dataclass(frozen=True, slots=True)
class ClientsView:
    """A page of client ids."""

    rows: Sequence[ClientRow]
    paging: Paging
    search: str
    sort: str
    unread: dict[int, str]
    """Brokers of which no client is known, or not what is now, and why."""
    left_out: int
    """Series that the console has not read, as there are too many."""
    left_out_by_brokers: int
    """Values that brokers have not kept since they began."""
    series_max: int = SERIES_MAX
    """How many series the console reads of all brokers."""


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """A client of the id."""

    instance_id: str
    kinds: Sequence[str]
    brokers: Sequence[str]
    """Those that know it; the one that heard of it last is the first."""
    heard: Figure
    series: int


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of the id, with these labels."""

    name: str
    labels: Mapping[str, str]
    value: Figure
    made_by: str
    """What was done where several clients have it: sum, most, least."""
    clients: int


@dataclass(frozen=True, slots=True)
class ClientView:
    """One client id."""

    row: ClientRow
    instances: Sequence[InstanceRow]
    """At most `size` of them, those that were heard of last: thousands may have one id."""
    metrics: Sequence[MetricRow]
    paging: Paging
    search: str


class _Value(NamedTuple):
    """A metric of one client."""

    value: float
    is_live: bool
    age_s: float
    why: str | None


class _Known(NamedTuple):
    """A client as one broker knows it, and how far that can be relied on."""

    broker: str
    client: PushingClient
    age_s: float
    """Since its last push, or since the metrics were read where the broker does not say that."""
    is_live: bool
    why: str | None


def clients(
    snapshot: ClusterSnapshot, now_ms: int, *, search: str, sort: str, page: int, size: int
) -> ClientsView:
    """A page of the client ids that have the text."""
    known = _known(snapshot, now_ms)
    found = [name for name in sorted(known) if search.casefold() in name.casefold()]
    rows: Iterable[ClientRow]
    if sort in _SORTS:
        # All of them are made for it; sorted by name only those that are shown.
        rows, paging = cut(sorted((_row(name, known[name]) for name in found), key=_SORTS[sort]), page, size)
    else:
        sort = "name"
        shown, paging = cut(found, page, size)
        rows = [_row(name, known[name]) for name in shown]
    read = [one.value for one in snapshot.client_pushes.values() if one.value is not None]
    return ClientsView(
        list(rows),
        paging,
        search,
        sort,
        _unread(snapshot, now_ms),
        sum(one.left_out for one in read),
        sum(one.left_out_by_broker for one in read),
    )


_SORTS: Final[Mapping[str, Callable[[ClientRow], float]]] = {
    "rate": lambda row: -row.records_per_s.number,
    "latency": lambda row: -row.latency_ms.number,
    "errors": lambda row: -row.errors.number,
    "lag": lambda row: -(row.lag.number if row.lag else -2),
    "heard": lambda row: -row.heard.number,
}


def client(
    snapshot: ClusterSnapshot, name: str, now_ms: int, *, search: str, page: int, size: int
) -> ClientView | None:
    """One client id; None where no client that pushes has it. `search` is for a part of a metric's name."""
    known = _known(snapshot, now_ms).get(name)
    if known is None:
        return None
    instances = _instances(known)
    rows = [
        InstanceRow(
            instance,
            _kinds(there),
            [one.broker for one in there],
            _heard(there),
            sum(len(one.client.series) for one in there),
        )
        for instance, there in sorted(nsmallest(size, instances.items(), key=lambda each: each[1][0].age_s))
    ]
    names = sorted(
        {
            (one.name, one.labels)
            for each in known
            for one in each.client.series
            if search.casefold() in one.name.casefold()
        }
    )
    shown, paging = cut(names, page, size)
    values = _values(instances)
    metrics = []
    for metric, labels in shown:
        each = values[metric][labels]
        metrics.append(MetricRow(metric, dict(labels), _together(metric, each), _made_by(metric), len(each)))
    return ClientView(_row(name, known), rows, metrics, paging, search)


def _known(snapshot: ClusterSnapshot, now_ms: int) -> dict[str, list[_Known]]:
    """All clients by their ids. An endpoint that serves several brokers may be read for each of them."""
    found: dict[str, dict[tuple[str, str], _Known]] = defaultdict(dict)
    for broker, reading in sorted(snapshot.client_pushes.items()):
        if reading.value is None:
            continue
        for one in reading.value.clients:
            where = one.broker or str(broker)
            found[one.client_id].setdefault((one.instance_id, where), _judged(where, one, reading, now_ms))
    return {name: list(each.values()) for name, each in found.items()}


def _judged(broker: str, one: PushingClient, reading: Observation[ClientPushes], now_ms: int) -> _Known:
    read_ago_s = (now_ms - reading.at_ms) / 1000
    age_s = read_ago_s + (one.age_s or 0.0)
    why = reading.error
    if one.lifetime_s is not None and age_s > one.lifetime_s / 2:
        # A broker keeps them for three intervals, or a minute.
        why = f"it has pushed nothing for {age_s:.0f} s"
    is_live = why is None and reading.state(now_ms) is Freshness.OK
    return _Known(broker, one, age_s, is_live, why)


def _instances(known: Iterable[_Known]) -> dict[str, list[_Known]]:
    """Each client, with the broker first that heard of it last."""
    found: dict[str, list[_Known]] = defaultdict(list)
    for one in known:
        found[one.client.instance_id].append(one)
    return {key: sorted(each, key=lambda one: one.age_s) for key, each in sorted(found.items())}


def _values(instances: Mapping[str, Sequence[_Known]]) -> dict[str, dict[Labels, list[_Value]]]:
    """The value of each metric and its labels that each client has."""
    found: dict[str, dict[Labels, list[_Value]]] = defaultdict(lambda: defaultdict(list))
    for there in instances.values():
        newest = there[0]
        values: dict[tuple[str, Labels], float] = {}
        for one in there:
            for metric, labels, value in one.client.series:
                place = metric, labels
                if _is_counted(metric):
                    values[place] = values.get(place, 0.0) + value
                elif one is newest:  # twice for a while where a member has joined again
                    worst = min if _made_by(metric) == "least" else max
                    values[place] = worst(values.get(place, value), value)
        for (metric, labels), value in values.items():
            found[metric][labels].append(_Value(value, newest.is_live, newest.age_s, newest.why))
    return found


def _is_counted(metric: str) -> bool:
    return metric.endswith((".total", "_total"))


def _made_by(metric: str) -> str:
    if metric.endswith(_ADDED):
        return "sum"
    return "least" if metric.endswith(".min") else "most"


def _together(metric: str, values: Sequence[_Value]) -> Figure:
    """One figure of the clients of an id, or of one client's parts."""
    live = [one for one in values if one.is_live]
    # What a client has counted stays counted when it is silent.
    parts = values if _is_counted(metric) else live or values
    numbers = [one.value for one in parts]
    made_by = _made_by(metric)
    made: float = sum(numbers) if made_by == "sum" else max(numbers) if made_by == "most" else min(numbers)
    if not math.isfinite(made):
        return unknown(_TOO_LARGE)
    state = Freshness.OK if live else Freshness.STALE
    why = None if live else values[0].why
    # The metrics' text has all numbers as floats; whole ones that are exact are shown without a point.
    value = int(made) if float(made).is_integer() and abs(made) < _WHOLE_MAX else made
    return Figure(value, state, min(one.age_s for one in live or values), why)


def _figure(values: Mapping[str, Mapping[Labels, Sequence[_Value]]], metrics: Iterable[str]) -> Figure | None:
    """What these metrics of an id come to, of the series with the fewest labels: those of the whole client,
    not of its topics. None where nobody pushes them.
    """
    found = []
    for metric in metrics:
        if there := values.get(metric):
            fewest = min(map(len, there))
            parts = [one for labels, each in there.items() if len(labels) == fewest for one in each]
            found.append(_together(metric, parts))
    if not found:
        return None
    whole = sum(math.inf if one.state is Freshness.UNKNOWN else one.number for one in found)
    if not math.isfinite(whole):
        return unknown(_TOO_LARGE)
    state = Freshness.OK if any(one.state is Freshness.OK for one in found) else Freshness.STALE
    why = None if state is Freshness.OK else found[0].why
    return Figure(whole, state, min(one.age_s or 0 for one in found), why)


def _row(name: str, known: Sequence[_Known]) -> ClientRow:
    instances, kinds = _instances(known), _kinds(known)
    values = _values(instances)
    latencies = [
        pushed[0]
        for names in LATENCIES
        if (pushed := [one for name in names if (one := _figure(values, [name])) is not None])
    ]
    lag = _figure(values, [LAG])
    return ClientRow(
        name,
        kinds,
        len(instances),
        _figure(values, RATES) or _not_pushed(RATES, kinds),
        max(latencies, key=lambda one: one.number, default=None)
        or _not_pushed([one for names in LATENCIES for one in names], kinds),
        _figure(values, ERRORS) or _not_pushed(ERRORS, kinds),
        (lag or _not_pushed([LAG], kinds)) if "consumer" in kinds else None,
        _heard(known),
    )


def _not_pushed(names: Iterable[str], kinds: Sequence[str]) -> Figure:
    """Says which subscription would make it known."""
    wanted = [name for name in names if kind_of(name) in kinds][:1]
    if not wanted:
        return unknown("a client of this kind has no such metric")
    return unknown(f"it does not push {wanted[0]}: it has none, or {_ALTER} {wanted[0]} asks for it")


def _heard(known: Sequence[_Known]) -> Figure:
    newest = min(known, key=lambda one: one.age_s)
    if newest.client.age_s is None:
        return unknown("its broker does not say when it has pushed: it is older than this console")
    return Figure(newest.age_s, Freshness.OK if newest.is_live else Freshness.STALE, newest.age_s, newest.why)


def _kinds(known: Iterable[_Known]) -> list[str]:
    return sorted({kind for one in known for each in one.client.series if (kind := kind_of(each.name))})


def _unread(snapshot: ClusterSnapshot, now_ms: int) -> dict[int, str]:
    """Why clients of a broker are not known, or not those that are there now."""
    cluster = snapshot.cluster.value
    there = {one.node_id for one in cluster.brokers} if cluster else set()
    found: dict[int, str] = {}
    for broker in sorted({*there, *snapshot.client_pushes}):
        reading = snapshot.client_pushes.get(broker)
        state = figure(reading, now_ms, 0)
        if reading is None:
            found[broker] = (
                "its metrics are not read: metrics.port at the broker, --metrics ID=URL of the console"
            )
        elif reading.value is None or state.state is not Freshness.OK:
            found[broker] = state.why or "not read lately"
        elif not reading.value.is_receiver:
            found[broker] = "it takes no metrics of clients, as Apache Kafka without a plug-in"
        elif not reading.value.clients:
            found[broker] = _SUBSCRIBE
    return found
