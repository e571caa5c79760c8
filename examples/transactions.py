"""Records of two topics seen together or not at all: `python transactions.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.client import Consumer, Producer


def main(bootstrap_servers: str, topic: str) -> None:
    """One transaction that is committed, and one that fails half-way."""
    with Producer(bootstrap_servers, transactional_id=f"shop-{topic}") as producer:
        with producer.transaction():
            producer.send(topic, "a cup")
            producer.send(f"{topic}-bills", "3.50")
        try:
            with producer.transaction():
                producer.send(topic, "a plate")
                raise ValueError("no plates left")
        except ValueError as error:
            print("aborted:", error)

    with Consumer(
        bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, number) for number in consumer.partitions_for(topic)])
        print(*[record.value for record in consumer.poll(timeout_ms=5000)])


if __name__ == "__main__":
    main(*sys.argv[1:])
