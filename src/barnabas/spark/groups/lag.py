"""The lag of groups now, as brokers say it: in records, in seconds, and how long the next record will be
there.

The driver's half asks for what takes one request a broker or a group; the times of the records that groups
read next are fetched by tasks, as each takes a fetch.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from barnabas.admin import Admin
from barnabas.core.ids import TopicPartition
from barnabas.operations import group_lag
from barnabas.operations.group_lag import Standing
from barnabas.spark.groups.options import GroupOptions
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.spark.kafka import KafkaFetcher

_FETCH_BYTES: Final = str(64 << 10)
"""One record is wanted of each partition; a broker gives a whole batch of any size."""


def standings(admin: Admin, options: GroupOptions) -> list[Standing]:
    """Every committed position of the wanted groups. Raises KafkaError."""
    return admin.using(group_lag.standings, options.wants)


def standings_of(admin: Admin, committed: Mapping[str, Mapping[TopicPartition, int]]) -> list[Standing]:
    """The standings of these positions by group. Raises KafkaError."""
    return admin.using(group_lag.standings_of, committed)


def one_record_at_a_time(client: Mapping[str, str]) -> dict[str, str]:
    """The ``kafka.*`` options of a fetcher for `lag_rows`."""
    return {"max.partition.fetch.bytes": _FETCH_BYTES, **client}


def lag_rows(mine: Sequence[Standing], fetcher: "KafkaFetcher", timeout_ms: int) -> "pa.RecordBatch":
    """A row for each standing, with the time of the record that the group reads next. Raises KafkaError,
    TimeoutError.

    Nobody else may use the fetcher meanwhile.
    """
    import pyarrow as pa

    schema = pa.schema(
        {
            "group": pa.string(), "topic": pa.string(), "partition": pa.int32(),
            "committedOffset": pa.int64(),
            "logStartOffset": pa.int64(), "logEndOffset": pa.int64(), "lag": pa.int64(),
            "lagSeconds": pa.float64(),
            "lost": pa.int64(), "nextTimestamp": pa.timestamp("us", tz="UTC"),
            "newestTimestamp": pa.timestamp("us", tz="UTC"), "secondsToDataLoss": pa.float64(),
        }
    )  # fmt: skip
    times: dict[tuple[TopicPartition, int], int] = {}
    for wanted in rounds(mine):
        found = fetcher.first_times(wanted, timeout_ms)
        times |= {(piece.tp, piece.start): found[piece.tp] for piece in wanted if piece.tp in found}
    now_ms = time.time() * 1000
    rows = [_row(one, times.get((one.tp, one.next_offset or 0)), now_ms) for one in mine]
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def rounds(standings: Sequence[Standing]) -> Iterator[list[OffsetRange]]:
    """Where to look for the next record of each, each place once:
    a fetcher reads a partition at one at a time.
    """
    left = sorted(
        {
            OffsetRange(one.tp, one.next_offset, one.end)
            for one in standings
            if one.next_offset is not None and one.end is not None
        }
    )
    while left:
        now = list({piece.tp: piece for piece in left}.values())
        yield now
        left = sorted(set(left) - set(now))


def _row(one: Standing, next_ms: int | None, now_ms: float) -> Mapping[str, object]:
    return {
        "group": one.group,
        "topic": one.tp.topic,
        "partition": one.tp.partition,
        "committedOffset": one.committed,
        "logStartOffset": one.start,
        "logEndOffset": one.end,
        "lag": one.lag,
        "lagSeconds": one.seconds_behind(next_ms),
        "lost": one.lost,
        "nextTimestamp": None if next_ms is None else next_ms * 1000,
        "newestTimestamp": one.newest_ms * 1000 if one.newest_ms >= 0 else None,
        "secondsToDataLoss": one.seconds_to_data_loss(next_ms, now_ms),
    }
