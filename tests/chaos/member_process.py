"""One member of a group as a process: reads, notes, commits, and may be killed at any moment.

    python member_process.py LIBRARY HOST:PORT TOPIC GROUP HISTORY [INSTANCE]

A line of HISTORY is a JSON list, written in one go before anything follows from it: ``["read", time,
partition, first offset, values]`` comes before the commit of these records. What is written survives the
process.

A commit that is refused is tried again before the next read: a cooperative member keeps its partitions
through the rebalance that refused it, and if these were the last records nothing else would ever commit them.
"""

import asyncio
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

SESSION_MS = 3000
HEARTBEAT_MS = 500
BATCH = 200


class History:
    """The member's own file."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, what, *fields):
        os.write(self._file, (json.dumps([what, time.time_ns(), *fields]) + "\n").encode())

    def read(self, records):
        """Notes records, (partition, offset, value) each, as runs without holes."""
        runs = {}
        for partition, offset, value in records:
            run = runs.get(partition)
            if run is None or run[0] + len(run[1]) != offset:
                if run is not None:
                    self.write("read", partition, *run)
                run = runs[partition] = (offset, [])
            run[1].append(int(value))
        for partition, run in runs.items():
            self.write("read", partition, *run)


stopping = threading.Event()


def kafka_python(bootstrap, topic, group, history, instance):
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.errors import KafkaError

    from group_members import finish_the_join

    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=10_000,
        max_poll_records=BATCH,
        metadata_max_age_ms=1000,
    )
    owes_commit = False
    while not stopping.is_set():
        batches = consumer.poll(timeout_ms=100).values()
        finish_the_join(consumer)
        history.read((each.partition, each.offset, each.value) for batch in batches for each in batch)
        owes_commit = owes_commit or bool(batches)
        if owes_commit:
            try:
                consumer.commit()
                owes_commit = False
            except KafkaError as error:
                history.write("refused", repr(error))
    consumer.close()


def aiokafka(bootstrap, topic, group, history, instance):
    asyncio.run(_aiokafka(bootstrap, topic, group, history, instance))


async def _aiokafka(bootstrap, topic, group, history, instance):
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    consumer = aiokafka.AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id=instance,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        rebalance_timeout_ms=6000,
        metadata_max_age_ms=1000,
    )
    await consumer.start()
    owes_commit = False
    while not stopping.is_set():
        batches = (await consumer.getmany(timeout_ms=100, max_records=BATCH)).values()
        history.read((each.partition, each.offset, each.value) for batch in batches for each in batch)
        owes_commit = owes_commit or bool(batches)
        if owes_commit:
            try:
                await consumer.commit()
                owes_commit = False
            except KafkaError as error:
                history.write("refused", repr(error))
    await consumer.stop()


def confluent(bootstrap, topic, group, history, instance, **config):
    import confluent_kafka

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 1000,
        "reconnect.backoff.max.ms": 500,
        "log_level": 0,
        **config,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    owes_commit = False
    while not stopping.is_set():
        records = [each for each in consumer.consume(BATCH, 0.1) if each.error() is None]
        history.read((each.partition(), each.offset(), each.value()) for each in records)
        owes_commit = owes_commit or bool(records)
        if owes_commit:
            try:
                consumer.commit(asynchronous=False)
                owes_commit = False
            except confluent_kafka.KafkaException as error:
                history.write("refused", repr(error))
                # Its partitions were taken away: there is nothing left to commit.
                owes_commit = error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET
    consumer.close()


def barnabas(bootstrap, topic, group, history, instance):
    from barnabas.client import Consumer
    from barnabas.core.errors import BarnabasError

    options = {} if instance is None else {"group_instance_id": instance}
    with Consumer(
        bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=10_000,
        max_poll_records=BATCH,
        metadata_max_age_ms=1000,
        partition_assignment_strategy="range",
        **options,
    ) as consumer:
        consumer.subscribe([topic])
        owes_commit = False
        while not stopping.is_set():
            records = list(consumer.poll(100))
            history.read((each.partition, each.offset, each.value) for each in records)
            owes_commit = owes_commit or bool(records)
            if owes_commit:
                try:
                    consumer.commit()
                    owes_commit = False
                except BarnabasError as error:
                    history.write("refused", repr(error))


_CLASSIC = {
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
    "max.poll.interval.ms": 10_000,
}


def confluent_range(*where):
    confluent(*where, **_CLASSIC, **{"partition.assignment.strategy": "range"})


def confluent_cooperative(*where):
    confluent(*where, **_CLASSIC, **{"partition.assignment.strategy": "cooperative-sticky"})


def confluent_consumer(*where):
    confluent(*where, **{"group.protocol": "consumer", "max.poll.interval.ms": 10_000})


LIBRARIES = {
    each.__name__.replace("_", "-"): each
    for each in (barnabas, kafka_python, aiokafka, confluent_range, confluent_cooperative, confluent_consumer)
}


def main():
    library, bootstrap, topic, group, path, *instance = sys.argv[1:]
    history = History(path)
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    history.write("starts", library, os.getpid())
    try:
        LIBRARIES[library](bootstrap, topic, group, history, instance[0] if instance else None)
    except Exception as error:
        # A client may give up: while its broker is away, or because it was fenced. The watcher starts
        # another.
        history.write("gives up", repr(error))
        sys.exit(1)
    history.write("ends")


if __name__ == "__main__":
    main()
