"""Members of consumer groups, each of its own library and in its own thread, with one face for the tests.

A member subscribes, reads, and notes what it reads and what it owns. Everything is waited for with a limit.
"""

import asyncio
from typing import NamedTuple

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors import range as aiokafka_range
from aiokafka.coordinator.assignors import roundrobin as aiokafka_roundrobin
from kafka.coordinator.assignors import cooperative_sticky, roundrobin
from kafka.coordinator.assignors import range as range_

from barnabas.client import Consumer
from group_members import GroupMember, finish_the_join
from waiting import until

POLL_SECONDS = 0.1
SESSION_MS = 10_000
HEARTBEAT_MS = 300


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int


_KAFKA_PYTHON = {
    "range": range_.RangePartitionAssignor,
    "roundrobin": roundrobin.RoundRobinPartitionAssignor,
    "cooperative-sticky": cooperative_sticky.CooperativeStickyAssignor,
}
_AIOKAFKA = {
    "range": aiokafka_range.RangePartitionAssignor,
    "roundrobin": aiokafka_roundrobin.RoundRobinPartitionAssignor,
}


class Member(GroupMember):
    """A consumer of topics or of a pattern that notes what it reads, and how it is to commit."""

    def __init__(
        self, broker, group, topics, *, strategy="range", pattern=None, instance=None, commit="end", **config
    ):
        super().__init__(broker.bootstrap, group)
        self.topics = topics
        self.pattern = pattern
        self.strategy = strategy
        self.instance = instance
        self.commit = commit
        self.config = config
        self.read: list[Place] = []
        self.start()

    def got(self, topic, partition, offset, value):
        self.read.append(Place(topic, partition, offset))
        self.values.append(value)

    def owns(self, *counts):
        """Waits until it owns so many partitions."""
        until(lambda: self.failure or len(self.owned) in counts, lambda: f"{self!r} owns {counts}")
        assert self.failure is None, self.failure
        return self.owned

    def has_read(self, count):
        """Waits until it has read so many records."""
        until(lambda: self.failure or len(self.read) >= count, lambda: f"{self!r} reads {count}")
        assert self.failure is None, self.failure
        return self.read


class KafkaPython(Member):
    """kafka-python."""

    def consume(self):
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[_KAFKA_PYTHON[self.strategy]],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
            **self.config,
        )
        member = self

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                member.note("assigned", map(tuple, assigned))

            def on_partitions_revoked(self, revoked):
                member.note("revoked", map(tuple, revoked))

        consumer.subscribe(self.topics, pattern=self.pattern, listener=Listener())
        try:
            while not self.stopped:
                for records in consumer.poll(timeout_ms=int(POLL_SECONDS * 1000)).values():
                    for record in records:
                        self.got(record.topic, record.partition, record.offset, record.value)
                finish_the_join(consumer)
                self.owned = frozenset(map(tuple, consumer.assignment()))
            if self.commit == "end":
                _commit_between_rounds(consumer)
        finally:
            consumer.close()


def _commit_between_rounds(consumer):
    """Commits with kafka-python; when other members leave or come just now, after their round."""

    def committed():
        try:
            consumer.commit()
        except kafka.errors.RebalanceInProgressError:
            consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
            return False
        return True

    until(committed, "the commit of kafka-python")


class Aiokafka(Member):
    """aiokafka."""

    def consume(self):
        asyncio.run(self._consume())

    async def _consume(self):
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[_AIOKAFKA[self.strategy]],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
            **self.config,
        )
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned):
                member.note("assigned", map(tuple, assigned))

            def on_partitions_revoked(self, revoked):
                member.note("revoked", map(tuple, revoked))

        consumer.subscribe(self.topics or (), pattern=self.pattern, listener=Listener())
        await consumer.start()
        try:
            while not self.stopped:
                found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
                for records in found.values():
                    for record in records:
                        self.got(record.topic, record.partition, record.offset, record.value)
                self.owned = frozenset(map(tuple, consumer.assignment()))
            if self.commit == "end" and self.read:
                await consumer.commit()
        finally:
            await consumer.stop()


class Confluent(Member):
    """confluent-kafka, which is librdkafka."""

    def settings(self):
        """Its configuration."""
        return self._common() | {
            "partition.assignment.strategy": self.strategy,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }

    def _common(self):
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 1000,
            **({"group.instance.id": self.instance} if self.instance else {}),
            **{name.replace("_", "."): value for name, value in self.config.items()},
        }

    def consume(self):
        consumer = confluent_kafka.Consumer(self.settings())
        consumer.subscribe(
            self.topics or [f"^{self.pattern}"],
            on_assign=lambda _, assigned: self.note("assigned", map(_place, assigned)),
            on_revoke=lambda _, revoked: self.note("revoked", map(_place, revoked)),
        )
        try:
            while not self.stopped:
                for message in consumer.consume(100, POLL_SECONDS):
                    if message.error() is None:
                        self.got(message.topic(), message.partition(), message.offset(), message.value())
                self.owned = frozenset(map(_place, consumer.assignment()))
            if self.commit == "end" and self.owned:
                _commit(consumer)
        finally:
            consumer.close()


class NewProtocol(Confluent):
    """confluent-kafka with the consumer protocol of groups (KIP-848);
    `strategy` is the coordinator's assignor.
    """

    def settings(self):
        return self._common() | {"group.protocol": "consumer", "group.remote.assignor": self.strategy}


class Ours(Member):
    """Our own consumer, with the protocol of KIP-848."""

    def consume(self):
        consumer = Consumer(
            self.bootstrap,
            group_id=self.group,
            group_protocol="consumer",
            group_remote_assignor=self.strategy,
            group_instance_id=self.instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=1000,
            **self.config,
        )
        with consumer:
            consumer.subscribe(
                self.topics or (),
                pattern=self.pattern,
                on_assigned=lambda those: self.note("assigned", map(tuple, those)),
                on_revoked=lambda those: self.note("revoked", map(tuple, those)),
            )
            while not self.stopped:
                for record in consumer.poll(int(POLL_SECONDS * 1000)):
                    self.got(record.topic, record.partition, record.offset, record.value)
                self.owned = frozenset(map(tuple, consumer.assignment()))
            if self.commit == "end":
                consumer.commit()


def _commit(consumer):
    try:
        consumer.commit(asynchronous=False)
    except confluent_kafka.KafkaException as error:
        # Nothing read since the last rebalance is nothing to commit.
        if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:
            raise


def _place(partition):
    return (partition.topic, partition.partition)


LIBRARIES = {"kafka-python": KafkaPython, "aiokafka": Aiokafka, "confluent-kafka": Confluent}
