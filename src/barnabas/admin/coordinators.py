"""FindCoordinator for many keys at once, and calls that go to the coordinators of groups.

Theory of operation
-------------------
A `CoordinatorCall` has a set of keys and asks each key's coordinator, in rounds: it looks up the coordinators
of the keys that have none (one FindCoordinator for all of them, or one each for a broker older than KIP-699),
sends each coordinator one request for all its keys, and keeps what was answered. Then, until the deadline:

* COORDINATOR_LOAD_IN_PROGRESS: the key is asked again, of the same coordinator;
* NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, a lost connection: the coordinator is looked up again;
* any other error is the key's result.

(``CoordinatorStrategy`` under ``AdminApiDriver``.)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from barnabas.admin.context import AdminContext
from barnabas.client.cluster import Deadline
from barnabas.client.errors import ClientTimeoutError
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

V = TypeVar("V")
Answers = Mapping[str, V | BarnabasError]
"""What one coordinator said, by key."""

_BATCHED: Final = (4, FindCoordinatorRequest.max_version)
_SINGLE: Final = (0, 3)

COORDINATOR_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
COORDINATOR_LOADING: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})


class CoordinatorType(IntEnum):
    """What a coordinator is asked for, numbered as on the wire."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorAnswer(NamedTuple):
    """What a broker says about the coordinator of a key; without one, node_id is -1 and error says why."""

    node_id: int
    host: str
    port: int
    error: ErrorCode
    message: str | None


class Coordinators:
    """Who coordinates groups and transactional ids."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def find(
        self,
        keys: Iterable[str],
        kind: CoordinatorType = CoordinatorType.GROUP,
        *,
        timeout_ms: float | None = None,
    ) -> dict[str, CoordinatorAnswer]:
        """What one broker answers for each key, errors included.

        A broker that is asked creates the internal topic when it does not exist yet.
        """
        wanted = list(dict.fromkeys(keys))
        return await self._context.cluster.retrying(
            lambda: self.ask(wanted, kind),
            self._context.deadline(timeout_ms),
            f"No broker of {self._context.cluster.bootstrap} answered",
        )

    async def ask(self, keys: Sequence[str], kind: CoordinatorType) -> dict[str, CoordinatorAnswer]:
        """One attempt of `find`, at one broker."""
        try:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
            batch = await self._context.try_any(request, FindCoordinatorResponse, versions=_BATCHED)
        except UnsupportedVersionError:
            return dict(zip(keys, [await self._ask_one(key, kind) for key in keys], strict=True))
        return {one.key: _answer(one) for one in batch.coordinators}

    async def _ask_one(self, key: str, kind: CoordinatorType) -> CoordinatorAnswer:
        request = FindCoordinatorRequest(key=key, key_type=kind)
        return _answer(await self._context.try_any(request, FindCoordinatorResponse, versions=_SINGLE))


def _answer(one: Coordinator | FindCoordinatorResponse) -> CoordinatorAnswer:
    return CoordinatorAnswer(
        one.node_id, one.host, one.port, ErrorCode.of(one.error_code), one.error_message or None
    )


class CoordinatorCall(Generic[V]):
    """One call about several groups. `ask` sends a request to one coordinator and gives its answers."""

    def __init__(
        self,
        context: AdminContext,
        ask: Callable[[int, Sequence[str]], Awaitable[Answers[V]]],
        deadline: Deadline,
        again: Iterable[ErrorCode] = (),
    ) -> None:
        self._context = context
        self._coordinators = Coordinators(context)
        self._ask = ask
        self._deadline = deadline
        self._again = COORDINATOR_LOADING.union(again)
        self._nodes: dict[str, int | None] = {}
        self._last: dict[str, Exception] = {}
        self._results: dict[str, V | BarnabasError] = {}

    async def run(self, keys: Iterable[str]) -> dict[str, V | BarnabasError]:
        """A value or an error for every key, in their order."""
        wanted = list(dict.fromkeys(keys))
        self._nodes = dict.fromkeys(wanted)
        attempts = 0
        while self._nodes:
            await self._round()
            pause = self._context.cluster.pause_s(attempts)
            if self._nodes and pause >= self._deadline.left_s:
                self._give_up()
            elif self._nodes:
                attempts += 1
                await asyncio.sleep(pause)
        return {key: self._results[key] for key in wanted}

    async def _round(self) -> None:
        unknown = [key for key, node in self._nodes.items() if node is None]
        if unknown:
            await self._look_up(unknown)
        grouped: dict[int, list[str]] = {}
        for key, node in self._nodes.items():
            if node is not None:
                grouped.setdefault(node, []).append(key)
        await asyncio.gather(*(self._ask_coordinator(node, members) for node, members in grouped.items()))

    async def _look_up(self, keys: Sequence[str]) -> None:
        try:
            work = self._coordinators.ask(keys, CoordinatorType.GROUP)
            found = await asyncio.wait_for(work, self._deadline.left_s)
            if not {one.node_id for one in found.values() if not one.error} <= self._known_brokers():
                await asyncio.wait_for(self._context.cluster.refresh(), self._deadline.left_s)
        except (DisconnectedError, OSError, TimeoutError) as error:
            self._last.update(dict.fromkeys(keys, error))
        except BarnabasError as error:
            for key in keys:
                self._settle(key, error)
        else:
            for key, answer in found.items():
                self._looked_up(key, answer)

    def _known_brokers(self) -> frozenset[int]:
        return frozenset(self._context.cluster.metadata.brokers)

    def _looked_up(self, key: str, answer: CoordinatorAnswer) -> None:
        if answer.error is ErrorCode.NONE:
            self._nodes[key] = answer.node_id
        elif answer.error in {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self._last[key] = KafkaError(answer.error, answer.message)
        else:
            self._settle(key, KafkaError(answer.error, _refusal(key, answer.error)))

    async def _ask_coordinator(self, node: int, keys: Sequence[str]) -> None:
        try:
            answers = await asyncio.wait_for(self._send(node, keys), self._deadline.left_s)
        except (DisconnectedError, OSError, TimeoutError) as error:
            for key in keys:
                self._retry(key, error, look_up=True)
        except BarnabasError as error:
            for key in keys:
                self._settle(key, error)
        else:
            for key in keys:
                if key in answers:
                    self._answered(key, answers[key])

    async def _send(self, node: int, keys: Sequence[str]) -> Answers[V]:
        return await self._ask(node, keys)

    def _answered(self, key: str, answer: V | BarnabasError) -> None:
        code = answer.code if isinstance(answer, KafkaError) else None
        if isinstance(answer, KafkaError) and (code in self._again or code in COORDINATOR_MOVED):
            self._retry(key, answer, look_up=code in COORDINATOR_MOVED)
        else:
            self._settle(key, answer)

    def _retry(self, key: str, error: Exception, *, look_up: bool) -> None:
        self._last[key] = error
        if look_up:
            self._nodes[key] = None

    def _settle(self, key: str, result: V | BarnabasError) -> None:
        self._nodes.pop(key, None)
        self._results[key] = result

    def _give_up(self) -> None:
        for key in list(self._nodes):
            last = self._last.get(key)
            reason = f": {last}" if last is not None and str(last) else ""
            self._settle(
                key,
                ClientTimeoutError(
                    f"The coordinator of {key!r} did not answer in {self._deadline.total_ms:.0f} ms{reason}"
                ),
            )


def _refusal(key: str, code: ErrorCode) -> str:
    """In the words of ``CoordinatorStrategy``, which scripts may look for."""
    named = f"`CoordinatorKey(idValue='{key}', type=GROUP)`"
    if code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
        return f"FindCoordinator request for groupId {named} failed due to authorization failure"
    return f"FindCoordinator request for key {named} failed due to an unexpected error"
