"""Jobs that read in batches."""

import json
from typing import Any

from parity.connectors.connector import Connector, Results, ordered
from parity.connectors.topics import APPENDED, BASE_MS, CODECS, COMPACTED, MIXED, SHORT, TIMES


def all_columns(connector: Connector) -> Results:
    """Every column of every record, headers too, and the schema."""
    rows = connector.read(subscribe=MIXED, includeHeaders=True)
    plain = connector.read(subscribe=MIXED)
    return {
        "schema": [rows.schema.simpleString(), plain.schema.simpleString()],
        "rows": ordered(rows),
        "without headers": ordered(plain),
        "by default from earliest to latest": plain.count(),
    }


def offsets(connector: Connector) -> Results:
    """Between offsets, by partition and by -2 and -1."""
    start = json.dumps({MIXED: {"0": 10, "1": -2, "2": 99}})
    end = json.dumps({MIXED: {"0": 60, "1": -1, "2": 100}})
    rows = connector.read(subscribe=MIXED, startingOffsets=start, endingOffsets=end)
    empty = json.dumps({MIXED: {"0": 50, "1": 50, "2": 50}})
    return {
        "rows": ordered(rows.select("partition", "offset", "key")),
        "nothing between": connector.read(
            subscribe=MIXED, startingOffsets=empty, endingOffsets=empty
        ).count(),
        "words": connector.read(subscribe=MIXED, startingOffsets="earliest", endingOffsets="latest").count(),
    }


def times(connector: Connector) -> Results:
    """Between times, for all partitions and for each."""
    from_ms, to_ms = BASE_MS + 30_000, BASE_MS + 90_500
    by_partition = json.dumps({TIMES: {"0": from_ms, "1": BASE_MS}})
    behind_all = json.dumps({TIMES: {"0": BASE_MS + 10**9, "1": from_ms}})

    def found(**options: object) -> list[Any]:
        return ordered(connector.read(subscribe=TIMES, **options).select("partition", "offset", "timestamp"))

    return {
        "all partitions": found(startingTimestamp=from_ms, endingTimestamp=to_ms),
        "by partition": found(startingOffsetsByTimestamp=by_partition),
        "to a time by partition": found(endingOffsetsByTimestamp=by_partition),
        "behind the last, from latest": found(
            startingOffsetsByTimestamp=behind_all, startingOffsetsByTimestampStrategy="latest"
        ),
        "a time wins over offsets": found(startingTimestamp=from_ms, startingOffsets="latest"),
    }


def topics(connector: Connector) -> Results:
    """Topics by name, by pattern, and partitions by number."""

    def found(**options: object) -> list[Any]:
        return ordered(connector.read(**options).select("topic", "partition", "offset", "value"))

    return {
        "two by name": found(subscribe="set-one,set-two"),
        "by pattern": found(subscribePattern="set-.*"),
        "assigned": found(assign=json.dumps({MIXED: [0, 2], "set-two": [1]})),
        "assigned, with one that is not there": found(assign=json.dumps({MIXED: [0, 9]})),
        "a pattern of nothing": found(subscribePattern="nothing-.*"),
    }


def partitions(connector: Connector) -> Results:
    """How a batch is cut into tasks."""

    def cut(**options: object) -> list[int]:
        frame = connector.read(subscribe=MIXED, **options)
        return [frame.rdd.getNumPartitions(), frame.count()]

    return {
        "one a partition": cut(),
        "at least 9": cut(minPartitions=9),
        "at least 2": cut(minPartitions=2),
        "at most 30 records": cut(maxRecordsPerPartition=30),
        "at most 30 records, by offsets": cut(
            maxRecordsPerPartition=30, startingOffsets=_each(0), endingOffsets=_each(100)
        ),
        "both": cut(minPartitions=9, maxRecordsPerPartition=90),
    }


def _each(offset: int) -> str:
    return json.dumps({MIXED: dict.fromkeys("012", offset)})


def codecs(connector: Connector) -> Results:
    """Compressed batches, and the time that a broker gave."""
    result: Results = {codec: ordered(connector.read(subscribe=f"codec-{codec}")) for codec in CODECS}
    appended = connector.read(subscribe=APPENDED).select("offset", "value", "timestampType")
    return {**result, "log append time": ordered(appended)}


def holes(connector: Connector) -> Results:
    """A compacted topic, and one whose first records are deleted."""
    compacted = connector.read(subscribe=COMPACTED)
    short = connector.read(subscribe=SHORT)
    return {
        "compacted": ordered(compacted.select("offset", "key", "value")),
        "compacted, cut": ordered(
            connector.read(subscribe=COMPACTED, maxRecordsPerPartition=7).select("offset", "key", "value")
        ),
        "what was deleted": ordered(short.select("offset", "value")),
    }
