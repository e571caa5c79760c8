"""FindCoordinator: which broker coordinates a group or a transactional id, as one broker answers it, in one
attempt.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from barnabas.client.cluster import Cluster
from barnabas.core.errors import ErrorCode
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.coordinator_type import CoordinatorType
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_BATCHED: Final = (4, FindCoordinatorRequest.max_version)
_SINGLE: Final = (0, 3)

COORDINATOR_MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Answers of a coordinator after which it has to be looked up again."""


class CoordinatorAnswer(NamedTuple):
    """What a broker says about the coordinator of a key; without one, node_id is -1 and error says why."""

    node_id: int
    host: str
    port: int
    error: ErrorCode
    message: str | None


async def find_coordinator(cluster: Cluster, key: str, kind: CoordinatorType) -> CoordinatorAnswer:
    """The coordinator of one key. Raises as `Cluster.ask_any`."""
    request = FindCoordinatorRequest(key=key, key_type=kind)
    return _answer(await cluster.ask_any(request, FindCoordinatorResponse, versions=_SINGLE))


async def find_coordinators(
    cluster: Cluster, keys: Sequence[str], kind: CoordinatorType
) -> dict[str, CoordinatorAnswer]:
    """The coordinators of several keys, with one request where the broker knows KIP-699."""
    try:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        batch = await cluster.ask_any(request, FindCoordinatorResponse, versions=_BATCHED)
    except UnsupportedVersionError:
        return {key: await find_coordinator(cluster, key, kind) for key in keys}
    return {one.key: _answer(one) for one in batch.coordinators}


def _answer(one: Coordinator | FindCoordinatorResponse) -> CoordinatorAnswer:
    return CoordinatorAnswer(
        one.node_id, one.host, one.port, ErrorCode.of(one.error_code), one.error_message or None
    )
