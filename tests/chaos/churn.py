"""Groups commit without a pause, and `__consumer_offsets` stays bounded.

    python tests/chaos/churn.py --minutes 60 [--groups 20] [--bound-mb 48]

The offsets of a few groups are a few kilobytes; what is written in an hour is hundreds of megabytes. Once a
second the bytes of the partition are measured: all of its files, also those that wait for their removal. In
the end the broker starts again and knows the last offset of every group.
"""

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from confluent_kafka import Consumer, KafkaException, TopicPartition

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from serving import ServeProcess

PARTITIONS = 10
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 1 << 20,
    "log.cleaner.backoff.ms": 1000,
    "log.initial.task.delay.ms": 0,
    "log.segment.delete.delay.ms": 1000,
}


class Committer:
    """One group that commits rising offsets of all partitions, as fast as it is answered."""

    def __init__(self, bootstrap, group):
        self.group = group
        self.count = 0
        """The last offset that was acknowledged."""
        self._stop = threading.Event()
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.is_set():
            offsets = [TopicPartition("t", each, self.count + 1) for each in range(PARTITIONS)]
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                self._stop.wait(0.1)
            else:
                self.count += 1

    def end(self):
        self._stop.set()
        self._thread.join()
        self._consumer.close()


def bytes_of(directory):
    """All files of the partition, as much as they take on the disk."""
    total = 0
    for path in directory.glob("*"):
        with contextlib.suppress(FileNotFoundError):  # removed in this moment
            total += path.stat().st_blocks * 512
    return total


def known_offsets(bootstrap, group):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        found = consumer.committed([TopicPartition("t", each) for each in range(PARTITIONS)], timeout=60)
        return {each.offset for each in found}
    finally:
        consumer.close()


def churn(folder, minutes, groups, bound):
    """What is wrong, a line each."""
    options = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    server = ServeProcess(folder / "data", *options)
    server.wait_until_ready(60)
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t", PARTITIONS, 1))
    committers = [Committer(server.bootstrap, f"group-{number}") for number in range(groups)]
    directory, largest, began = folder / "data" / "__consumer_offsets-0", 0, time.monotonic()
    next_line = began + 60
    while (now := time.monotonic()) < began + 60 * minutes and server.runs:
        time.sleep(1)
        largest = max(largest, bytes_of(directory))
        if now >= next_line:
            next_line += 60
            commits = sum(each.count for each in committers)
            sys.stdout.write(
                f"{(now - began) / 60:.0f} min: {commits} commits, {bytes_of(directory) / 2**20:.1f} MiB "
                f"now, {largest / 2**20:.1f} at most\n"
            )
            sys.stdout.flush()
    for each in committers:
        each.end()
    written = sum(each.count for each in committers) * PARTITIONS * 100
    if largest > bound:
        yield f"__consumer_offsets grew to {largest} bytes, {bound} are allowed"
    if written < 4 * bound:
        yield f"no more than {written} bytes were written: that says nothing"
    if code := server.stop():
        yield f"the broker ended with {code}"
    again = ServeProcess(folder / "data", *options)
    again.wait_until_ready(60)
    for each in committers:
        found = known_offsets(again.bootstrap, each.group)
        if found != {each.count}:
            yield f"{each.group} is at {found}, {each.count} was acknowledged"
    again.stop()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--bound-mb", type=float, default=48)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        problems = list(churn(Path(folder), given.minutes, given.groups, int(given.bound_mb * 2**20)))
    sys.stdout.write(
        "".join(f"{problem}\n" for problem in problems)
        or "every offset is there, and the log stayed bounded\n"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
