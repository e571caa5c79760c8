"""A member of a group that commits what it has worked on: `python consume.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.client import Consumer, TopicPartition


def given(partitions: list[TopicPartition]) -> None:
    """Is called when the group gives this member partitions."""
    print("now reading", *partitions)


def main(bootstrap_servers: str, topic: str, polls: int = 10) -> None:
    """Reads for some polls. Start it twice, and the two share the partitions."""
    with Consumer(
        bootstrap_servers,
        group_id=f"readers-of-{topic}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.subscribe(topic, on_assigned=given)
        for _ in range(polls):
            records = consumer.poll(timeout_ms=1000)
            for record in records:
                print(record.partition, record.offset, record.key, record.value)
            if records:
                consumer.commit()  # of all that the polls have given


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
