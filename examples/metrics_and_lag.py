"""What a client has done, and how far behind it is: `python metrics_and_lag.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.client import Consumer, Producer


def main(bootstrap_servers: str, topic: str) -> None:
    """Writes a hundred records, reads ten of them, and says so. The names are those of Java's clients."""
    with Producer(bootstrap_servers) as producer:
        for number in range(100):
            producer.send(topic, str(number), partition=0)
        producer.flush()
        done = producer.metrics()["producer-metrics"]
        print(f"{done['record-send-total']:.0f} records, {done['request-latency-avg']:.1f} ms a request")

    with Consumer(bootstrap_servers, max_poll_records=10) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        while not consumer.poll(timeout_ms=1000):
            pass
        lag = consumer.metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]
        print(f"{lag:.0f} records behind")


if __name__ == "__main__":
    main(*sys.argv[1:])
