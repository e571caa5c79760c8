"""Which records of a topic are undone already: a tombstone of their key stands behind them.

Connect sends again what it had sent before it was killed, unless it has transactions. Then an update that
left a large value out may come behind the delete of its row, and nothing has the value any more; but the
delete comes again too.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.spark.kafka import consumer_client

if TYPE_CHECKING:
    from barnabas.client import Consumer

Place: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset of a record."""
_POLL_MS: Final = 1000
_SILENT_POLLS_MAX: Final = 10


def deleted_since(client: Mapping[str, str], places: Collection[Place]) -> set[Place]:
    """Those of the places behind which there is such a tombstone now. Of partitions that cannot be read
    nothing is known: none of theirs are among them.
    """
    offsets: dict[TopicPartition, set[int]] = defaultdict(set)
    for topic, partition, offset in places:
        offsets[TopicPartition(topic, partition)].add(offset)
    found: set[Place] = set()
    try:
        with closing(consumer_client(client)) as consumer:
            for tp, of_partition in offsets.items():
                found.update((tp.topic, tp.partition, one) for one in _deleted(consumer, tp, of_partition))
    except (BarnabasError, OSError):
        pass
    return found


def _deleted(consumer: "Consumer", tp: TopicPartition, offsets: set[int]) -> Iterator[int]:
    end = consumer.end_offsets([tp])[tp]
    consumer.assign([tp])
    consumer.seek(tp, min(offsets))
    waiting: dict[bytes | None, list[int]] = defaultdict(list)
    silent = 0
    while consumer.position(tp) < end and silent < _SILENT_POLLS_MAX:
        records = consumer.poll(_POLL_MS)
        silent = 0 if records else silent + 1
        for record in records:
            if record.offset in offsets:
                waiting[record.key].append(record.offset)
            elif record.value is None:
                yield from waiting.pop(record.key, ())
