"""Two machines of two brokers each, one store: copies are on both, and one may be lost as a whole."""

import os
import signal

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from barnabas.admin import Admin, NewTopic
from machine_parent import MachineParent
from waiting import until

PARTITIONS = 6
RECORDS = 3000
QUICK_SESSION = ("--set", "zookeeper.session.timeout.ms=2000")


def test_nothing_acknowledged_is_lost_with_a_machine(tmp_path):
    """librdkafka keeps the ledger: what it was told is there, its consumer finds."""
    first = MachineParent(
        tmp_path / "first", "--brokers", "2", "--port", "0", "--rack", "first", *QUICK_SESSION
    )
    first.wait_until_ready()
    store = ("--store", str(tmp_path / "first"), "--id", "3")
    second = MachineParent(
        tmp_path / "second", "--brokers", "2", "--port", "0", "--rack", "second", *store, *QUICK_SESSION
    )
    try:
        second.wait_until_ready()
        with Admin(first.bootstrap) as admin:
            admin.topics.create(NewTopic("kept", PARTITIONS, 2))
            placed = admin.topics.describe(["kept"])["kept"].partitions
        machines = [{(broker - 1) // 2 for broker in one.replicas} for one in placed]
        assert machines == [{0, 1}] * PARTITIONS
        assert {one.leader for one in placed} == {1, 2, 3, 4}
        acknowledged = set()
        producer = Producer({"bootstrap.servers": first.bootstrap, "acks": "all", "enable.idempotence": True})
        for number in range(RECORDS):
            value = b"%d" % number

            def delivered(error, _record, value=value):
                error or acknowledged.add(value)

            producer.produce("kept", value, partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
            if number == RECORDS // 2:
                until(lambda: producer.poll(0.01) is None or acknowledged)
                for pid in (second.process.pid, *second.children().values()):
                    os.kill(pid, signal.SIGKILL)
        assert producer.flush(60) == 0
        assert len(acknowledged) == RECORDS
        assert found(first.bootstrap) == acknowledged
    finally:
        second.end()
        assert first.end() == 0


def found(bootstrap):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False})
    values = set()
    try:
        consumer.assign([TopicPartition("kept", place, OFFSET_BEGINNING) for place in range(PARTITIONS)])

        def more():
            values.update(one.value() for one in consumer.consume(1000, 1) if not one.error())
            return len(values) >= RECORDS

        until(more, lambda: f"{len(values)} of {RECORDS} records are there")
        return values
    finally:
        consumer.close()
