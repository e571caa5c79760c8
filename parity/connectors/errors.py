"""What both connectors refuse, and what they do when records are gone."""

import json
from collections.abc import Callable

from parity.connectors import topics
from parity.connectors.connector import Connector, Results, finished, words
from parity.connectors.topics import MIXED, SHORT


def refusals(connector: Connector) -> Results:
    """Wrong options, wrong columns, topics that are not there, records that are gone."""
    results: Results = {name: words(case) for name, case in _cases(connector).items()}
    beyond = json.dumps({MIXED: {"0": 10_000, "1": -2, "2": -2}})
    gone = json.dumps({SHORT: {"0": 5}})
    for loss in (True, False):
        for name, topic, start in (("below the first", SHORT, gone), ("beyond the last", MIXED, beyond)):
            options = {"subscribe": topic, "startingOffsets": start, "failOnDataLoss": loss}
            where = f"{name}, failOnDataLoss={loss}"
            results[f"{where}: batch"] = _count_or_words(
                lambda options=options: connector.read(**options).count()
            )
            results[f"{where}: stream"] = _count_or_words(
                lambda options=options, where=where: _streamed(connector, where, **options)
            )
        results[f"overtaken, failOnDataLoss={loss}"] = _overtaken(connector, loss)
    return results


def _cases(connector: Connector) -> dict[str, Callable[[], object]]:
    rows = connector.spark.range(3)

    def read(**options: object) -> Callable[[], object]:
        return lambda: connector.read(**options)

    def counted(**options: object) -> Callable[[], object]:
        # Ours learns only from the action whether it is a batch.
        return lambda: connector.read(**options).count()

    def write(columns: str, **options: object) -> Callable[[], object]:
        return lambda: connector.write(rows.selectExpr(*columns.split("; ")), **options)

    return {
        "no topic": read(),
        "two ways to name topics": read(subscribe=MIXED, subscribePattern=MIXED),
        "an empty subscribe": read(subscribe=""),
        "an empty pattern": read(subscribePattern=""),
        "assign that is no JSON": read(assign="mixed"),
        "a batch from latest": counted(subscribe=MIXED, startingOffsets="latest"),
        "a batch to earliest": read(subscribe=MIXED, endingOffsets="earliest"),
        "a partition starts at latest": counted(
            subscribe=MIXED, startingOffsets=json.dumps({MIXED: {"0": -1}})
        ),
        "a stream has an end": lambda: _streamed(connector, "end", subscribe=MIXED, endingOffsets="latest"),
        "offsets that are no JSON": read(subscribe=MIXED, startingOffsets="{"),
        "minPartitions of zero": read(subscribe=MIXED, minPartitions=0),
        "a deserializer": read(subscribe=MIXED, kafka__key__deserializer="x"),
        "auto.offset.reset": read(subscribe=MIXED, kafka__auto__offset__reset="earliest"),
        "enable.auto.commit": read(subscribe=MIXED, kafka__enable__auto__commit="true"),
        "interceptors": read(subscribe=MIXED, kafka__interceptor__classes="x"),
        "a topic that is not there: count": counted(subscribe="nowhere"),
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


def _count_or_words(run: Callable[[], int]) -> int | str:
    found: list[int] = []
    said = words(lambda: found.append(run()))
    return found[0] if found else said


def _streamed(connector: Connector, name: str, **options: object) -> int:
    """The rows of a stream of what is there."""
    count: list[int] = []
    frame = connector.stream(**options)
    checkpoint = connector.folder / "".join(filter(str.isalnum, name))
    writer = frame.writeStream.foreachBatch(lambda rows, _: count.append(rows.count()))
    finished(writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start())
    return sum(count)


def _overtaken(connector: Connector, loss: bool) -> list[int | str]:
    """A stream stops; what it would read next is deleted; it goes on."""
    name = f"overtaken-{connector.format}-{loss}".lower()
    topics.create(connector.bootstrap, {name: 1})
    found = []
    for turn, deleted_to in enumerate((None, 45)):
        topics.fill(connector.bootstrap, name, 30, lambda number: (None, f"{number}", []), 1, first=30 * turn)
        if deleted_to:
            topics.delete_records(connector.bootstrap, name, deleted_to)
        options = {"subscribe": name, "startingOffsets": "earliest", "failOnDataLoss": loss}
        found.append(_count_or_words(lambda options=options: _streamed(connector, name, **options)))
    return found
