"""Three brokers: Apache Kafka 3.9 with ZooKeeper beside Barnabas, what copying costs and what a failure
costs.

python -m bench.cluster [--quick] [--rows acks-100,acks-1k,commit,wide,kill,shutdown,failover,follow,idle]
                        [--sides kafka,pure,compiled,on-zookeeper] [--compiled PATH]
"""

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import command, options, wire
from bench.figures import Measure
from bench.rounds import Effort, Row, Turn
from bench.sides import TITLES
from bench.transactions import COMMIT_MEASURES, commits
from bench.trio import BROKERS, NAMES, QUIET, SESSION_MS, Cluster, running_clusters

PARTITIONS: Final = 2000
IN_SYNC_MIN: Final = {"min.insync.replicas": "2"}
MEGABYTE: Final = wire.batch(b"y" * 1024, 1000)
_numbers = itertools.count(1)


@contextlib.contextmanager
def _topic(side: Cluster, stem: str, assignment: Sequence[Sequence[int]]) -> Iterator[str]:
    name = f"{stem}-{next(_numbers)}"
    side.create(name, assignment, IN_SYNC_MIN if len(assignment[0]) > 2 else None)
    yield name
    side.delete(name)


def rotated(number: int) -> tuple[int, ...]:
    """All brokers; partitions one after the other are led by each in turn."""
    first = number % 3
    return (*BROKERS[first:], *BROKERS[:first])


def _producer(side: Cluster, **config: object) -> Producer:
    values = {"bootstrap.servers": side.bootstrap, "acks": "all", **QUIET, **config}
    return Producer(values)


# --- acks=all -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _acks(size: int, side: Cluster, effort: Effort) -> Iterator[Turn]:
    """librdkafka with its defaults, as fast as it goes:
    records/s, and processor time of all three brokers a record.
    """
    with _topic(side, "acks", [rotated(number) for number in range(6)]) as topic:
        producer, value = _producer(side), b"z" * size

        def drive(seconds: float) -> tuple[int, float]:
            lost: list[object] = []
            report_lost = {"on_delivery": lambda error, _: error and lost.append(error)}
            records, started = 0, time.perf_counter()
            while time.perf_counter() - started < seconds:
                with contextlib.suppress(BufferError):
                    for _ in range(1000):
                        producer.produce(topic, value, **report_lost if records % 1000 == 0 else {})
                        records += 1
                producer.poll(0)
            if producer.flush(60) or lost:
                raise RuntimeError(f"{side.name} did not take everything: {lost[:1]}")
            return records, time.perf_counter() - started

        def turn() -> Sequence[float]:
            before = side.processor_time()
            records, seconds = drive(effort.crowd_seconds / 4)
            return [records / seconds, (side.processor_time() - before) / records * 1e6]

        for _ in range(4 if side.compiles_as_it_runs else 1):
            drive(effort.crowd_seconds / 4)
        yield turn


# --- transactions -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _commits(partitions: int, side: Cluster, effort: Effort) -> Iterator[Turn]:
    with _topic(side, "commit", [rotated(number) for number in range(partitions)]) as topic:
        yield commits(
            side.bootstrap,
            topic,
            partitions,
            side.processor_time,
            warm_s=effort.window_seconds * 2,
            seconds=effort.crowd_seconds / 2,
        )


# --- a leader that goes -------------------------------------------------------------------------------------


class Stream:
    """A producer of one small record each 2 ms; it knows when each was acknowledged."""

    def __init__(self, side: Cluster, topic: str) -> None:
        self._topic = topic
        self._producer = _producer(side, **{"linger.ms": 0})
        self.acknowledged: list[float] = []
        self.failures = 0
        self.flow(1.0)

    def _delivered(self, error: object, _message: object) -> None:
        if error is None:
            self.acknowledged.append(time.perf_counter())
        else:
            self.failures += 1

    def flow(self, seconds: float) -> None:
        """Produces for so long."""
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            self._producer.produce(self._topic, b"tick", on_delivery=self._delivered)
            self._producer.poll(0.002)

    def flow_until_taken(self, since: float) -> None:
        """Produces until records are taken again that were sent after this moment, for a second more."""
        arrived: list[object] = []
        self._producer.produce(self._topic, b"mark", on_delivery=lambda error, _: arrived.append(error))
        while not arrived:
            self.flow(0.05)
            if time.perf_counter() - since > 90:
                raise RuntimeError("no record was taken for 90 s")
        self.flow(1.0)
        if self._producer.flush(60):
            raise RuntimeError("records were left over")

    def longest_gap(self, since: float) -> float:
        """Between two acknowledgements, in seconds."""
        times = [since, *(each for each in self.acknowledged if each > since)]
        return max(after - before for before, after in itertools.pairwise(times))


@contextlib.contextmanager
def _departure(end: Callable[[Cluster, int], None], side: Cluster, _effort: Effort) -> Iterator[Turn]:
    """The leader of a partition goes, which is not the controller:
    longest gap in s, percent of the records that were taken.
    """

    def turn() -> Sequence[float]:
        controller = side.controller
        leader, other = (broker for broker in BROKERS if broker != controller)
        with _topic(side, "gap", [(leader, other, controller)]) as topic:
            stream = Stream(side, topic)
            since = time.perf_counter()
            end(side, leader)
            stream.flow_until_taken(since)
            side.wait_until_ended(leader)
            gap = stream.longest_gap(since)
            side.start_broker(leader)
            side.wait_in_sync(topic)
            return [gap, 100 * len(stream.acknowledged) / (len(stream.acknowledged) + stream.failures)]

    yield turn


# --- a controller that goes ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _failover(side: Cluster, _effort: Effort) -> Iterator[Turn]:
    """From kill -9 of the controller, in seconds:
    until a topic can be made, and until all partitions have a leader that lives.
    """

    def turn() -> Sequence[float]:
        controller = side.controller
        with _topic(side, "many", [rotated(number) for number in range(PARTITIONS)]) as topic:
            admin_of_others = side.admin()
            since = time.perf_counter()
            side.kill(controller)
            made = _make_topic(side, [broker for broker in BROKERS if broker != controller])
            created = time.perf_counter() - since
            while not _all_led(admin_of_others, topic, controller):
                time.sleep(0.05)
            led = time.perf_counter() - since
            side.start_broker(controller)
            side.wait_in_sync(topic)
            side.wait_in_sync(made)
            side.delete(made)
            return [created, led]

    yield turn


def _make_topic(side: Cluster, replicas: Sequence[int]) -> str:
    """Tries until a controller makes it; its name.

    A client that was sent to the controller that is gone waits for it as long as it may: a second, then a new
    one asks.
    """
    deadline = time.monotonic() + 120
    name = f"after-{next(_numbers)}"
    new = NewTopic(name, 1, replica_assignment=[list(replicas)])
    while True:
        admin = side.admin()  # it must outlive the call
        try:
            admin.create_topics([new], operation_timeout=1, request_timeout=1)[name].result(10)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return name  # by an attempt whose answer came too late
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return name


def _all_led(admin: AdminClient, topic: str, gone: int) -> bool:
    try:
        partitions = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
    except KafkaException:
        return False
    return all(each.leader not in (-1, gone) for each in partitions)


# --- following ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _follow(side: Cluster, effort: Effort) -> Iterator[Turn]:
    """Processor seconds for each GB that is written while the follower stands still: of the follower that
    then copies it, of the leader meanwhile, and of the leader that a plain consumer reads it from.
    """

    def turn() -> Sequence[float]:
        with _topic(side, "copy", [(1, 2)]) as topic, side.connect(1) as client:
            with side.frozen(2):
                done = client.produce_bytes(topic, MEGABYTE, effort.round_bytes)
                before = [side.processor_time(broker) for broker in (2, 1)]
            _wait_for_copy(side, topic, done // len(MEGABYTE) * 1000)
            after = [side.processor_time(broker) for broker in (2, 1)]
            client.consume_bytes(topic, effort.round_bytes)
            consumed = side.processor_time(1) - after[1]
        follower, leader = (end - start for start, end in zip(before, after, strict=True))
        costs = [each / done * 1e9 for each in (follower, leader, consumed)]
        return [*costs, follower / consumed, leader / consumed]

    turn()
    yield turn


def _wait_for_copy(side: Cluster, topic: str, records: int) -> None:
    """Returns when the high watermark is here: then the other replica has all of it."""
    # The leader is asked: the broker that stood still may not have heard of the topic yet.
    consumer = Consumer({"bootstrap.servers": side.bootstrap_of(1), "group.id": "copy", **QUIET})
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1] < records:
        time.sleep(0.02)
    consumer.close()


@contextlib.contextmanager
def _idle(side: Cluster, effort: Effort) -> Iterator[Turn]:
    """Percent of a core without any traffic:
    a broker that follows 2,000 partitions, and the one that leads them.
    """
    with _topic(side, "idle", [(1, 2)] * PARTITIONS):
        time.sleep(3)

        def turn() -> Sequence[float]:
            before = [side.processor_time(broker) for broker in (2, 1)]
            time.sleep(effort.crowd_seconds)
            after = [side.processor_time(broker) for broker in (2, 1)]
            pairs = zip(before, after, strict=True)
            return [(end - start) / effort.crowd_seconds * 100 for start, end in pairs]

        yield turn


# --- the table ----------------------------------------------------------------------------------------------


def _acks_row(size: int, words: str) -> Row:
    measures = [
        Measure("records", "1/s", 1.0, higher_is_better=True),
        Measure("processor time of three brokers a record", "us"),
    ]
    return Row(
        f"librdkafka, acks=all, {words}, six partitions, replication 3",
        measures,
        partial(_acks, size),
        "long",
    )


def _departure_row(title: str, gap: Measure, end: Callable[[Cluster, int], None]) -> Row:
    taken = Measure("records that were taken", "%", 100, higher_is_better=True, is_ratio=False, any_mood=True)
    return Row(title, [gap, taken], partial(_departure, end), "longest")


ROWS: Final[dict[str, Row]] = {
    "acks-100": _acks_row(100, "100 B"),
    "acks-1k": _acks_row(1024, "1 KB"),
    "commit": Row(
        "librdkafka, 100 records of 100 B a transaction, replication 3",
        COMMIT_MEASURES,
        partial(_commits, 3),
        length="long",
    ),
    "wide": Row(
        "librdkafka, a record to each of 1,000 partitions a transaction, replication 3",
        COMMIT_MEASURES,
        partial(_commits, 1000),
        length="longest",
    ),
    "kill": _departure_row(
        f"kill -9 of a leader; ZooKeeper's session {SESSION_MS / 1000:g} s",
        Measure("longest gap of an acks=all producer", "s", 1.5, is_ratio=False, any_mood=True),
        Cluster.kill,
    ),
    "shutdown": _departure_row(
        "controlled shutdown of a leader",
        Measure("longest gap of an acks=all producer", "s", 1.0, any_mood=True),
        Cluster.terminate,
    ),
    "failover": Row(
        f"kill -9 of the controller, {PARTITIONS:,} partitions of replication 3",
        [
            Measure("until a topic can be made", "s", 1.0, any_mood=True),
            Measure("until all partitions have a leader that lives", "s", 1.0, any_mood=True),
        ],
        _failover,
        "once",
    ),
    "follow": Row(
        "a follower catches up with 1 MB batches; then a plain consumer reads the same bytes",
        [
            Measure("processor time of the follower per GB", "s"),
            Measure("processor time of the leader per GB copied", "s"),
            Measure("processor time of the leader per GB consumed", "s"),
            Measure("follower to consumer", "times", 1.5, is_ratio=False),
            Measure("leader of a follower to consumer", "times", 1.5, is_ratio=False),
        ],
        _follow,
        "long",
    ),
    "idle": Row(
        f"no traffic, {PARTITIONS:,} partitions of replication 2, all led by one broker",
        [
            Measure("broker that follows, of one core", "%", 3, is_ratio=False),
            Measure("broker that leads, of one core", "%", 3, is_ratio=False),
        ],
        _idle,
        "longest",
    ),
}


def main() -> int:
    """Runs the rows one after the other on the same clusters; 0 when every budget is met."""
    asked = options.parser_of(
        "python -m bench.cluster", __doc__.partition("\n")[0], ROWS, ",".join(NAMES)
    ).parse_args()
    if strange := [TITLES[side] for side in options.chosen_sides(asked.sides) if side not in NAMES]:
        print(f"bench: no cluster of {', '.join(strange)}", file=sys.stderr)
        return 2
    return command.run(asked, ROWS, running_clusters)


if __name__ == "__main__":
    sys.exit(main())
