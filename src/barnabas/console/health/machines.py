"""Judges of brokers: disks, configurations, their own metrics."""

from collections.abc import Mapping
from typing import Any, Final

from barnabas.console.disk_room import bytes_per_s
from barnabas.console.health.outcome import Measured
from barnabas.console.health.reads import compared
from barnabas.console.reading import Freshness, Observation
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.units import seconds, size
from barnabas.core.errors import ErrorCode

_SIZES: Final = "brokers before Kafka 3.3 do not say how large their disks are (KIP-827)"
_METRICS: Final = "give the brokers' metrics with --metrics"
_PER_BROKER: Final = frozenset(
    {
        "advertised.listeners",
        "advertised.host.name",
        "advertised.port",
        "broker.id",
        "broker.rack",
        "host.name",
        "listeners",
        "log.dir",
        "log.dirs",
        "metrics.port",
        "node.id",
        "port",
        "process.roles",
        "ssl.keystore.location",
    }
)
"""Keys that differ between brokers on purpose."""


def _unread(readings: Mapping[int, Observation[Any]], what: str, now_ms: int) -> list[str]:
    """The brokers of which it is not known, and why."""
    if not readings:
        return [f"{what}: not read yet"]
    return [
        f"broker {broker}: {reading.error or 'too old'}"
        for broker, reading in readings.items()
        if reading.state(now_ms) is not Freshness.OK
    ]


def offline_log_dirs(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Log directories that a disk error took out of service."""
    bad, unknown = [], _unread(snapshot.log_dirs, "log directories", now_ms)
    for broker, reading in snapshot.log_dirs.items():
        for path, one in (reading.value or {}).items():
            if one.error is not None and one.error.code is not ErrorCode.NONE:
                bad.append(f"{path} of broker {broker}: {one.error}")
    return Measured(len(bad), bad if len(bad) > limit else [], unknown)


def disk_used(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """The share of each disk that is used."""
    unknown, shares = _unread(snapshot.log_dirs, "log directories", now_ms), []
    silent = []
    for broker, reading in snapshot.log_dirs.items():
        for path, one in (reading.value or {}).items():
            if one.error is not None and one.error.code is not ErrorCode.NONE:
                continue  # offline, which is another check
            if one.total_bytes > 0 and one.usable_bytes >= 0:
                shares.append((1 - one.usable_bytes / one.total_bytes, f"{path} of broker {broker}"))
            else:
                silent.append(f"{path} of broker {broker}: the broker does not say how large its disk is")
    if silent and not shares and not unknown:
        return Measured(no_source=_SIZES)
    shares.sort(reverse=True)
    bad = [f"{disk} {used:.0%}" for used, disk in shares if used > limit]
    return Measured(shares[0][0] if shares else None, bad, [*unknown, *silent])


def disk_full(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Disks that are full within so many hours if room goes on going as in the last hour."""
    unknown, times = _unread(snapshot.log_dirs, "log directories", now_ms), []
    directories = [one for reading in snapshot.log_dirs.values() for one in (reading.value or {}).values()]
    if directories and all(one.usable_bytes < 0 for one in directories) and not unknown:
        return Measured(no_source=_SIZES)
    for (broker, path), points in snapshot.rooms.items():
        rate = bytes_per_s(points)
        if rate is None or rate <= 0:
            continue
        hours = points[-1][1] / rate / 3600
        looked_s = (points[-1][0] - points[0][0]) / 1000
        left = f"{size(points[-1][1])} left, {size(rate)} a second go, of the last {seconds(looked_s)}"
        times.append((hours, f"{path} of broker {broker} in {seconds(hours * 3600)} ({left})"))
    times.sort()
    bad = [said for hours, said in times if hours < limit]
    return Measured(times[0][0] if times else None, bad, unknown)


def certificates(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Certificates of brokers that end within so many days."""
    if not snapshot.certificates:
        return Measured(no_source="brokers are not reached over TLS")
    days, unknown = [], []
    for broker, reading in snapshot.certificates.items():
        if reading.state(now_ms) is not Freshness.OK:
            unknown.append(f"broker {broker}: {reading.error or 'too old'}")
        if reading.value is not None:
            days.append(((reading.value - now_ms) / 86_400_000, broker))
    days.sort()
    bad = [
        f"that of broker {broker} {f'ends in {left:.1f} days' if left > 0 else f'ended {-left:.1f} days ago'}"
        for left, broker in days
        if left < limit
    ]
    return Measured(days[0][0] if days else None, bad, unknown)


def config_differences(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """Keys that are not the same on all brokers."""
    unknown = _unread(snapshot.broker_configs, "configurations of brokers", now_ms)
    bad = [f"{key}: {values}" for key, values in differences(snapshot).items()]
    return Measured(len(bad), bad if len(bad) > limit else [], unknown)


def differences(snapshot: ClusterSnapshot) -> dict[str, str]:
    """Keys that differ between brokers, with the values and the brokers that have them."""
    values: dict[str, dict[str, list[int]]] = {}
    for broker, reading in sorted(snapshot.broker_configs.items()):
        for name, entry in (reading.value or {}).items():
            if name not in _PER_BROKER and not name.startswith("listener.name.") and not entry.is_sensitive:
                values.setdefault(name, {}).setdefault(str(entry.value), []).append(broker)
    return {
        name: "; ".join(
            f"{value or '(empty)'} on {','.join(map(str, brokers))}" for value, brokers in found.items()
        )
        for name, found in values.items()
        if len(found) > 1
    }


def scraped(name: str, *, below: bool) -> Any:
    """A check of one figure of each broker's metrics: above the limit is wrong, or below it."""

    def judge(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
        if not snapshot.scrapes:
            return Measured(no_source=_METRICS)
        return compared(
            ((f"broker {broker}", one) for broker, one in snapshot.scrapes.items()),
            name,
            limit,
            below,
            now_ms,
        )

    return judge
