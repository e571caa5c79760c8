"""When records were written that groups read next: one fetch for each place, shared by all who want it."""

import asyncio
from collections.abc import Mapping
from typing import Final

from barnabas.client import AsyncConsumer, NoOffsetError
from barnabas.core.ids import TopicPartition

_POLL_MS: Final = 200
CLIENT: Final = {
    "auto.offset.reset": "none",
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": 64 << 10,
    "fetch.max.wait.ms": 100,
}
"""Options of the consumer: one record is wanted of each partition, a broker gives a whole batch of any
size.
"""


async def first_times(
    consumer: AsyncConsumer, ranges: Mapping[TopicPartition, tuple[int, int]], timeout_ms: float
) -> dict[TopicPartition, int | None]:
    """The time in ms of the first record from each start up to its end, which readers of committed records
    see.

    None where there is none: only markers and aborted records are left, or retention took them. A partition
    that does not answer in time is left out. Nobody else may use the consumer meanwhile. Raises KafkaError.
    """
    found: dict[TopicPartition, int | None] = {}
    left = dict(ranges)
    consumer.assign(left)
    for tp, (start, _end) in left.items():
        consumer.seek(tp, start)
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    while left and asyncio.get_running_loop().time() < deadline:
        try:
            records = await consumer.poll(_POLL_MS, max_records=1)
        except NoOffsetError as error:
            # Retention was faster than this look; the next one asks from the new start.
            found |= dict.fromkeys(left.keys() & set(error.positions), None)
        else:
            for record in records:
                tp = TopicPartition(record.topic, record.partition)
                if tp in left:
                    found[tp] = record.timestamp if record.offset < left[tp][1] else None
            if not records:
                for tp, (_start, end) in left.items():
                    if await consumer.position(tp) >= end:
                        found[tp] = None
        left = {tp: one for tp, one in left.items() if tp not in found}
        consumer.assign(left)
    return found
