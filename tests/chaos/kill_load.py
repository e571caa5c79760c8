"""The load under which brokers are killed, and what it knows: which records and offsets were acknowledged.

Every partition gets the numbers 0, 1, 2, ... in this order, with one request in flight. So a log must hold
them without a hole, from the idempotent producer each once and in order; see `sequences`. The other one may
repeat what it sends again, and librdkafka sends a batch whose connection broke after the next one then; every
acknowledged record is there all the same, at the offset that was said.
"""

import itertools
import threading
import time
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

PARTITIONS = 2
GROUP = "killed"
WAIT_S = 20
QUICK = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 500,
    "log_level": 0,
}


class Stream:
    """One producer on one topic, as fast as it goes or at a rate of records a second in each partition."""

    def __init__(self, bootstrap, topic, *, idempotent, rate=None, in_flight=1):
        self.topic = topic
        self._pause_s = 1 / rate if rate else 0
        self.idempotent = idempotent
        self.acknowledged = [{} for _ in range(PARTITIONS)]
        """By partition: the offset of each acknowledged number."""
        self.refused = [{} for _ in range(PARTITIONS)]
        self.problems = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "max.in.flight.requests.per.connection": in_flight,
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "request.timeout.ms": 3000,
                "message.timeout.ms": 300_000,
                "queue.buffering.max.messages": 200,
                "batch.num.messages": 20,
                **QUICK,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def count(self):
        """How many records were acknowledged."""
        return sum(map(len, self.acknowledged))

    def ends(self):
        """By partition: the end of the log as acknowledgements promise it."""
        return [max(each.values(), default=-1) + 1 for each in map(dict, self.acknowledged)]

    def _run(self):
        numbers = [0] * PARTITIONS
        while not self._stop.is_set():
            for partition, number in enumerate(numbers):
                try:
                    self._producer.produce(
                        self.topic,
                        self._value(number),
                        self._key(number),
                        partition=partition,
                        headers=[("number", b"%d" % number)],
                        on_delivery=partial(self._delivered, number),
                    )
                except BufferError:
                    self._producer.poll(0.01)
                else:
                    numbers[partition] += 1
            self._producer.poll(0.001)
            self._stop.wait(self._pause_s)

    def _key(self, number):
        return None

    def _value(self, number):
        return b"%d:%s" % (number, b"." * (number % 300))

    def _delivered(self, number, error, record):
        partition = record.partition()
        if error is not None:
            self.refused[partition][number] = error.str()
            return
        acknowledged = self.acknowledged[partition]
        if acknowledged and record.offset() <= (last := next(reversed(acknowledged.values()))):
            self.problems.append(
                f"{self.topic}-{partition}: {number} went to offset {record.offset()}, after {last} was taken"
            )
        acknowledged[number] = record.offset()

    def end(self):
        """Waits until every record was answered."""
        self._stop.set()
        self._thread.join()
        left = self._producer.flush(WAIT_S)
        if left:
            self.problems.append(f"{self.topic}: {left} records get no answer from brokers that run")

    def check(self, found):
        """Everything wrong with what the topic holds: (offset, number) in order, by partition."""
        yield from self.problems
        for partition, records in enumerate(found):
            name = f"{self.topic}-{partition}"
            refused = self.refused[partition]
            if refused:
                yield f"{name}: {len(refused)} records were refused, {next(iter(refused.items()))} the first"
            held = dict(records)
            lost = [n for n, offset in self.acknowledged[partition].items() if held.get(offset) != n]
            if lost:
                total = len(self.acknowledged[partition])
                yield f"{name}: {len(lost)} of {total} acknowledged records are lost, {lost[0]} the first"
            if [offset for offset, _ in records] != list(range(len(records))):
                yield f"{name}: the offsets have a hole"
            numbers = {number for _, number in records}
            missing = set(range(max(numbers, default=-1) + 1)) - numbers - set(refused)
            if missing:
                yield f"{name}: {len(missing)} numbers between others are missing, {min(missing)} the first"


class KeyedStream(Stream):
    """An idempotent producer of a compacted topic: each key gets rising numbers, and the last one counts.

    One in seven is a tombstone, which may go in time, and its key's older records with it or before.
    """

    KEYS = 20
    TOMBSTONE_EVERY = 7

    def __init__(self, bootstrap, topic, *, rate=None):
        super().__init__(bootstrap, topic, idempotent=True, rate=rate)
        self.compacted = 0
        """How many records `check` has found gone."""

    def _key(self, number):
        return b"%d" % (number % self.KEYS)

    def _value(self, number):
        return None if self._deletes(number) else super()._value(number)

    def _deletes(self, number):
        return number % self.TOMBSTONE_EVERY == self.TOMBSTONE_EVERY - 1

    def check(self, found):
        """As that of every stream: an acknowledged record may be gone, once a later one of its key
        is there.
        """
        yield from self.problems
        for partition, records in enumerate(found):
            name, acknowledged = f"{self.topic}-{partition}", self.acknowledged[partition]
            if self.refused[partition]:
                yield f"{name}: {len(self.refused[partition])} records were refused"
            if any(after <= one for (one, _), (after, _) in itertools.pairwise(records)):
                yield f"{name}: the offsets do not rise"
            by_offset = {offset: number for number, offset in acknowledged.items()}
            wrong = [offset for offset, number in records if by_offset.get(offset, number) != number]
            if wrong:
                yield f"{name}: {len(wrong)} offsets hold other records than was said, {wrong[0]} the first"
            promised = {number % self.KEYS: number for number in acknowledged}
            held = {number % self.KEYS: number for _, number in records}
            behind = {key: number for key, number in promised.items() if held.get(key, -1) < number}
            revived = {
                key: held[key] for key, number in behind.items() if key in held and self._deletes(number)
            }
            lost = {key: number for key, number in behind.items() if not self._deletes(number)}
            if revived:
                yield f"{name}: {len(revived)} keys that were deleted are back: {revived}"
            if lost:
                yield f"{name}: the last acknowledged records of {len(lost)} keys are lost: {lost}"
            self.compacted += len(acknowledged) - len(acknowledged.keys() & {each for _, each in records})


class Commits:
    """A member without a group that commits rising offsets all the time."""

    def __init__(self, bootstrap, topic):
        self.acknowledged = -1
        self.tried = -1
        self.count = 0
        self._topic = topic
        self._stop = threading.Event()
        self._consumer = _consumer(bootstrap)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.002):
            self.tried += 1
            wanted = [TopicPartition(self._topic, each, self.tried) for each in range(PARTITIONS)]
            try:
                answers = self._consumer.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                continue
            if all(each.error is None for each in answers):
                self.acknowledged = self.tried
                self.count += 1

    def check(self, consumer):
        """What is wrong with the offsets that the coordinator knows."""
        promised = self.acknowledged
        wanted = [TopicPartition(self._topic, each) for each in range(PARTITIONS)]

        def committed():
            answers = consumer.committed(wanted, timeout=2)
            for each in answers:
                if each.error is not None:  # a commit is on its way
                    raise KafkaException(each.error)
            return answers

        for each in _insist(committed):
            if promised >= 0 and each.offset < promised:
                yield (
                    f"{GROUP}: offset {each.offset} of partition {each.partition}, "
                    f"{promised} was acknowledged"
                )
            if each.offset > self.tried:
                yield f"{GROUP}: offset {each.offset} of partition {each.partition} was never committed"

    def end(self):
        self._stop.set()
        self._thread.join()
        self._consumer.close()


class Reader:
    """Looks at what the brokers hold."""

    def __init__(self, bootstrap):
        self.consumer = _consumer(bootstrap)

    def ends(self, topic):
        """By partition: the end that readers see."""
        places = [TopicPartition(topic, each) for each in range(PARTITIONS)]
        return [
            _insist(lambda place=place: self.consumer.get_watermark_offsets(place, timeout=2))[1]
            for place in places
        ]

    def read(self, topic):
        """All of a topic: (offset, number) by partition."""
        ends = self.ends(topic)
        found = [[] for _ in range(PARTITIONS)]
        self.consumer.assign([TopicPartition(topic, each, 0) for each in range(PARTITIONS)])
        deadline = time.monotonic() + WAIT_S
        read = [0] * PARTITIONS
        # What lies before its end may have been compacted away.
        while any(each < end for each, end in zip(read, ends, strict=True)):
            assert time.monotonic() < deadline, (
                f"{topic} ends at {ends}, and readers come to {[each[-1:] for each in found]}"
            )
            for record in self.consumer.consume(1000, 0.2):
                if record.error() is None:
                    found[record.partition()].append((record.offset(), _number(record)))
                    read[record.partition()] = record.offset() + 1
                elif record.error().code() == KafkaError._PARTITION_EOF:
                    read[record.partition()] = record.offset()
        self.consumer.unassign()
        return found

    def close(self):
        self.consumer.close()


def _number(record):
    headers = record.headers()
    return int(dict(headers)["number"] if headers else record.value().partition(b":")[0])


def _consumer(bootstrap):
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            "coordinator.query.interval.ms": 200,
            "socket.timeout.ms": 5000,
            **QUICK,
        }
    )


def _insist(ask):
    """An answer, from brokers that have just started and may still elect."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if time.monotonic() > deadline or error.args[0].code() == KafkaError._INVALID_ARG:
                raise
            time.sleep(0.02)
