"""What can go wrong, and where it is said: `python errors.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.client import (
    BarnabasError,
    ClientTimeoutError,
    ConfigError,
    DeliveryError,
    InvalidRecordError,
    Producer,
    RecordTooLargeError,
)


def main(bootstrap_servers: str, topic: str) -> None:
    """Makes one mistake after the other; all errors are a BarnabasError."""
    # At once, and by name: an option that is wrong.
    try:
        Producer({"bootstrap.servers": bootstrap_servers, "linger": 5})
    except ConfigError as error:
        print(error)

    # When it starts: nobody is there.
    try:
        with Producer("127.0.0.1:1", max_block_ms=500):
            pass
    except ClientTimeoutError as error:
        print(error)

    with Producer(bootstrap_servers, delivery_timeout_ms=20_000) as producer:
        # At once: a record that cannot be sent as it is. Nothing of it stays behind.
        for topic_name, value in ((topic, "x" * 2_000_000), ("no such/topic", "x")):
            try:
                producer.send(topic_name, value)
            except RecordTooLargeError as error:
                print(error)
            except InvalidRecordError as error:
                print(error)

        # Later: a broker refuses it, or its time is over.
        delivery = producer.send(topic, "x")
        try:
            print("stored at", delivery.result(timeout=30).offset)
        except DeliveryError as error:
            print("refused:", error.code, "worth another try:", error.retriable)
        except BarnabasError as error:
            print("not known:", error)


if __name__ == "__main__":
    main(*sys.argv[1:])
