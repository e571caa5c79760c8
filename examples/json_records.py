"""Objects instead of bytes, and records that do not parse: `python json_records.py 127.0.0.1:9092 orders`."""

import json
import sys
from typing import Any

from barnabas.client import Consumer, Producer, RecordDeserializationError


def to_json(value: Any) -> bytes:
    """The bytes of an object."""
    return json.dumps(value).encode()


def main(bootstrap_servers: str, topic: str) -> None:
    """Sends two orders with something else between them, and reads them in two ways."""
    with Producer(bootstrap_servers, value_serializer=to_json) as producer:
        producer.send(topic, {"item": "cup", "count": 2}, partition=0)
    with Producer(bootstrap_servers) as producer:
        producer.send(topic, b"not JSON at all", partition=0)
    with Producer(bootstrap_servers, value_serializer=to_json) as producer:
        producer.send(topic, {"item": "plate", "count": 1}, partition=0)

    # By default a record that does not parse is raised, with the position in front of it.
    with Consumer(bootstrap_servers, value_deserializer=json.loads) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        items: list[str] = []
        while len(items) < 2:
            try:
                items += [record.value["item"] for record in consumer.poll(timeout_ms=1000)]
            except RecordDeserializationError as error:
                print("set aside:", error.record.value)
                consumer.seek(error.tp, error.offset + 1)
        print(*items)

    # Left out, with a line in the log; "keep" puts an UnparsedValue into the record instead.
    with Consumer(
        bootstrap_servers, value_deserializer=json.loads, deserialization_errors="skip"
    ) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        print(len(consumer.poll(timeout_ms=5000)), "orders")


if __name__ == "__main__":
    main(*sys.argv[1:])
