"""Judges of ZooKeeper, by its ``mntr``."""

from typing import Any, Final

from barnabas.console.health.outcome import Measured
from barnabas.console.health.reads import compared
from barnabas.console.reading import Freshness
from barnabas.console.snapshot import ClusterSnapshot

_ZOOKEEPER: Final = "give the servers with --zookeeper"


def of_zookeeper(name: str) -> Any:
    """A judge of one figure of each server: above the limit is wrong."""

    def judge(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
        if not snapshot.zookeeper:
            return Measured(no_source=_ZOOKEEPER)
        return compared(snapshot.zookeeper.items(), name, limit, False, now_ms)

    return judge


def one_zookeeper_leader(snapshot: ClusterSnapshot, limit: float, now_ms: int) -> Measured:
    """BrainSplit: exactly one server leads, or one stands alone."""
    if not snapshot.zookeeper:
        return Measured(no_source=_ZOOKEEPER)
    leaders = [name for name, one in snapshot.zookeeper.items() if (one.value or {}).get("is_leader")]
    unknown = [
        f"{name}: {one.error}"
        for name, one in snapshot.zookeeper.items()
        if one.state(now_ms) is not Freshness.OK
    ]
    many = [f"{len(leaders)} leaders: {', '.join(leaders)}"] if len(leaders) > limit else []
    none = ["no server leads"] if not leaders and not unknown else []
    return Measured(len(leaders), many or none, unknown)
