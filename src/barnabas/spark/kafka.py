"""The data source's ports to Kafka, on `barnabas.client`:
look-ups for the driver, fetches for the workers.
"""

import functools
import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from barnabas.admin import Admin, ConfigResource, TopicDescription
from barnabas.client import Consumer, NoOffsetError, RawFetch
from barnabas.client.config import ADMIN_CONFIG, CONSUMER_CONFIG
from barnabas.client.retries import is_retriable
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.ids import ZERO_UUID, TopicPartition, uuid_text
from barnabas.spark.errors import OutOfRangeError
from barnabas.spark.kept import KeptClients
from barnabas.spark.options import SourceOptions, client_options
from barnabas.spark.planner import FoundTopics
from barnabas.spark.ranges import POLL_MS, OffsetRange, Progress

if TYPE_CHECKING:
    from barnabas.spark.offsets import TopicIds

T = TypeVar("T")

_log = logging.getLogger("barnabas.spark")

_FETCH_DEFAULTS: Final = {
    "client.id": "barnabas-spark",
    # A piece of 2 MB stays in the processor's cache until it is decoded; 8 MB take twice as long.
    "max.partition.fetch.bytes": 2 << 20,
    # What a task reads is there already. Only the fetch beyond its end would wait, and the worker's next task
    # for it.
    "fetch.max.wait.ms": 10,
}


def consumer_client(client: Mapping[str, str]) -> Consumer:
    """A consumer with these ``kafka.*`` options, which reads from offsets that it is given."""
    given = dict(client)
    servers = given.pop("bootstrap.servers")
    chosen = {**_FETCH_DEFAULTS, **client_options(given, CONSUMER_CONFIG), "auto.offset.reset": "none"}
    return Consumer(servers, **_keywords(chosen))


def admin_client(client: Mapping[str, str]) -> Admin:
    """An admin client with these ``kafka.*`` options."""
    given = dict(client)
    servers = given.pop("bootstrap.servers")
    return Admin(servers, **_keywords(client_options(given, ADMIN_CONFIG)))


def _keywords(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace(".", "_"): value for name, value in options.items()}


def _unknown(topic: str) -> KafkaError:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return KafkaError(code, f"{code.message} (topic {topic})")


class KafkaCatalog:
    """`barnabas.spark.planner.Catalog` on an admin client."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._missing: set[str] = set()
        self.topic_ids: TopicIds = {}
        """Of the topics that were found last:
        tasks that are planned with them read those topics and no later ones.
        """
        self._read_committed = options.client.get("isolation.level") == "read_committed"
        self._admin = admin_client(options.client)

    def topics(self, options: SourceOptions) -> FoundTopics:
        """What the strategy means now. An assigned partition that its topic does not have is left out, as the
        official connector does.
        """
        missing: dict[str, BarnabasError] = {}
        if options.pattern is not None:
            found = self._again(functools.partial(self._matching, options.pattern))
        else:
            names = options.topics or sorted({tp.topic for tp in options.assigned})
            found, missing = self._named(names)
        existing = {
            TopicPartition(name, partition.partition)
            for name, topic in found.items()
            for partition in topic.partitions
        }
        ids = {
            name: uuid_text(topic.topic_id) for name, topic in found.items() if topic.topic_id != ZERO_UUID
        }
        self.topic_ids = ids
        partitions = existing & set(options.assigned) if options.assigned else existing
        return FoundTopics(partitions, ids, missing)

    def _named(self, names: Iterable[str]) -> tuple[dict[str, TopicDescription], dict[str, BarnabasError]]:
        """Topics by name, and those that are not there: asked for again a few times, as a broker that has
        just started does not know all topics yet. Raises KafkaError for a topic that cannot be used.
        """
        found: dict[str, TopicDescription] = {}
        missing: dict[str, BarnabasError] = {}
        wanted = list(names)
        for attempt in range(self._options.fetch_retries + 1):
            if attempt:
                self._pause()
            answers = self._again(functools.partial(self._admin.topics.try_describe, wanted))
            found |= {name: one for name, one in answers.items() if isinstance(one, TopicDescription)}
            missing = {name: one for name, one in answers.items() if isinstance(one, BarnabasError)}
            for error in missing.values():
                if not is_retriable(error):
                    raise error
            wanted = sorted(missing.keys() - self._missing)
            if not wanted:
                break
        # What was missing before is not waited for again: a stream would stop at each trigger.
        missing = {name: missing.get(name) or _unknown(name) for name in names if name not in found}
        self._missing = set(missing)
        return found, missing

    def _matching(self, pattern: str) -> dict[str, TopicDescription]:
        """Topics whose whole name matches, internal ones too, as Java's consumer subscribes."""
        expression = re.compile(pattern)
        topics = self._admin.topics.describe_all(internal=True)
        return {name: topic for name, topic in topics.items() if expression.fullmatch(name)}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """ListOffsets; tried again as ``fetchOffset.numRetries`` says."""
        return self._again(functools.partial(self._offsets, wanted)) if wanted else {}

    def _offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = self._admin.offsets.list(wanted, read_committed=self._read_committed)
        return {tp: one.offset for tp, one in found.items()}

    def committed(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """OffsetFetch; only stable positions, as an open transaction may still change others."""
        wanted = list(partitions)

        def ask() -> dict[TopicPartition, int]:
            found = self._admin.groups.offsets([group], wanted, require_stable=True)[group]
            return {tp: one.offset for tp, one in found.items() if one is not None and one.offset >= 0}

        return self._again(ask)

    def is_compacted(self, topic: str) -> bool:
        """DescribeConfigs: whether ``cleanup.policy`` has ``compact`` in it. Raises BarnabasError."""
        name, resource = "cleanup.policy", ConfigResource.topic(topic)

        def ask() -> str:
            found = self._admin.configs.try_describe(resource, keys=[name])[resource]
            if isinstance(found, BarnabasError):
                raise found
            return found[name].value or ""

        return "compact" in self._again(ask).split(",")

    def _again(self, call: Callable[[], T]) -> T:
        """The call's value; tried again (``fetchOffset.numRetries``) when Kafka could not answer."""
        for _ in range(self._options.fetch_retries):
            try:
                return call()
            except (BarnabasError, OSError) as error:
                if not is_retriable(error):
                    raise
                _log.warning("a look-up failed, trying again: %s", error)
                self._pause()
        return call()

    def _pause(self) -> None:
        time.sleep(self._options.fetch_retry_interval_ms / 1000)

    def close(self) -> None:
        """Closes the connections."""
        self._admin.close()

    def __repr__(self) -> str:
        return f"<KafkaCatalog {self._options.client['bootstrap.servers']}>"


class KafkaFetcher:
    """`barnabas.spark.reading.RecordFetcher`: one consumer for all tasks of a worker, one after the other."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._consumer = consumer_client(client)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Fetches these partitions, and no longer those that a task before this one left behind."""
        self._consumer.assign([])
        for topic in {tp.topic for tp in positions}:
            self._consumer.partitions_for(topic)  # raises now, and by name, when the topic was deleted
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

    def first_times(self, ranges: Sequence[OffsetRange], timeout_ms: int) -> dict[TopicPartition, int]:
        """The time in ms of the first record in each range; ranges without one (retention was faster, or
        there are only markers) are left out. Raises TimeoutError.
        """
        found: dict[TopicPartition, int] = {}
        progress = Progress(ranges)
        deadline = time.monotonic() + timeout_ms / 1000
        self.start(progress.positions)
        while progress.ends:
            try:
                fetched = self.fetch(min(POLL_MS, timeout_ms))
            except OutOfRangeError as error:
                for tp in progress.ends.keys() & set(error.partitions):
                    progress.advance(tp, progress.ends[tp])
                    self.finish(tp)
                continue
            for raw in fetched:
                if raw.tp in progress.ends and raw.position == progress.positions[raw.tp]:
                    time_ms, position = _first_time(raw)
                    if time_ms is not None:
                        found[raw.tp] = time_ms
                        position = progress.ends[raw.tp]
                    if progress.advance(raw.tp, position):
                        self.finish(raw.tp)
            if progress.ends and time.monotonic() >= deadline:
                raise TimeoutError(f"Cannot fetch a record of {progress!r} in {timeout_ms} ms")
        return found

    def topic_id(self, topic: str) -> str | None:
        """The id of the topic that the last fetches came from; None where brokers have none (before 2.8)."""
        found = self._consumer.topic_id(topic)
        return None if found == ZERO_UUID else uuid_text(found)

    def log_start_offset(self, tp: TopicPartition) -> int:
        """The first offset that is still there."""
        return self._consumer.beginning_offsets([tp])[tp]

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()

    def __repr__(self) -> str:
        return f"<KafkaFetcher {self._consumer!r}>"


def _first_time(raw: RawFetch) -> tuple[int | None, int]:
    """The time of the first record that was fetched, None where only markers were; and where to continue."""
    from barnabas.records.columnar import decode  # numba: only tasks need it

    decoded = decode(raw.records, topic="", partition=0, start_offset=raw.position)
    if not decoded.batch.num_rows:
        return None, decoded.next_offset
    return decoded.batch.column("timestamp").slice(0, 1).cast("int64")[0].as_py() // 1000, decoded.next_offset


_fetchers: Final = KeptClients(KafkaFetcher)


def shared_fetcher(client: Mapping[str, str]) -> KafkaFetcher:
    """The fetcher of this worker process with these ``kafka.*`` options."""
    return _fetchers.get(client)
