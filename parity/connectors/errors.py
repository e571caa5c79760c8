"""What both connectors refuse, and what they do when records are gone."""

import json
from collections.abc import Callable, Iterator
from functools import partial

from parity.connectors import topics
from parity.connectors.connector import Connector, Results, finished, words
from parity.connectors.topics import MIXED, SHORT

_FEW = ("no topic", "a batch from latest", "a topic that is not there", "no value column", "a null topic")
"""The refusals of the short form: one of each place that refuses."""
_IMPATIENT = {"fetchOffset__numRetries": 1, "fetchOffset__retryIntervalMs": 10}


def refusals(connector: Connector) -> Results:
    """Wrong options, wrong columns, topics that are not there, records that are gone."""
    cases = _cases(connector)
    results: Results = {
        name: words(case) for name, case in cases.items() if connector.thorough or name in _FEW
    }
    for loss in (True, False):
        for name, case in _losses(connector, loss):
            results[f"{name}, failOnDataLoss={loss}"] = case()
    return results


def _cases(connector: Connector) -> dict[str, Callable[[], object]]:
    rows = connector.spark.range(3)

    def read(**options: object) -> Callable[[], object]:
        return lambda: connector.read(**options).count()

    def stream(**options: object) -> Callable[[], object]:
        return lambda: _streamed(connector, "-".join(options), **options)

    def write(columns: str, **options: object) -> Callable[[], object]:
        return lambda: connector.write(rows.selectExpr(*columns.split("; ")), **options)

    return {
        "no topic": read(),
        "two ways to name topics": read(subscribe=MIXED, subscribePattern=MIXED),
        "an empty subscribe": read(subscribe=""),
        "an empty pattern": read(subscribePattern=""),
        "assign that is no JSON": read(assign="mixed"),
        "a batch from latest": read(subscribe=MIXED, startingOffsets="latest"),
        "a batch to earliest": read(subscribe=MIXED, endingOffsets="earliest"),
        "a partition starts at latest": read(subscribe=MIXED, startingOffsets=json.dumps({MIXED: {"0": -1}})),
        "offsets of some partitions": read(subscribe=MIXED, startingOffsets=json.dumps({MIXED: {"0": 1}})),
        "a start behind the end": read(
            assign=json.dumps({MIXED: [0]}),
            startingOffsets=json.dumps({MIXED: {"0": 9}}),
            endingOffsets=json.dumps({MIXED: {"0": 5}}),
        ),
        "a time behind the last record": read(subscribe=MIXED, startingTimestamp=topics.BASE_MS + 10**9),
        "a stream has an end": stream(subscribe=MIXED, endingOffsets="latest"),
        "the least is above the most": stream(
            subscribe=MIXED, minOffsetsPerTrigger=20, maxOffsetsPerTrigger=10
        ),
        "offsets that are no JSON": read(subscribe=MIXED, startingOffsets="{"),
        "minPartitions of zero": read(subscribe=MIXED, minPartitions=0),
        "a deserializer": read(subscribe=MIXED, kafka__key__deserializer="x"),
        "auto.offset.reset": read(subscribe=MIXED, kafka__auto__offset__reset="earliest"),
        "enable.auto.commit": read(subscribe=MIXED, kafka__enable__auto__commit="true"),
        "interceptors": read(subscribe=MIXED, kafka__interceptor__classes="x"),
        "a topic that is not there": read(subscribe="nowhere", **_IMPATIENT),
        "a stream of a topic that is not there": stream(subscribe="nowhere", **_IMPATIENT),
        "no value column": write("CAST(id AS STRING) key", topic=MIXED),
        "a value of another type": write("id value", topic=MIXED),
        "a key of another type": write("id key; 'x' value", topic=MIXED),
        "a topic column of another type": write("id topic; 'x' value"),
        "no topic to write to": write("'x' value"),
        "a null topic": write("CAST(NULL AS STRING) topic; 'x' value"),
        "a serializer": write("'x' value", topic=MIXED, kafka__key__serializer="x"),
        "mode overwrite": lambda: connector.write(
            rows.selectExpr("'x' value"), mode="overwrite", topic=MIXED
        ),
    }


def _losses(connector: Connector, loss: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    beyond = json.dumps({MIXED: {"0": 10_000, "1": -2, "2": -2}})
    gone = json.dumps({SHORT: {"0": 5}})
    for name, topic, start in (("below the first", SHORT, gone), ("beyond the last", MIXED, beyond)):
        options = {"subscribe": topic, "startingOffsets": start, "failOnDataLoss": loss}
        yield (
            f"{name}: batch",
            partial(_count_or_words, lambda options=options: connector.read(**options).count()),
        )
        if connector.thorough:
            stream = partial(_streamed, connector, f"{name}-{loss}".replace(" ", "-"), **options)
            yield f"{name}: stream", partial(_count_or_words, stream)
    yield "overtaken by retention", partial(_interrupted, connector, "overtaken", loss, _overtake)
    if connector.thorough:
        yield "topic deleted", partial(_interrupted, connector, "deleted", loss, topics.delete)
        by_pattern = partial(
            _interrupted, connector, "gone", loss, topics.delete, strategy="subscribePattern"
        )
        yield "topic of a pattern deleted", by_pattern


def _overtake(bootstrap: str, topic: str) -> None:
    topics.fill(bootstrap, topic, 30, topics.plain, 1, first=30)
    topics.delete_records(bootstrap, topic, 45)


def _interrupted(
    connector: Connector,
    what: str,
    loss: bool,
    disturb: Callable[[str, str], None],
    strategy: str = "subscribe",
) -> list[int | str]:
    """A stream stops, its topic is disturbed, it goes on: what both runs gave."""
    name = f"{what}-{connector.format}-{loss}".lower()
    topics.create(connector.bootstrap, {name: 1})
    topics.fill(connector.bootstrap, name, 30, topics.plain, 1)
    options = {strategy: name, "startingOffsets": "earliest", "failOnDataLoss": loss, **_IMPATIENT}
    before = _count_or_words(lambda: _streamed(connector, name, **options))
    disturb(connector.bootstrap, name)
    return [before, _count_or_words(lambda: _streamed(connector, name, **options))]


def _count_or_words(run: Callable[[], int]) -> int | str:
    found: list[int] = []
    said = words(lambda: found.append(run()))
    return found[0] if found else said


def _streamed(connector: Connector, checkpoint: str, **options: object) -> int:
    """The rows of a stream of what is there."""
    writer = connector.stream(**options).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(connector.folder / checkpoint))
    query = finished(writer.trigger(availableNow=True).start())
    return sum(progress["numInputRows"] for progress in query.recentProgress)
