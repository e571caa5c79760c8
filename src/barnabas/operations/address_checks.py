"""What ``barnabas doctor`` looks at on the network: a port for a broker, and the addresses of a cluster.

Most of what goes wrong with Kafka's addresses is one thing: the bootstrap server answers, and the addresses
that it advertises lead somewhere else. So every broker that the metadata names is asked at that address.
"""

import asyncio
import errno
import socket
from collections.abc import Mapping
from typing import Any, Final

from barnabas import __version__
from barnabas.admin.types import ApiVersions
from barnabas.client.cluster import Cluster
from barnabas.client.config import ADMIN_CONFIG, client_config
from barnabas.client.metadata import Broker, ClusterMetadata
from barnabas.client.retries import Deadline
from barnabas.core.errors import BarnabasError
from barnabas.network.probe import probe
from barnabas.operations.machine_checks import Diagnosis, Rating
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

_RELEASES: Final = (
    (18, "4.1 or newer"),
    (17, "3.9 or 4.0"),
    (16, "3.7 or 3.8"),
    (15, "3.5 or 3.6"),
    (13, "3.1 to 3.4"),
    (12, "2.7 to 3.0"),
    (11, "2.3 to 2.6"),
    (10, "2.1 or 2.2"),
    (4, "0.11 to 2.0"),
)
"""The highest version of Fetch that a release of Kafka serves: it rose with nearly each of them.
A test compares it with what genuine brokers have answered, and with the table of another client.
"""
_SHOWN: Final = 5
"""Partitions that are named; of more than these the number says enough."""
_LOOPBACK: Final = ("localhost", "127.", "[::1]", "::1")


def port(host: str, number: int) -> Diagnosis:
    """Whether a broker can listen there, as `barnabas serve` does without further options."""
    try:
        with socket.create_server((host, number)):
            pass
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return Diagnosis(
                "port", Rating.ERROR, f"{host}:{number}: {error.strerror}", "choose another with --port"
            )
        return Diagnosis(
            "port",
            Rating.WARNING,
            f"{host}:{number} is taken",
            f"ss -ltnp 'sport = :{number}' says by whom; barnabas serve --port takes another",
        )
    return Diagnosis("port", Rating.OK, f"{host}:{number} is free")


async def of_cluster(options: Mapping[str, Any], timeout_ms: float) -> list[Diagnosis]:
    """The bootstrap servers, each broker at its advertised address, the versions of the other side, and
    partitions without a leader. `options` are those of an admin client.
    """
    cluster = Cluster(client_config(ADMIN_CONFIG, options), in_flight_max=1)
    cluster.need_all(True)
    try:
        await cluster.connect(Deadline(timeout_ms))
        metadata = cluster.metadata
        found = [_bootstrap(cluster.bootstrap, metadata), _controller(metadata)]
        found += await asyncio.gather(
            *(_broker(cluster, broker, timeout_ms) for _, broker in sorted(metadata.brokers.items()))
        )
    except BarnabasError as error:
        advice = "start the broker, or correct --bootstrap-server"
        return [Diagnosis("bootstrap", Rating.ERROR, str(error), advice)]
    finally:
        await cluster.close()
    return [*found, _leaders(metadata)]


def _bootstrap(servers: str, metadata: ClusterMetadata) -> Diagnosis:
    named = metadata.cluster_id or "without an id"
    number = len(metadata.brokers)
    brokers = "1 broker" if number == 1 else f"{number} brokers"
    return Diagnosis("bootstrap", Rating.OK, f"{servers} answers: cluster {named}, {brokers}")


def _controller(metadata: ClusterMetadata) -> Diagnosis:
    if metadata.controller_id in metadata.brokers:
        return Diagnosis("controller", Rating.OK, f"broker {metadata.controller_id}")
    advice = "without one no leader is elected and no topic made: look at the logs of all brokers"
    return Diagnosis("controller", Rating.ERROR, "the cluster has none", advice)


async def _broker(cluster: Cluster, broker: Broker, timeout_ms: float) -> Diagnosis:
    where = f"broker {broker.node_id} at {broker.host}:{broker.port}"
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
    try:
        answer = await cluster.send(broker.node_id, request, ApiVersionsResponse, timeout_ms=timeout_ms)
    except BarnabasError as error:
        at = await probe(broker.host, broker.port)
        advice = "correct advertised.listeners of that broker: clients are told to come to this address"
        if broker.host.startswith(_LOOPBACK):
            advice += "; localhost means each client's own machine"
        return Diagnosis("broker", Rating.ERROR, f"{where}: {at.value if at else error}", advice)
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    return Diagnosis("broker", Rating.OK, f"{where} answers like Kafka {release_of(served)}")


def release_of(served: ApiVersions) -> str:
    """Which releases of Kafka serve these versions, by those of Fetch."""
    highest = served.get(int(ApiKey.FETCH), (0, 0))[1]
    return next((release for version, release in _RELEASES if highest >= version), "older than 0.11")


def _leaders(metadata: ClusterMetadata) -> Diagnosis:
    leaderless = [
        f"{name}-{number}"
        for name, topic in sorted(metadata.topics.items())
        for number, one in sorted(topic.partitions.items())
        if one.leader < 0
    ]
    if not leaderless:
        return Diagnosis("leaders", Rating.OK, "every partition that may be seen has a leader")
    more = "" if len(leaderless) <= _SHOWN else f" and {len(leaderless) - _SHOWN} more"
    return Diagnosis(
        "leaders",
        Rating.ERROR,
        f"no leader: {', '.join(leaderless[:_SHOWN])}{more}",
        "start their brokers; barnabas explain partition TOPIC PARTITION says who could lead",
    )
