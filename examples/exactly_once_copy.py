"""Read, change, write, each record once: `python exactly_once_copy.py 127.0.0.1:9092 orders upper-orders`.

The offsets are committed with the records, in one transaction: a copy that is killed leaves neither.
"""

import sys

from barnabas.client import AbortableTransactionError, Consumer, Producer, TopicPartition


def main(bootstrap_servers: str, source: str, target: str, idle_polls: int = 3) -> None:
    """Copies until there was nothing new for some polls."""
    with (
        Producer(bootstrap_servers, transactional_id=f"copy-{source}") as producer,
        Consumer(
            bootstrap_servers,
            group_id=f"copy-{source}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer,
    ):
        # A copy that was killed has left its transaction open: it is ended now.
        producer.init_transactions()
        consumer.subscribe(source)
        while idle_polls:
            records = consumer.poll(timeout_ms=1000)
            if not records:
                idle_polls -= 1
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(target, record.value.upper(), key=record.key)
                    behind = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                    producer.send_offsets(behind, consumer.group_metadata())
                print("copied", len(records))
            except AbortableTransactionError as error:
                # The group has given these partitions to another one, say: back to what is committed.
                print("once more:", error)
                for tp, committed in consumer.committed(consumer.assignment()).items():
                    consumer.seek(tp, committed.offset if committed else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3])
