"""Where coordinators are, and the topics that come into being because somebody asks."""

import time
from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import java_abs, java_hash
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from parity.world import World

GROUP, TRANSACTION, SHARE, NO_TYPE = 0, 1, 2, 7
ONE_UNTIL: Final = 3
NOT_YET: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
PATIENCE_S: Final = 30
PARTITIONS: Final = 50
_ONE_A_PARTITION: Final = list(
    {java_abs(java_hash(name)) % PARTITIONS: name for name in map(str, range(2000))}.values()
)
"""Names of groups, one for each partition of ``__consumer_offsets``."""


def _asked(*keys: str, version: int, kind: int = GROUP) -> FindCoordinatorRequest:
    if version <= ONE_UNTIL:
        return FindCoordinatorRequest(key=keys[0], key_type=kind)
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))


def _until_found(world: World, kind: int = GROUP) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while world.prepare(_asked("any", version=4, kind=kind), 4).coordinators[0].error_code:
        assert time.monotonic() < deadline, f"{world.side!r} has no coordinator"
        time.sleep(0.05)


def coordinator_is_ready(world: World) -> None:
    """Returns once this side coordinates every group: it may lead one partition before the next."""
    _until_found(world)
    deadline = time.monotonic() + PATIENCE_S
    request = DescribeGroupsRequest(groups=_ONE_A_PARTITION)
    while any(group.error_code in NOT_YET for group in world.prepare(request, 5).groups):
        assert time.monotonic() < deadline, f"{world.side!r} does not come to coordinate groups"
        time.sleep(0.05)


def transactions_are_ready(world: World) -> None:
    """Returns once this side coordinates every transactional id."""
    _until_found(world, TRANSACTION)
    deadline = time.monotonic() + PATIENCE_S
    request = DescribeTransactionsRequest(transactional_ids=_ONE_A_PARTITION)
    while any(each.error_code in NOT_YET for each in world.prepare(request, 0).transaction_states):
        assert time.monotonic() < deadline, f"{world.side!r} does not come to coordinate transactions"
        time.sleep(0.05)


def find_coordinator(world: World) -> None:
    """Groups, transactional ids and what is neither, one by one and several at once."""
    world.ask("before there are groups", _asked("consume_group", version=4), 4)
    coordinator_is_ready(world)
    for version in range(7):
        world.ask("group", _asked("consume_group", version=version), version)
        world.ask("without a name", _asked("", version=version), version)
    for version in range(4, 7):
        world.ask("several", _asked("a", "b", "ключ", "", "a", version=version), version)
        world.ask("none", FindCoordinatorRequest(coordinator_keys=[]), version)
    world.ask("before there are transactions", _asked("t", version=4, kind=TRANSACTION), 4)
    _until_found(world, TRANSACTION)
    for version in range(1, 7):
        world.ask("transactional id", _asked("t", version=version, kind=TRANSACTION), version)
        world.ask("share group", _asked("g:AAAAAAAAAAAAAAAAAAAAAA:0", version=version, kind=SHARE), version)
    for version in (1, 3, 4, 6):
        world.ask("no type", _asked("x", version=version, kind=NO_TYPE), version)
        world.ask("negative type", _asked("x", version=version, kind=-1), version)
