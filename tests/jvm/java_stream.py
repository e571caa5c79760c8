"""Java's producer with its defaults, which numbers its records; the lines that it prints are the memory."""

import json
import subprocess

import kafka_harness

from serving import die_with_parent

WAIT_S = 120
LINE_BYTES = 100
"""About so long is the line of one record."""
SETTINGS = {
    # The tool's own default gives up at the first error.
    "retries": 2147483647,
    "delivery.timeout.ms": 300_000,
    "max.block.ms": 300_000,
    # It hears of new leaders also while a former one owes it answers.
    "metadata.max.age.ms": 1000,
}


class JavaStream:
    """``kafka-verifiable-producer`` on the topic `java`, at a rate of records a second."""

    topic = "java"

    def __init__(self, folder, bootstrap, rate, settings=None):
        self._log = folder / "java-producer.jsonl"
        path = kafka_harness.write_properties(
            folder / "java-producer.properties", SETTINGS | (settings or {})
        )
        options = [
            "--topic",
            self.topic,
            "--throughput",
            str(rate),
            "--acks",
            "-1",
            "--producer.config",
            path,
        ]
        command = kafka_harness.verifiable_producer(kafka_harness.ZOOKEEPER_ERA)
        with self._log.open("wb") as output, (folder / "java-producer.log").open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, "--bootstrap-server", bootstrap, *options],
                stdout=output,
                stderr=errors,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    @property
    def count(self):
        """How many records were acknowledged, about."""
        return self._log.stat().st_size // LINE_BYTES

    def end(self):
        """Waits until every record was answered."""
        self._process.terminate()
        self._process.wait(WAIT_S)

    def close(self):
        """Kills it."""
        self._process.kill()
        self._process.wait()

    def check(self, found):
        """Everything wrong with what the topic holds: (offset, number) in order, by partition."""
        lines = [json.loads(line) for line in self._log.read_text().splitlines()]
        refused = [each for each in lines if each["name"] == "producer_send_error"]
        if refused:
            yield f"java: {len(refused)} records were refused, {refused[0]} the first"
        held = {(p, offset): number for p, records in enumerate(found) for offset, number in records}
        taken = [each for each in lines if each["name"] == "producer_send_success"]
        lost = [each for each in taken if held.get((each["partition"], each["offset"])) != int(each["value"])]
        if lost or not taken:
            yield f"java: {len(lost)} of {len(taken)} acknowledged records are lost: {lost[:1]}"
        if len(set(held.values())) != len(held):
            twice = len(held) - len(set(held.values()))
            yield f"java: {twice} records are there twice, of an idempotent producer"
        for partition, records in enumerate(found):
            numbers = [number for _, number in records]
            if numbers != sorted(numbers):
                yield f"java-{partition}: the records are out of order"
