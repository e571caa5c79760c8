"""What ``barnabas status`` shows: each broker with what it leads and holds, how far its replicas lag, and
what its process takes where it is on this machine.
"""

import asyncio
import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import LogDirDescription
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.metadata import Broker, PartitionMetadata
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.operations.local_processes import listeners, processor_shares
from barnabas.operations.partition_states import is_under_replicated, reassignments

_SAMPLE_S: Final = 0.5
_SHARE_FOR_THE_LAST: Final = 0.2
"""Of the time-out: how long brokers have that are silent when the first has answered."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker."""

    broker: Broker
    is_controller: bool
    leads: int
    """Partitions."""
    replicas: int
    """Partitions that it has a copy of, those that it leads included."""
    out_of_sync: int
    lag: int | None
    """Records that its copies are behind all together; None where it does not answer."""
    size_bytes: int | None
    error: BarnabasError | None
    pid: int | None = None
    processor_share: float | None = None
    """Of one core, over half a second; None for a broker of another machine."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All brokers that the metadata names, in order of their ids."""

    cluster_id: str
    topics: int
    partitions: int
    leaderless: int
    under_replicated: int
    brokers: list[BrokerStatus]


async def look(admin: AsyncAdmin, timeout_ms: float) -> ClusterStatus:
    """Asks the cluster, then for half a second this machine. Raises BarnabasError where nobody answers."""
    cluster = await admin.cluster.describe(timeout_ms=timeout_ms)
    topics = await admin.topics.describe_all(internal=True, timeout_ms=timeout_ms)
    partitions = [one for topic in topics.values() for one in topic.partitions]
    moving = await reassignments(admin, timeout_ms=timeout_ms)
    controller = cluster.controller.node_id if cluster.controller else None
    directories = await _directories(admin, cluster.brokers, timeout_ms)
    brokers = [_broker(each, controller, partitions, directories[each.node_id]) for each in cluster.brokers]
    return ClusterStatus(
        cluster.cluster_id,
        len(topics),
        len(partitions),
        sum(one.leader < 0 for one in partitions),
        sum(
            is_under_replicated(one, moving.get(TopicPartition(name, one.partition)))
            for name, topic in topics.items()
            for one in topic.partitions
        ),
        await asyncio.to_thread(_with_processes, brokers),
    )


async def _directories(
    admin: AsyncAdmin, brokers: Iterable[Broker], timeout_ms: float
) -> dict[int, dict[str, LogDirDescription] | BarnabasError]:
    """The log directories of each broker, or why they are not known.

    A broker that is dead or hangs stays in the metadata for some seconds. It must not cost the whole time-out
    while all others have answered.
    """
    asked = {
        each.node_id: asyncio.ensure_future(
            admin.log_dirs.try_describe([each.node_id], timeout_ms=timeout_ms)
        )
        for each in brokers
    }
    if asked:
        _, silent = await asyncio.wait(asked.values(), return_when=asyncio.FIRST_COMPLETED)
        if silent:
            await asyncio.wait(silent, timeout=timeout_ms * _SHARE_FOR_THE_LAST / 1000)
    found: dict[int, dict[str, LogDirDescription] | BarnabasError] = {}
    for node, answer in asked.items():
        if answer.done():
            found[node] = answer.result()[node]
        else:
            answer.cancel()
            found[node] = ClientTimeoutError("others have answered, this one is silent")
    return found


def _broker(
    broker: Broker,
    controller: int | None,
    partitions: Iterable[PartitionMetadata],
    directories: Mapping[str, LogDirDescription] | BarnabasError,
) -> BrokerStatus:
    node = broker.node_id
    counts: Counter[str] = Counter()
    for one in partitions:
        counts["leads"] += one.leader == node
        counts["replicas"] += node in one.replicas
        counts["out of sync"] += node in one.replicas and node not in one.isr
    error, lag, size = None, None, None
    if isinstance(directories, BarnabasError):
        error = directories
    else:
        held = [replica for one in directories.values() for replica in one.replicas.values()]
        lag, size = sum(max(0, each.offset_lag) for each in held), sum(each.size for each in held)
    return BrokerStatus(
        broker,
        node == controller,
        counts["leads"],
        counts["replicas"],
        counts["out of sync"],
        lag,
        size,
        error,
    )


def _with_processes(brokers: list[BrokerStatus]) -> list[BrokerStatus]:
    here = [each for each in brokers if _is_here(each.broker.host)]
    pids = listeners({each.broker.port for each in here}) if here else {}
    shares = processor_shares(pids.values(), _SAMPLE_S) if pids else {}
    found = []
    for each in brokers:
        pid = pids.get(each.broker.port) if each in here else None
        found.append(replace(each, pid=pid, processor_share=None if pid is None else shares.get(pid)))
    return found


def _is_here(host: str) -> bool:
    """Whether it is an address of this machine: one that a socket can be bound to."""
    try:
        address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        if ipaddress.ip_address(address[4][0]).is_loopback:
            return True
        with socket.socket(*address[:2]) as sock:
            sock.bind(address[4])
    except (OSError, UnicodeError, ValueError):
        return False
    return True
