"""Brokers, one broker with its configuration and its log directories, differences between brokers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from barnabas.admin import ConfigEntry, LogDirDescription
from barnabas.console.figure import Figure, figure, unknown
from barnabas.console.health.machines import differences
from barnabas.console.reading import Observation, known
from barnabas.console.snapshot import ClusterSnapshot, Entries


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker in the list."""

    id: int
    endpoint: Figure
    """Of the listener that the console is connected to."""
    rack: str | None
    is_controller: bool
    leaders: Figure
    replicas: Figure
    out_of_sync: Figure
    """Replicas that are not in sync."""
    size_bytes: Figure
    offline_log_dirs: Figure


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A key of a configuration; the value of a sensitive one is never known."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class LogDirRow:
    """A log directory."""

    broker: int
    path: str
    error: str | None
    replicas: Figure
    size_bytes: Figure
    total_bytes: Figure
    usable_bytes: Figure
    moving: int
    """Replicas that are being copied into it."""


@dataclass(frozen=True, slots=True)
class BrokersView:
    """All brokers, those that are missing included."""

    brokers: Sequence[BrokerRow]
    differences: dict[str, str]
    """Keys that differ between brokers."""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker."""

    broker: BrokerRow
    configs: Sequence[ConfigRow]
    configs_state: Figure
    """How many keys there are, and whether they are known."""
    log_dirs: Sequence[LogDirRow]


@dataclass(frozen=True, slots=True)
class LogDirsView:
    """The log directories of all brokers."""

    log_dirs: Sequence[LogDirRow]
    unread: dict[int, str]
    """Brokers whose directories are not known, and why."""


def brokers(snapshot: ClusterSnapshot, now_ms: int) -> BrokersView:
    """All brokers."""
    cluster = snapshot.cluster.value
    alive = {one.node_id: one for one in cluster.brokers} if cluster else {}
    partitions = [one for topic in (snapshot.topics.value or {}).values() for one in topic.partitions]
    leaders = Counter(one.leader for one in partitions)
    replicas = Counter(chain.from_iterable(one.replicas for one in partitions))
    lagging = [one for one in partitions if len(one.isr) < len(one.replicas)]
    behind = Counter(broker for one in lagging for broker in set(one.replicas) - set(one.isr))
    rows = []
    for broker in sorted({*alive, *replicas}):
        there = alive.get(broker)
        directories = snapshot.log_dirs.get(broker)
        found = list((directories.value or {}).values()) if directories else []
        endpoint = f"{there.host}:{there.port}" if there else None
        rows.append(
            BrokerRow(
                broker,
                figure(snapshot.cluster, now_ms, endpoint) if there else unknown("not in the cluster"),
                there.rack if there else None,
                bool(cluster and cluster.controller and cluster.controller.node_id == broker),
                figure(snapshot.topics, now_ms, leaders[broker]),
                figure(snapshot.topics, now_ms, replicas[broker]),
                figure(snapshot.topics, now_ms, behind[broker]),
                figure(directories, now_ms, sum(map(_size, found))),
                figure(directories, now_ms, sum(one.error is not None for one in found)),
            )
        )
    return BrokersView(rows, differences(snapshot))


def broker(snapshot: ClusterSnapshot, broker_id: int, now_ms: int) -> BrokerView | None:
    """One broker; None where there is none of this id."""
    row = next((one for one in brokers(snapshot, now_ms).brokers if one.id == broker_id), None)
    if row is None:
        return None
    reading = snapshot.broker_configs.get(broker_id)
    entries = (reading.value if reading else None) or {}
    return BrokerView(
        row,
        config_rows(entries),
        figure(reading, now_ms, len(entries)),
        _log_dirs_of(broker_id, snapshot.log_dirs.get(broker_id), now_ms),
    )


def config_rows(entries: Entries) -> list[ConfigRow]:
    """The keys, those first that were set."""
    return [
        _config(entries[name]) for name in sorted(entries, key=lambda name: (entries[name].is_default, name))
    ]


def _config(entry: ConfigEntry) -> ConfigRow:
    return ConfigRow(
        entry.name,
        entry.value,
        entry.source.name if entry.source is not None else "UNKNOWN",
        entry.is_default,
        entry.is_read_only,
        entry.is_sensitive,
        entry.documentation,
    )


def log_dirs(snapshot: ClusterSnapshot, now_ms: int) -> LogDirsView:
    """The log directories of all brokers."""
    rows = [
        row
        for broker_id in sorted(snapshot.log_dirs)
        for row in _log_dirs_of(broker_id, snapshot.log_dirs[broker_id], now_ms)
    ]
    unread = {
        broker_id: one.error or "not read yet"
        for broker_id, one in snapshot.log_dirs.items()
        if known(snapshot.log_dirs, broker_id) is None
    }
    return LogDirsView(rows, unread)


def _log_dirs_of(broker_id: int, reading: Observation[Any] | None, now_ms: int) -> list[LogDirRow]:
    found = (reading.value if reading else None) or {}
    return [
        LogDirRow(
            broker_id,
            path,
            str(one.error) if one.error is not None else None,
            figure(reading, now_ms, len(one.replicas)),
            figure(reading, now_ms, _size(one)),
            _said(reading, one.total_bytes, now_ms),
            _said(reading, one.usable_bytes, now_ms),
            sum(each.is_future for each in one.replicas.values()),
        )
        for path, one in sorted(found.items())
    ]


def _said(reading: Observation[Any] | None, size: int, now_ms: int) -> Figure:
    if size < 0:
        return unknown("the broker does not say it (before Kafka 3.3)")
    return figure(reading, now_ms, size)


def _size(directory: LogDirDescription) -> int:
    return sum(one.size for one in directory.replicas.values())
