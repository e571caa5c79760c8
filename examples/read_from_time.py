"""What came in the last hour, without a group: `python read_from_time.py 127.0.0.1:9092 orders`."""

import sys
from datetime import UTC, datetime, timedelta

from barnabas.client import Consumer


def main(bootstrap_servers: str, topic: str) -> None:
    """Reads every partition from a time to the end that it has now."""
    since = datetime.now(UTC) - timedelta(hours=1)
    with Consumer(bootstrap_servers) as consumer:
        partitions = [(topic, number) for number in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_time(since)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for record in consumer.poll(timeout_ms=1000):
                at = datetime.fromtimestamp(record.timestamp / 1000, UTC)
                print(f"{at:%H:%M:%S}", record.value)


if __name__ == "__main__":
    main(*sys.argv[1:])
