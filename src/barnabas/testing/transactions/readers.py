"""Consumers of committed records, and of committed offsets."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final, cast

from barnabas.client.completed_fetch import CompletedFetch
from barnabas.client.types import AbortedTransaction
from barnabas.coordinator.runtime.keys import partition_of
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.pending import Pending
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.testing.replication.clients import SimulatedClient
from barnabas.testing.transactions.broker import TransactionalBroker
from barnabas.testing.transactions.judge import TransactionJudge
from barnabas.testing.transactions.log_walk import Read

FETCH_VERSION: Final = 12
"""The last one that names topics; since v11 a consumer may read from followers (KIP-392)."""
OFFSET_FETCH_VERSION: Final = 8
READ_COMMITTED: Final = 1
_WAIT_MS: Final = 200
_ALL: Final = 1 << 30


def read_committed(tp: TopicPartition, position: int, *, bytes_max: int, wait_ms: int) -> FetchRequest:
    """Asks for the committed records of one partition."""
    partition = FetchPartition(partition=tp.partition, fetch_offset=position, partition_max_bytes=bytes_max)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic=tp.topic, partitions=[partition])],
    )


def records_of(tp: TopicPartition, position: int, data: PartitionData) -> tuple[list[Read], int]:
    """What the consumer hands out, by the same code as ours, and its next position."""
    aborted: Sequence[Any] = data.aborted_transactions or ()
    completed = CompletedFetch(
        tp,
        position,
        memoryview(cast("memoryview", data.records or b"")),
        [AbortedTransaction(each.producer_id, each.first_offset) for each in aborted],
        check_crcs=True,
    )
    found = completed.take(_ALL)
    return [(record.offset, bytes(record.value or b"")) for record in found], completed.next_offset


class CommittedReader(SimulatedClient):
    """Reads every partition from the beginning on: from leaders, or from any replica."""

    def __init__(self, *common: Any, transactions: TransactionJudge, nearest: bool, bytes_max: int) -> None:
        """`common` is that of `SimulatedClient`."""
        super().__init__(*common)
        self._transactions = transactions
        self._nearest = nearest
        self._bytes_max = bytes_max

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Fetches one partition, and goes on when it has the answer."""
        if self.stopping:
            return
        tp = self._rng.choice(tps)
        server = self._rng.choice(list(self._brokers.values())) if self._nearest else self._leader(tp)
        if isinstance(server, TransactionalBroker):
            self._fetch(tp, server)
        self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, pause_ms))

    def _fetch(self, tp: TopicPartition, server: TransactionalBroker) -> None:
        judge, place = self._transactions, (self.name, tp)
        position = judge.positions.get(place, 0)
        request = read_committed(tp, position, bytes_max=self._bytes_max, wait_ms=_WAIT_MS)

        def serve() -> Pending[tuple[list[Read], int]]:
            return server.serve(request, FETCH_VERSION).then(look)

        def look(response: Any) -> tuple[list[Read], int]:
            data = response.responses[0].partitions[0]
            if data.error_code != ErrorCode.NONE:
                return [], position
            found = records_of(tp, position, data)
            judge.shown(server.name, tp, found[0])
            return found

        def answered(answer: Pending[tuple[list[Read], int]]) -> None:
            if answer.error is None and judge.positions.get(place, 0) == position:
                records, judge.positions[place] = answer.result()
                judge.read[place] += records

        self._wire.call(self, server, serve, answered)


def new_reader_options(rng: Random) -> dict[str, Any]:
    """How a consumer reads."""
    return {"nearest": rng.random() < 0.5, "bytes_max": rng.choice([300, 2_000, 20_000])}


def group_of(transactional_id: str) -> str:
    """The group whose offsets an id's transactions commit."""
    return f"group-of-{transactional_id}"


def offset_request(transactional_id: str, tp: TopicPartition, *, stable: bool) -> OffsetFetchRequest:
    """Asks how far the group of an id has come."""
    topics = [OffsetFetchRequestTopics(name=tp.topic, partition_indexes=[tp.partition])]
    group = OffsetFetchRequestGroup(group_id=group_of(transactional_id), topics=topics)
    return OffsetFetchRequest(groups=[group], require_stable=stable)


def offset_in(response: Any) -> int | None:
    """The offset of the answer; None where it says none for now."""
    (group,) = response.groups
    if group.error_code != ErrorCode.NONE:
        return None
    partition = group.topics[0].partitions[0]
    offset: int = partition.committed_offset
    return offset if partition.error_code == ErrorCode.NONE else None


class OffsetReader(SimulatedClient):
    """Asks how far the groups have come."""

    def __init__(
        self, *common: Any, transactions: TransactionJudge, ids: Sequence[str], group_partitions: int
    ) -> None:
        """`common` is that of `SimulatedClient`."""
        super().__init__(*common)
        self._transactions = transactions
        self._ids = ids
        self._group_partitions = group_partitions

    def run(self, tps: list[TopicPartition], pause_ms: float) -> None:
        """Asks for one group, and goes on later."""
        if self.stopping:
            return
        transactional_id = self._rng.choice(self._ids)
        number = partition_of(group_of(transactional_id), self._group_partitions)
        server = self._leader(TopicPartition(GROUP_METADATA_TOPIC, number))
        request = offset_request(transactional_id, tps[0], stable=self._rng.random() < 0.5)
        if isinstance(server, TransactionalBroker):
            asked = server

            def serve() -> Pending[Any]:
                return asked.serve(request, OFFSET_FETCH_VERSION).then(look)

            def look(response: Any) -> None:
                offset = offset_in(response)
                if offset is not None:
                    self._transactions.offset_shown(asked.name, transactional_id, offset)

            self._wire.call(self, server, serve, lambda _: None)
        self._clock.call_later(self._rng.expovariate(1 / pause_ms), lambda: self.run(tps, pause_ms))
