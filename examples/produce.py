"""Records with keys and headers into a topic: `python produce.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.client import Producer, RecordMetadata


def told(error: Exception | None, stored: RecordMetadata | None) -> None:
    """Is called for each record, when it is stored or will not be."""
    print(f"lost: {error}" if stored is None else f"stored at {stored.partition}:{stored.offset}")


def main(bootstrap_servers: str, topic: str) -> None:
    """Sends a few records in each way there is to hear of them."""
    with Producer(bootstrap_servers, compression_type="zstd") as producer:
        # Records of one key go to one partition, in order.
        delivery = producer.send(topic, b"a cup", key=b"ada", headers={"shop": b"north"})
        print("first at offset", delivery.result(timeout=10).offset)
        producer.send(topic, b"a plate", key=b"ada", on_delivery=told)
        for number in range(1000):
            producer.send(topic, f"order {number}")
        # Waits for all of it, and raises for what was not stored and nobody has looked at. So does the end of
        # the block.
        producer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
