"""TLS and passwords, from the file that the tools read: `python security.py client.properties orders`.

`barnabas serve --secure` writes such a file. It has Kafka's own keys, so one that Java's clients read will
do: `security.protocol`, `sasl.mechanism`, `sasl.jaas.config`, `ssl.truststore.location`.
"""

import sys
from pathlib import Path

from barnabas.client import Consumer, Producer


def options(file: str) -> dict[str, str]:
    """The keys and values of a file of properties (without lines that go on, which few have)."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def main(file: str, topic: str) -> None:
    """Writes a record and reads it, as the user that the file names."""
    given = options(file)
    with Producer(given) as producer:
        stored = producer.send_and_wait(topic, b"in private")
    with Consumer(given) as consumer:
        consumer.assign([(topic, stored.partition)])
        consumer.seek((topic, stored.partition), stored.offset)
        print(consumer.poll(timeout_ms=5000)[0].value)


if __name__ == "__main__":
    main(*sys.argv[1:])
