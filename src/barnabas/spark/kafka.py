"""The data source's ports to Kafka, on `barnabas.client`: look-ups for the driver, fetches for the workers."""

import functools
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.admin import BlockingAdmin, TopicDescription
from barnabas.client import Consumer, NoOffsetError, RawFetch
from barnabas.client.config import ADMIN_CONFIG, CONSUMER_CONFIG
from barnabas.core.ids import TopicPartition
from barnabas.spark.options import SourceOptions, client_options
from barnabas.spark.planner import retrying
from barnabas.spark.reading import OutOfRangeError

_FETCH_DEFAULTS: Final = {
    "client.id": "barnabas-spark",
    # A piece of 2 MB stays in the processor's cache until it is decoded; 8 MB take twice as long.
    "max.partition.fetch.bytes": 2 << 20,
    # What a task reads is there already. Only the fetch beyond its end would wait, and the worker's next task
    # for it.
    "fetch.max.wait.ms": 10,
}


def _consumer(client: Mapping[str, str]) -> Consumer:
    given = dict(client)
    servers = given.pop("bootstrap.servers")
    chosen = {**_FETCH_DEFAULTS, **client_options(given, CONSUMER_CONFIG), "auto.offset.reset": "none"}
    return Consumer(servers, **_keywords(chosen))


def _keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in options.items()}


class KafkaCatalog:
    """`barnabas.spark.planner.Catalog` on an admin client."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._read_committed = options.client.get("isolation.level") == "read_committed"
        given = dict(options.client)
        servers = given.pop("bootstrap.servers")
        self._admin = BlockingAdmin(servers, **_keywords(client_options(given, ADMIN_CONFIG)))

    def partitions(self, options: SourceOptions) -> set[TopicPartition]:
        """The partitions of the strategy. A subscribed topic that does not exist raises KafkaError."""
        if options.assigned:
            return set(options.assigned)
        if options.pattern is not None:
            found = self._matching(options.pattern)
        else:
            found = self._admin.topics.describe(options.topics)
        return {
            TopicPartition(name, partition.partition)
            for name, topic in found.items()
            for partition in topic.partitions
        }

    def _matching(self, pattern: str) -> dict[str, TopicDescription]:
        """Topics whose whole name matches, internal ones too, as Java's consumer subscribes."""
        expression = re.compile(pattern)
        topics = self._admin.topics.describe_all(internal=True)
        return {name: topic for name, topic in topics.items() if expression.fullmatch(name)}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """ListOffsets; tried again as ``fetchOffset.numRetries`` says."""
        options = self._options
        pause = functools.partial(time.sleep, options.fetch_retry_interval_ms / 1000)
        return (
            retrying(options.fetch_retries, pause, functools.partial(self._offsets, wanted)) if wanted else {}
        )

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._admin.offsets.list(wanted, read_committed=self._read_committed)
        return {tp: one.offset for tp, one in found.items()}

    def close(self) -> None:
        """Closes the connections."""
        self._admin.close()

    def __repr__(self) -> str:
        return f"<KafkaCatalog {self._options.client['bootstrap.servers']}>"


class KafkaFetcher:
    """`barnabas.spark.reading.Fetcher`: one consumer for all tasks of a worker, one after the other."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._consumer = _consumer(client)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetches these partitions, and whatever a task before this one left behind no longer."""
        self._consumer.assign([])
        for topic in {tp.topic for tp in positions}:
            self._consumer.partitions_for(topic)  # raises now, and by name, when the topic is gone
        self._consumer.assign(positions)
        for tp, position in positions.items():
            self._consumer.seek(tp, position)

    def fetch(self, timeout_ms: int) -> Sequence[RawFetch]:
        """What has arrived. Raises OutOfRangeError."""
        try:
            return self._consumer.fetch_raw(timeout_ms)
        except NoOffsetError as error:
            raise OutOfRangeError(list(error.positions)) from error

    def seek(self, tp: TopicPartition, position: int) -> None:
        """Goes on elsewhere."""
        self._consumer.seek(tp, position)

    def finish(self, tp: TopicPartition) -> None:
        """Enough of this partition."""
        self._consumer.assign(self._consumer.assignment() - {tp})

    def log_start_offset(self, tp: TopicPartition) -> int:
        """The first offset that is still there."""
        return self._consumer.beginning_offsets([tp])[tp]

    def __repr__(self) -> str:
        return f"<KafkaFetcher {self._consumer!r}>"


@functools.cache
def _shared_fetcher(client: tuple[tuple[str, str], ...]) -> KafkaFetcher:
    return KafkaFetcher(dict(client))


def worker_fetcher(options: SourceOptions) -> KafkaFetcher:
    """The fetcher of this worker process: Spark uses a worker again, so its connections stay open."""
    return _shared_fetcher(tuple(sorted(options.client.items())))
