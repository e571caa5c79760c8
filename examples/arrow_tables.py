"""Tables into a topic and out of it: `python arrow_tables.py 127.0.0.1:9092 flights`.

Needs `barnabas[arrow]`; `to_pandas` also pandas, `to_polars` also polars.
"""

import sys

import pyarrow as pa

from barnabas.client import Consumer, Producer


def main(bootstrap_servers: str, topic: str) -> None:
    """Sends a table, a record a row, and reads the topic as one."""
    flights = pa.table(
        {
            "tail": [f"N{number % 9}" for number in range(10_000)],
            "delay": [str(number % 60) for number in range(10_000)],
        }
    )
    with Producer(bootstrap_servers) as producer:
        batches = producer.send_arrow(topic, flights, key="tail", value="delay")
        print(flights.num_rows, "rows in", len(batches), "batches")

    with Consumer(bootstrap_servers) as consumer:
        consumer.assign([(topic, number) for number in consumer.partitions_for(topic)])
        consumer.seek_to_beginning()
        table = consumer.to_arrow()
        print(table.num_rows, "rows with", *table.column_names)
        consumer.seek_to_beginning()
        rows = sum(batch.num_rows for batch in consumer.arrow_batches(to_end=True))
        print(rows, "rows, a batch at a time")


if __name__ == "__main__":
    main(*sys.argv[1:])
