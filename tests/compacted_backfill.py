"""A compacted topic whose log directory was copied between two passes of a cleaner, and pipelines that read
the copy first and then go on with the brokers: what must come of it, whichever broker has compacted.
"""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from deltalake import DeltaTable
from rich.console import Console

from barnabas.admin import Admin, NewTopic
from barnabas.core.ids import TopicPartition as Tp
from barnabas.records.batch import batch_headers, decode_batch
from barnabas.spark.pipeline.file.settings import load
from barnabas.spark.pipeline.running import supervisor
from waiting import until

Records = dict[int, tuple[str, int | None]]
"""Key and number of each, by offset."""
TOPIC = "compacted-backfill"
CONFIGS = {
    "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.01",
    "max.message.bytes": "16000",
}  # fmt: skip
KEYS, SECONDS = 40, 40
PIPELINE = """
checkpoint = "{name}.checkpoint"
[backfill]
logs = "copy"
[source]
kafka.bootstrap.servers = "{broker}"
subscribe = "{topic}"
maxOffsetsPerTrigger = 1600
[format]
kind = "json"
schema = "n INT"
key = {{ kind = "text", schema = "id STRING" }}
[transform]
sql = "{sql}"
[sink]
kind = "delta"
path = "{name}"
{more}
[restart]
attempts = 0
"""
GROWS = "SELECT key.id, value.n, offset FROM source"
CHANGES = "SELECT key.id, value.n, _change FROM source"


def produce(broker: str, first: int, count: int, *, tombstones: bool = True) -> None:
    """Small batches of a few keys, without a producer's id, which would keep the last batches of a segment;
    one in eleven is a tombstone.
    """
    producer = Producer({"bootstrap.servers": broker, "linger.ms": 2, "acks": "all"})
    for number in range(first, first + count):
        value = (
            None
            if tombstones and number % 11 == 0
            else json.dumps({"n": number, "filler": "x" * 90}).encode()
        )
        producer.produce(TOPIC, value, key=f"k{number * 7 % KEYS}", partition=0)
        if not number % 40:
            producer.flush()
    assert producer.flush(SECONDS) == 0


def wait_until_cleaned(data: Path) -> None:
    """The cleaner has been through all but the last segment, and says so."""

    def cleaned() -> bool:
        last = max(int(path.stem) for path in (data / f"{TOPIC}-0").glob("*.log"))
        note = data / "cleaner-offset-checkpoint"
        return note.exists() and f"{TOPIC} 0 {last}\n" in note.read_text()

    until(cleaned, "the cleaner did not come to the last segment", SECONDS)


def consumed(broker: str) -> Records:
    """What a consumer gets, by offset."""
    settings = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer, found = Consumer({"bootstrap.servers": broker, **settings}), {}
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while (message := consumer.poll(SECONDS)) is not None and not message.error():
            found[message.offset()] = parsed(message.key(), message.value())
    finally:
        consumer.close()
    return found


def parsed(key: bytes, value: bytes | None) -> tuple[str, int | None]:
    return key.decode(), None if value is None else json.loads(value)["n"]


def copied_whole(data: Path, copy: Path) -> bool:
    """Whether no file went away meanwhile."""
    shutil.rmtree(copy, ignore_errors=True)
    try:
        shutil.copytree(
            data, copy, ignore=shutil.ignore_patterns("*.deleted", "*.cleaned", "*.swap", "*.sessions")
        )
    except shutil.Error:
        return False
    return True


def copied(copy: Path) -> tuple[Records, int, int]:
    """What the copy has by offset, the offset behind its last batch, and how many holes there are between
    its segments.
    """
    found, at, holes = {}, 0, 0
    for segment in sorted((copy / f"{TOPIC}-0").glob("*.log")):
        held, base = segment.read_bytes(), int(segment.stem)
        holes += base > at
        for header in batch_headers(held):
            for record in decode_batch(held, header.position):
                found[record.offset] = parsed(record.key, record.value)
            at = header.last_offset + 1
    return found, at, holes


class Backfilled:
    """The two pipelines: one that has each record, and one that has the newest of each key."""

    def __init__(self, spark, broker: str, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder

    def run(self) -> None:
        for name, sql, more in (
            ("grows", GROWS, ""),
            ("changes", CHANGES, 'mode = "merge"\nkey = ["id"]'),
        ):
            file = self.folder / f"{name}.toml"
            file.write_text(PIPELINE.format(name=name, broker=self.broker, topic=TOPIC, sql=sql, more=more))
            supervisor.run(self.spark, load(file), Console(file=io.StringIO()))

    def rows(self, name: str) -> list[dict]:
        return DeltaTable(str(self.folder / name)).to_pyarrow_table().to_pylist()

    def require(self, records: Records) -> None:
        """The tables are what these records say, by offset."""
        grown = self.rows("grows")
        assert max(Counter(row["offset"] for row in grown).values()) == 1, "a record is there twice"
        assert {row["offset"]: (row["id"], row["n"]) for row in grown} == records
        self.require_newest(records)

    def require_newest(self, records: Records) -> None:
        """The table of keys is what the newest of these records say."""
        newest = {key: value for _, (key, value) in sorted(records.items())}
        changed = self.rows("changes")
        assert len(changed) == len({row["id"] for row in changed}), "a key is there twice"
        assert {row["id"]: row["n"] for row in changed} == {k: v for k, v in newest.items() if v is not None}


def check(spark, broker: str, data: Path, folder: Path, policy: str) -> None:
    """Reads a copy that was compacted once, then the brokers, which have compacted again since, and at last
    what has come meanwhile. With `delete` in the policy the brokers begin behind most of the copy.
    """
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(TOPIC, partitions=1, configs={**CONFIGS, "cleanup.policy": policy})])
        for first in (0, 1500):  # what the first pass has left the second one takes away
            produce(broker, first, 1500)
            wait_until_cleaned(data)
        produce(broker, 3000, 200)
        until(lambda: copied_whole(data, folder / "copy"), "the cleaner does not rest")
        older, end, holes = copied(folder / "copy")
        assert holes, "the cleaner has left no hole between two segments"
        assert len(older) < end / 2
        produce(broker, 3200, 1500)
        wait_until_cleaned(data)
        if "delete" in policy:
            admin.partitions.delete_records({Tp(TOPIC, 0): end - 50})
    world = Backfilled(spark, broker, folder)
    now = consumed(broker)
    world.run()
    world.require({**older, **{offset: row for offset, row in now.items() if offset >= end}})

    world.require_newest(now)

    before = {row["offset"] for row in world.rows("grows")}
    produce(broker, 4700, 300, tombstones=False)
    world.run()  # beside the cleaner, which may take some of them away
    later = consumed(broker)
    grown = {row["offset"]: (row["id"], row["n"]) for row in world.rows("grows")}
    assert min(grown.keys() - before) >= 4700
    assert {offset for offset in later if offset >= 4700} <= grown.keys()
    world.require(grown)
    world.require_newest(later)
