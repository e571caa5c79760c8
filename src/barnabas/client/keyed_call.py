"""`KeyedCall`: one call about many keys that different brokers answer (Kafka's ``AdminApiDriver``).

Theory of operation
-------------------
The call goes in rounds, until every key has a result or the deadline has come. A round looks up the broker of
each key that has none (the leader of a partition, the coordinator of a group), asks each broker once for all
of its keys, and keeps what was answered. A key that got an error is asked again of the same broker, looked up
again, or has the error as its result: the caller names the codes of the first two kinds. A lost connection
leads to a new look-up. Keys fail one by one; an error that concerns a whole request is the result of each key
in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.retries import Attempts, Deadline, is_retriable
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.network.errors import DisconnectedError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")

LookUp: TypeAlias = Callable[[Sequence[K]], Awaitable[Mapping[K, int | Exception]]]
"""The broker of each key, or why there is none; what is not retriable becomes the key's result."""

Ask: TypeAlias = Callable[[int, Sequence[K]], Awaitable[Mapping[K, V | BarnabasError]]]
"""What one broker answers for each key."""


class KeyedCall(Generic[K, V]):
    """One such call; `run` once."""

    def __init__(
        self,
        cluster: Cluster,
        look_up: LookUp[K],
        ask: Ask[K, V],
        deadline: Deadline,
        *,
        again: Collection[ErrorCode] = (),
        moved: Collection[ErrorCode],
        expired: Callable[[K, Exception | None], BarnabasError],
    ) -> None:
        """`again` are the codes after which the same broker is asked again, `moved` those after which the
        broker is looked up again. `expired` makes the result of a key whose time is over out of its last
        failure.
        """
        self._home = cluster.home
        self._look_up = look_up
        self._ask = ask
        self._deadline = deadline
        self._attempts = Attempts(cluster.backoff, deadline)
        self._again = again
        self._moved = moved
        self._expired = expired
        self._nodes: dict[K, int | None] = {}
        """The broker of each key without a result; None while it has to be looked up."""
        self._last: dict[K, Exception] = {}
        self._results: dict[K, V | BarnabasError] = {}

    async def run(self, keys: Iterable[K]) -> dict[K, V | BarnabasError]:
        """A value or an error for every key, in their order. Raises as `HomeLoop.enter`."""
        self._home.enter()
        wanted = list(dict.fromkeys(keys))
        self._nodes = dict.fromkeys(wanted)
        try:
            while self._nodes:
                async with asyncio.timeout(self._deadline.left_s):
                    await self._round()
                if self._nodes and not await self._attempts.another():
                    break
        except TimeoutError:
            pass
        for key in list(self._nodes):
            self._settle(key, self._expired(key, self._last.get(key)))
        return {key: self._results[key] for key in wanted}

    async def _round(self) -> None:
        unknown = [key for key, node in self._nodes.items() if node is None]
        if unknown:
            await self._find_brokers(unknown)
        grouped: dict[int, list[K]] = {}
        for key, node in self._nodes.items():
            if node is not None:
                grouped.setdefault(node, []).append(key)
        await asyncio.gather(*(self._ask_broker(node, members) for node, members in grouped.items()))

    async def _find_brokers(self, keys: Sequence[K]) -> None:
        found = await _answers(self._look_up(keys), keys)
        for key, node in found.items():
            if isinstance(node, int):
                self._nodes[key] = node
            elif isinstance(node, BarnabasError) and not is_retriable(node):
                self._settle(key, node)
            else:
                self._last[key] = node

    async def _ask_broker(self, node: int, keys: Sequence[K]) -> None:
        answers = await _answers(self._ask(node, keys), keys)
        for key, answer in answers.items():
            if isinstance(answer, KafkaError) and answer.code in self._again:
                self._last[key] = answer
            elif isinstance(answer, OSError | DisconnectedError) or (
                isinstance(answer, KafkaError) and answer.code in self._moved
            ):
                self._last[key] = answer
                self._nodes[key] = None
            else:
                self._settle(key, answer)

    def _settle(self, key: K, result: V | BarnabasError) -> None:
        self._nodes.pop(key, None)
        self._results[key] = result

    def __repr__(self) -> str:
        return f"<KeyedCall {len(self._results)} answered, {len(self._nodes)} left>"


async def _answers(
    work: Awaitable[Mapping[K, W]], keys: Sequence[K]
) -> Mapping[K, W | BarnabasError | OSError]:
    """The answers; a failure of the whole request is the answer for each key."""
    try:
        return await work
    except (BarnabasError, OSError) as error:
        return dict.fromkeys(keys, error)


def raise_first(results: Mapping[K, V | BarnabasError]) -> dict[K, V]:
    """The results; raises the first error there is."""
    values: dict[K, V] = {}
    for key, result in results.items():
        if isinstance(result, BarnabasError):
            raise result
        values[key] = result
    return values


def none_where(missing: ErrorCode, results: Mapping[K, V | BarnabasError]) -> dict[K, V | None]:
    """The results, and None where the error has this code; raises the first other error there is."""
    return raise_first(
        {
            key: None if isinstance(result, KafkaError) and result.code is missing else result
            for key, result in results.items()
        }
    )
