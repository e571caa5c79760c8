"""Reads all of a partition, as the brokers serve it now."""

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

SECONDS = 30


def read(bootstrap, topic):
    """The offset and value of every record of partition 0."""
    own = {"group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **own})
    found, deadline = [], time.monotonic() + SECONDS
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error():
                break
            if message is not None:
                found.append((message.offset(), message.value()))
    finally:
        consumer.close()
    return found
