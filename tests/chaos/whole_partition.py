"""Reads all of a partition, as the brokers serve it now."""

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

SECONDS = 30


def read(bootstrap, topic):
    """The offset and value of every record of partition 0; fails where its end is not reached in time."""
    own = {"group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **own})
    found, deadline = [], time.monotonic() + SECONDS
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            error = None if message is None else message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return found
            # Any other error passes: a broker that has just started does not lead yet.
            if message is not None and error is None:
                found.append((message.offset(), message.value()))
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic} was not reached: {len(found)} records in {SECONDS} s")
