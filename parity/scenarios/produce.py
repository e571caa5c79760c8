"""Records written: what is taken, what is refused, and where it went."""

from collections.abc import Callable
from typing import Final

from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from parity.scenarios.batches import START_MS, batch, change, from_producer, with_valid_crc
from parity.scenarios.producer_ids import producer_id
from parity.world import World

GOOD: Final = batch(b"one", b"two")


def of(
    topic: str,
    records: bytes | None,
    *,
    acks: int = -1,
    partition: int = 0,
    transactional_id: str | None = None,
) -> Callable[[int], ProduceRequest]:
    """A request to write to one partition, for any version."""
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )

    def request(version: int) -> ProduceRequest:
        named = transactional_id if version >= 3 else None
        return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data], transactional_id=named)

    return request


def read_back(world: World, topic: str, what: str = "read back", partition: int = 0) -> None:
    """Everything in one partition, to the byte."""
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    world.ask(what, request, 11)


def produce(world: World) -> None:
    """Batches that are right, in every codec and with every acks."""
    world.create("produce", 2)
    for version in (3, 5, 7, 8, 9, 10, 11):
        world.ask("good", of("produce", GOOD), version)
    for version in (0, 2):
        world.ask("magic 2 before its time", of("produce", GOOD, partition=1), version)
    for codec in Codec:
        world.ask(f"in {codec.name}", of("produce", batch(b"a" * 100, b"b" * 100, codec=codec)), 7, 11)
    world.ask("zstd before its time", of("produce", batch(b"a", codec=Codec.ZSTD)), 3, 6)
    world.ask("acks 1", of("produce", GOOD, acks=1), 3, 11)
    world.ask("acks 2", of("produce", GOOD, acks=2), 3, 11)
    world.tell("acks 0", of("produce", GOOD, acks=0)(9), 9)
    world.tell("acks 0 to nowhere", of("produce-nowhere", GOOD, acks=0)(9), 9)
    world.ask("unknown topic", of("produce-nowhere", GOOD))
    world.ask("bad topic", of("a b", GOOD))
    world.ask("unknown partition", of("produce", GOOD, partition=7))
    world.ask("negative partition", of("produce", GOOD, partition=-1))
    world.ask("nothing", of("produce", b""), 3, 11)
    world.ask("null", of("produce", None), 9)
    world.ask("no topics", lambda _: ProduceRequest(acks=1, timeout_ms=1000))
    two = [PartitionProduceData(index=0, records=GOOD), PartitionProduceData(index=9, records=GOOD)]
    topic = TopicProduceData(name="produce", partition_data=two)
    world.ask("one of two", lambda _: ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 3, 11)
    world.create("two-in-sync", min_insync_replicas="2")
    world.ask("not enough in sync for acks 1", of("two-in-sync", GOOD, acks=1), 7)
    world.ask("not enough in sync", of("two-in-sync", GOOD), 3, 7, 11)
    world.create("small-batches", max_message_bytes="100")
    world.ask("too large", of("small-batches", batch(b"a" * 100)), 3, 7, 11)
    read_back(world, "produce")


def bad_batches(world: World) -> None:
    """Batches that lie, one lie at a time."""
    lies = _lies()
    # A partition each: what one side takes shall not move the offsets of the others.
    world.create("bad", len(lies))
    for partition, (what, data) in enumerate(lies.items()):
        world.ask(what, of("bad", data, partition=partition), 3, 8, 11)
        read_back(world, "bad", f"read back {what}", partition)
    world.create("old-refused", message_timestamp_before_max_ms="1000")
    world.ask("too old", of("old-refused", GOOD), 3, 11)


def _lies() -> dict[str, bytes]:
    """What nobody should send, by its name."""
    marker = build_batch([Record(0, START_MS, b"\0\0\0\0", b"\0\0\0\0\0\0", [])], control=True, producer_id=5)
    future = batch(b"x", start_ms=1 << 42)
    return {
        "crc": change(GOOD, 17, ">I", 12345),
        "content": change(GOOD, len(GOOD) - 1, ">B", GOOD[-1] ^ 1),
        "count too high": with_valid_crc(change(GOOD, 57, ">i", 3)),
        "count negative": with_valid_crc(change(GOOD, 57, ">i", -1)),
        "count zero": with_valid_crc(change(GOOD, 57, ">i", 0)),
        "count of the greatest number": with_valid_crc(change(GOOD, 57, ">i", 0x7FFFFFFF)),
        "last offset delta": with_valid_crc(change(GOOD, 23, ">i", 5)),
        "last offset delta negative": with_valid_crc(change(GOOD, 23, ">i", -1)),
        "cut by one byte": GOOD[:-1],
        "header only": GOOD[:61],
        "half a header": GOOD[:30],
        "length short": change(GOOD, 8, ">i", 10),
        "length of 48": change(GOOD, 8, ">i", 48),
        "length zero": change(GOOD, 8, ">i", 0),
        "length negative": change(GOOD, 8, ">i", -1),
        "length of the greatest number": change(GOOD, 8, ">i", 0x7FFFFFFF),
        "two batches": GOOD + GOOD,
        "something behind": GOOD + b"rest",
        "magic 0": change(GOOD, 16, ">b", 0),
        "magic 1": change(GOOD, 16, ">b", 1),
        "magic 3": change(GOOD, 16, ">b", 3),
        "magic negative": change(GOOD, 16, ">b", -1),
        "codec of no kind": with_valid_crc(change(GOOD, 21, ">h", 7)),
        "gzip that is none": with_valid_crc(change(GOOD, 21, ">h", 1)),
        "zstd that is none": with_valid_crc(change(GOOD, 21, ">h", 4)),
        "marker of a client": marker,
        "base offset": change(GOOD, 0, ">q", 1000),
        "base offset negative": change(GOOD, 0, ">q", -5),
        "leader epoch": change(GOOD, 12, ">i", 77),
        "log append time by a client": with_valid_crc(change(GOOD, 21, ">h", 8)),
        "max timestamp wrong": with_valid_crc(change(GOOD, 35, ">q", 5)),
        "far future": future,
        "no timestamp": batch(b"x", start_ms=-1),
        "unused attributes": with_valid_crc(change(GOOD, 21, ">h", 0x100)),
        "too large": batch(b"x" * 300_000),
        "large in small": batch(b"x" * 300_000, codec=Codec.GZIP),
        "noise": b"\x5a" * 200,
    }


def idempotent(world: World) -> None:
    """Sequence numbers: duplicates are known again, gaps and old epochs are refused."""
    world.create("idempotent")
    pid = producer_id(world)
    for what, data in {
        "first": from_producer(pid, 0, 0, b"0", b"1"),
        "duplicate of the first": from_producer(pid, 0, 0, b"0", b"1"),
        "second": from_producer(pid, 0, 2, b"2"),
        "gap": from_producer(pid, 0, 9, b"9"),
        "part of what was there": from_producer(pid, 0, 1, b"1"),
        "next epoch, not from zero": from_producer(pid, 1, 5, b"5"),
        "next epoch": from_producer(pid, 1, 0, b"0"),
        "old epoch": from_producer(pid, 0, 3, b"3"),
        "unknown producer, not from zero": from_producer(pid + 1000, 0, 5, b"x"),
        "transactional": from_producer(pid, 1, 1, b"t", transactional=True),
        "id without epoch": from_producer(pid, -1, 0, b"x"),
        "no sequence": from_producer(pid, 1, -1, b"x"),
        "six more": from_producer(pid, 1, 1, *[b"m"] * 6),
    }.items():
        world.ask(what, of("idempotent", data), 11)
    read_back(world, "idempotent")
    world.create("in-no-transaction")
    stray = from_producer(pid, 1, 0, b"t", transactional=True)
    world.ask("transactional with an id", of("in-no-transaction", stray, transactional_id="nobody"), 3, 11)


def compacted(world: World) -> None:
    """A compacted topic wants keys."""
    world.create("compacted", cleanup_policy="compact")
    world.ask("with keys", of("compacted", GOOD), 3, 11)
    world.ask("without keys", of("compacted", batch(b"a", b"b", key=None)), 3, 8, 11)
    world.ask("without keys, in gzip", of("compacted", batch(b"a", b"b", key=None, codec=Codec.GZIP)), 3, 11)
    read_back(world, "compacted")


def append_time(world: World) -> None:
    """Topics that give records a time, a codec, or a limit of their own."""
    world.create("append-time", message_timestamp_type="LogAppendTime")
    world.ask("stamped", of("append-time", GOOD), 3, 11)
    world.ask("stamped in lz4", of("append-time", batch(b"a" * 50, codec=Codec.LZ4)), 11)
    read_back(world, "append-time")
    world.create("own-limit", max_message_bytes="100")
    world.ask("over the topic's limit", of("own-limit", batch(b"x" * 200)), 3, 11)
