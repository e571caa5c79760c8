"""What runs against a cluster all the time: producers, consumer groups and a committer; and what they know at
the end.

An idempotent producer and a plain one with acks=all (librdkafka), Java's producer, a committer of rising
offsets, and groups whose members are processes of several libraries. Each remembers what was acknowledged;
`problems` holds the cluster to it.
"""

import contextlib
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from history import GroupHistory
from java_stream import JavaStream
from kill_load import PARTITIONS, Commits, Reader, Stream
from storm import PARTITIONS as STORM_PARTITIONS
from storm import TOPIC as STORM
from storm import Load, Place
from three_brokers import LIMIT_S

from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey
from barnabas.protocol.coordinator.record import UnknownRecordTypeError
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from waiting import until

RATE = 50
"""Records a second in each partition."""
ENOUGH = 10
"""So many acknowledgements are more than what was on its way when something happened."""
TOPICS = {"once": PARTITIONS, "often": PARTITIONS, "java": PARTITIONS, STORM: STORM_PARTITIONS}


class Timed:
    """For a producer: how many acknowledgements each partition got, and the longest wait for the next one
    since `reset`.
    """

    def __init__(self, *args, **kwargs):
        self.counts = Counter()
        self.reset()
        super().__init__(*args, **kwargs)

    def reset(self):
        self.gap_s = 0.0
        self._last = {}

    def _delivered(self, *delivered):
        super()._delivered(*delivered)
        # A stream that numbers its records has the number in front.
        error, record = delivered[-2:]
        now = time.monotonic()
        partition = record.partition()
        self.counts[partition] += error is None
        self.gap_s = max(self.gap_s, now - self._last.get(partition, now))
        self._last[partition] = now


class TimedStream(Timed, Stream):
    """One of the chaos tests' producers, idempotent or plain with acks=all."""


class TimedLoad(Timed, Load):
    """The idempotent producer whose records the groups read."""


class ClusterLoad:
    """All clients of a cluster, from the creation of their topics to the judgement."""

    def __init__(self, cluster, groups):
        self._cluster = cluster
        self._folder = cluster.folder / "clients"
        self._folder.mkdir()
        for topic, partitions in TOPICS.items():
            cluster.create(topic, partitions)
        bootstrap = cluster.bootstrap
        self.once = TimedStream(bootstrap, "once", idempotent=True, rate=RATE)
        self.often = TimedStream(bootstrap, "often", idempotent=False, rate=RATE)
        self._java = JavaStream(self._folder, bootstrap, RATE)
        self._streams = [self.once, self.often, self._java]
        self._storm = TimedLoad(bootstrap, RATE)
        self._timed = [self.once, self.often, self._storm]
        self._commits = Commits(bootstrap, "once")
        self.places = []
        self.resting = set()
        """Members that stay away for now."""
        self._groups = list(groups)
        for group, libraries in groups.items():
            (self._folder / group).mkdir()
            self.places += [Place(group, each, self._folder / group, bootstrap) for each in libraries]
        for place in self.places:
            place.start()
        self.until_moving()
        cluster.tell(f"load: 3 producers, groups {dict(groups)}, a committer")

    def _progress(self):
        """What rises while the cluster serves, by name:
        acknowledgements, commits, what members wrote down.
        """
        found = {
            (stream.topic, p): stream.counts[p] // ENOUGH
            for stream in self._timed
            for p in range(TOPICS[stream.topic])
        }
        found["java"] = self._java.count // ENOUGH
        found["committer"] = self._commits.count // ENOUGH
        for group in self._groups:
            found[group] = sum(path.stat().st_size for path in (self._folder / group).glob("*.jsonl"))
        return found

    def until_moving(self):
        """Waits until every client got further, in every partition;
        a member that gave up is started again.
        """
        before = self._progress()
        late = []

        def look():
            for place in self.places:
                if place not in self.resting:
                    place.start()
            late[:] = [name for name, count in self._progress().items() if count <= before[name] + 1]
            return not late

        until(look, lambda: f"clients go on; these do not: {late}", LIMIT_S)

    @contextlib.contextmanager
    def away(self, place, how):
        """A member that is killed, stands still or leaves for a while."""
        self.resting.add(place)
        how(place)
        yield
        self.resting.remove(place)
        place.resume()
        place.start()

    def reset_gaps(self):
        for each in self._timed:
            each.reset()

    @property
    def gap_s(self):
        """The longest time since `reset_gaps` in which a partition took no record."""
        return max(each.gap_s for each in self._timed)

    def end(self):
        """Ends all clients, groups last and only when they have read everything; the problems of all."""
        for stream in (*self._streams, self._storm):
            stream.end()
        problems = [*self._behind()]
        reader = Reader(self._cluster.bootstrap)
        for stream in self._streams:
            problems += stream.check(reader.read(stream.topic))
        problems += self._commits.check(reader.consumer)
        self._commits.end()
        reader.close()
        for place in self.places:
            place.stop()
        for group in self._groups:
            history = GroupHistory(self._folder / group)
            problems += [f"{group}: {problem}" for problem in history.problems(self._storm.acknowledged)]
            self._cluster.tell(f"{group}: {history.summary()}")
        counts = f"{self.once.count} + {self.often.count} + {len(self._storm.acknowledged)} by librdkafka"
        self._cluster.tell(f"acknowledged: {counts}; {self._commits.count} commits")
        return problems + generations_that_fall(self._cluster.bootstrap)

    def _behind(self):
        """Waits until each group has read what was acknowledged; what it did not read."""
        wanted = {}
        for partition, offset in self._storm.acknowledged:
            wanted[partition] = max(wanted.get(partition, 0), offset + 1)
        for group in self._groups:
            left = wanted
            deadline = time.monotonic() + LIMIT_S
            while left and time.monotonic() < deadline:
                for place in self.places:
                    place.start()
                time.sleep(0.5)
                reached = GroupHistory(self._folder / group).reached()
                left = {p: (reached[p], end) for p, end in wanted.items() if reached[p] < end}
            if left:
                yield f"{group} does not come to the end: {left}"

    def close(self):
        """Kills what still runs."""
        for place in self.places:
            place.resume()
            place.kill()
        self._java.close()


def generations_that_fall(bootstrap):
    """Groups whose generation in `__consumer_offsets` is lower than one written before it, by group."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "judge", "enable.auto.commit": False, "log_level": 0}
    )
    problems, last = [], {}
    try:
        partitions = consumer.list_topics("__consumer_offsets", 20).topics["__consumer_offsets"].partitions
        for partition in partitions:
            place = TopicPartition("__consumer_offsets", partition, OFFSET_BEGINNING)
            end = consumer.get_watermark_offsets(place, timeout=20)[1]
            consumer.assign([place])
            while end and consumer.position([place])[0].offset < end:
                for record in consumer.consume(500, 1):
                    group, generation = _generation(record)
                    if generation is not None and generation < last.get(group, 0):
                        problems.append(f"{group} went from generation {last[group]} back to {generation}")
                    if generation is not None:
                        last[group] = generation
    finally:
        consumer.close()
    return problems


def _generation(record):
    """Group and generation of a classic group's record; (None, None) for every other."""
    try:
        key, value = CONSUMER_OFFSETS.decode(record.key(), record.value())
    except UnknownRecordTypeError:
        return None, None
    if isinstance(key, GroupMetadataKey) and value is not None:
        return key.group, value.generation
    return None, None
