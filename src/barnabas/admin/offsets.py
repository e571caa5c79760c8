"""``admin.offsets``: where partitions begin and end, and where a time is."""

from collections.abc import Mapping
from datetime import datetime

from barnabas.admin.context import AdminContext
from barnabas.client import named
from barnabas.client.keyed_call import raise_first
from barnabas.client.offsets import list_offsets, time_ms
from barnabas.client.types import OffsetAndTimestamp
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


class Offsets:
    """Offsets of partitions, asked of their leaders: one request a broker and round."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def list(
        self,
        timestamps: Mapping[TopicPartition, int | datetime],
        *,
        read_committed: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The offset of each partition for its time in ms, `datetime` or special timestamp
        (`client.types.LATEST_TIMESTAMP`, ...); -1 where no record is that late. Raises the first error of a
        partition.
        """
        results = await self.try_list(timestamps, read_committed=read_committed, timeout_ms=timeout_ms)
        return raise_first(results)

    async def try_list(
        self,
        timestamps: Mapping[TopicPartition, int | datetime],
        *,
        read_committed: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp | BarnabasError]:
        """As `list`, with an error per partition."""
        return await list_offsets(
            self._context.cluster,
            {tp: time_ms(one) for tp, one in named.by_partition(timestamps, "times").items()},
            isolation_level=int(bool(read_committed)),
            timeout_ms=self._context.timeout_ms if timeout_ms is None else timeout_ms,
        )
