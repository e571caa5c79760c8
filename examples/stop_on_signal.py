"""A consumer that ends well: `python stop_on_signal.py 127.0.0.1:9092 orders`, and then Ctrl-C or `kill`."""

import signal
import sys

from barnabas.client import Consumer, WakeupError


def main(bootstrap_servers: str, topic: str) -> None:
    """Reads until a signal comes. Then the group hears at once that this member has gone."""
    with Consumer(bootstrap_servers, group_id=f"until-stopped-{topic}") as consumer:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: consumer.wakeup())
        consumer.subscribe(topic)
        print("reading", flush=True)
        try:
            for record in consumer:
                print(record.value)
        except WakeupError:
            print("stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
