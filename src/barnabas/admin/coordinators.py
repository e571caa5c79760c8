"""``admin.coordinators``, and calls that go to the coordinators of groups or of transactional ids."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from barnabas.admin.context import AdminContext
from barnabas.client import named
from barnabas.client.coordinators import (
    COORDINATOR_MOVED,
    CoordinatorAnswer,
    find_coordinators,
)
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.keyed_call import KeyedCall
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.coordinator_type import CoordinatorType

V = TypeVar("V")
Answers: TypeAlias = Mapping[str, V | BarnabasError]
"""What one coordinator said, by group or transactional id."""

COORDINATOR_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})

_NOUNS: Final = {
    CoordinatorType.GROUP: "groups",
    CoordinatorType.TRANSACTION: "transactional ids",
    CoordinatorType.SHARE: "share partitions",
}


class Coordinators:
    """Who coordinates groups and transactional ids."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def find(
        self,
        keys: named.Names,
        kind: CoordinatorType = CoordinatorType.GROUP,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, CoordinatorAnswer]:
        """What one broker answers for each key, errors included.

        A broker that is asked creates the internal topic when it does not exist yet.
        """
        named.one(kind, CoordinatorType, "the kind is a CoordinatorType, behind the keys")
        cluster, wanted = self._context.cluster, named.names(keys, _NOUNS[kind])
        return await cluster.retrying(
            lambda: find_coordinators(cluster, wanted, kind),
            self._context.deadline(timeout_ms),
            f"No broker of {cluster.bootstrap} answered",
        )


async def ask_coordinators(
    context: AdminContext,
    ask: Callable[[int, Sequence[str]], Awaitable[Answers[V]]],
    names: named.Names,
    timeout_ms: float | None,
    again: Iterable[ErrorCode] = (),
    *,
    kind: CoordinatorType = CoordinatorType.GROUP,
) -> dict[str, V | BarnabasError]:
    """A value or an error for each group, or each transactional id: `ask` sends one request to one
    coordinator (``CoordinatorStrategy``).

    A coordinator that loads, or answers with one of `again`, is asked again. When it has moved, it is looked
    up again.
    """
    cluster, deadline = context.cluster, context.deadline(timeout_ms)

    async def look_up(keys: Sequence[str]) -> dict[str, int | Exception]:
        found = await find_coordinators(cluster, keys, kind)
        if not {one.node_id for one in found.values() if not one.error} <= set(cluster.metadata.brokers):
            await cluster.refresh()
        return {key: _refusal(key, kind, one) if one.error else one.node_id for key, one in found.items()}

    def expired(key: str, last: Exception | None) -> BarnabasError:
        reason = f": {last}" if last is not None and str(last) else ""
        return ClientTimeoutError(
            f"The coordinator of {key!r} did not answer in {deadline.total_ms:.0f} ms{reason}"
        )

    call = KeyedCall(
        cluster,
        look_up,
        ask,
        deadline,
        again=COORDINATOR_LOADING.union(again),
        moved=COORDINATOR_MOVED,
        expired=expired,
    )
    return await call.run(named.names(names, _NOUNS[kind]))


def _refusal(key: str, kind: CoordinatorType, answer: CoordinatorAnswer) -> KafkaError:
    """In the words of ``CoordinatorStrategy``, which scripts may look for."""
    if answer.error.retriable:
        return KafkaError(answer.error, answer.message)
    refused = {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: "groupId",
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactionalId",
    }.get(answer.error)
    why = "failed due to an unexpected error" if refused is None else "failed due to authorization failure"
    named = f"{refused or 'key'} `CoordinatorKey(idValue='{key}', type={kind.name})`"
    return KafkaError(answer.error, f"FindCoordinator request for {named} {why}")
