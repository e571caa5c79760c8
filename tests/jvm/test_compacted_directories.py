"""One directory, cleaned by Kafka and by us: the same batches are left, and each broker reads what the other
has cleaned.

It is cleaned several times, with more records in between, of transactional producers that have committed and
aborted before: what an earlier pass has left behind (markers, delete horizons, where the dirty part begins)
is judged by the next one.
"""

import re
import shutil
import time
from pathlib import Path

import kafka_harness
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from kazoo.client import KazooClient

from barnabas.admin import Admin, ConfigResource, NewTopic
from barnabas.core.ids import TRANSACTION_STATE_TOPIC
from barnabas.core.ids import TopicPartition as Tp
from barnabas.core.offload import InPlace
from barnabas.log import gapless
from barnabas.log.cleaner.log_cleaner import LogCleaner
from barnabas.log.cleaner.settings import CleanerSettings
from barnabas.log.config import LogConfig
from barnabas.log.filesystem import OsFilesystem
from barnabas.log.flush import InPlaceSyncer
from barnabas.log.manager import LogManager
from barnabas.records.batch import batch_headers, decode_batch
from standing_clock import Clock

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

TOPIC = "compacted"
COMPACTED = (TOPIC, TRANSACTION_STATE_TOPIC)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RETENTION_MS = 1000
"""A pass later the horizon of every tombstone is over: a start of Kafka takes longer."""
CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "16384",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(RETENTION_MS),
}
PASSES = 3
SETTINGS = {
    "log.cleaner.enable": "false",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "transaction.state.log.num.partitions": 1,
    # So small that the states of a few transactions are several segments.
    "transaction.state.log.segment.bytes": 2048,
    "offsets.topic.num.partitions": 1,
}
SECONDS = 40


def produce(bootstrap: str) -> None:
    """Batches of each codec, tombstones, and transactions of both ends, in several segments."""
    for codec in CODECS:
        plain = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5})
        own = {"transactional.id": codec, "compression.type": codec}
        transactional = Producer({"bootstrap.servers": bootstrap, **own})
        transactional.init_transactions(20)
        for number in range(400):
            value = None if number % 11 == 0 else f"{codec} {number} ".encode() * 12
            headers = [("h", codec.encode())] if number % 5 == 0 else []
            plain.produce(TOPIC, value, key=str(number * 7 % 60), headers=headers, partition=0)
        assert plain.flush(20) == 0
        for commits in (True, False, True):
            transactional.begin_transaction()
            for number in range(30):
                value = f"{codec} in a transaction {commits}"
                transactional.produce(TOPIC, value, key=str(number * 3 % 90), partition=0)
            (transactional.commit_transaction if commits else transactional.abort_transaction)(20)


def produce_again_and_again(bootstrap: str, count: int) -> None:
    """A few keys, by a producer without an id: nothing keeps the last batches of a segment."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
    for number in range(count):
        producer.produce(TOPIC, b"%d " % number * 40, key=b"%d" % (number % 50), partition=0)
        if not number % 50:
            producer.flush(20)
    assert producer.flush(20) == 0


def produce_more(bootstrap: str, number: int) -> set[bytes]:
    """The same producers abort and then delete keys that earlier passes have cleaned;
    the keys that are gone now.
    """
    gone = set()
    # A batch larger than a segment is refused.
    filler = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.num.messages": 10})
    for codec in CODECS:
        own = {"transactional.id": codec, "compression.type": codec}
        transactional = Producer({"bootstrap.servers": bootstrap, **own})
        transactional.init_transactions(20)
        for commits in (False, True):
            transactional.begin_transaction()
            for place in range(5):
                key = f"{codec} {place + 5 * number}"
                transactional.produce(TOPIC, None if commits else "aborted", key=key, partition=0)
                transactional.produce(TOPIC, "stays", key=f"{codec} {place + 5 * number + 5}", partition=0)
                gone.add(key.encode())
            assert transactional.flush(20) == 0
            # A batch of its own, of which the next producer leaves nothing.
            transactional.produce(TOPIC, codec, key="all write it", partition=0)
            (transactional.commit_transaction if commits else transactional.abort_transaction)(20)
        for place in range(100):
            filler.produce(TOPIC, "filler " * 30, key=f"filler {place % 10}", partition=0)
        assert filler.flush(20) == 0
    return gone


def consume(bootstrap: str) -> list[tuple[int, bytes, bytes | None, int]]:
    """What a read_committed consumer gets."""
    settings = {"group.id": "g", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "isolation.level": "read_committed", **settings})
    found, deadline = [], time.monotonic() + SECONDS
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                break
            found.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found


def batches(data: Path, partition: str) -> list[tuple]:
    """All batches in a partition's directory, with their records, and whether they have a delete horizon."""
    found = []
    for segment in sorted((data / partition).glob("*.log")):
        held = segment.read_bytes()
        for header in batch_headers(held):
            records = decode_batch(held, header.position)
            times = (header.codec, header.max_timestamp, header.delete_horizon_ms is not None)
            producer = (header.producer_id, header.producer_epoch, header.base_sequence)
            kind = (header.is_control, header.is_transactional, header.leader_epoch)
            found.append((header.base_offset, header.last_offset, producer, kind, times, records))
    return found


def opened_by_us(data: Path, clock: Clock, config: LogConfig) -> LogManager:
    """Our logs in a directory, recovered where that is needed."""
    logs = LogManager(
        [str(data)],
        filesystem=OsFilesystem(),
        clock=clock,
        offload=InPlace(),
        log_config=lambda _topic: config,
    )
    meta = logs.open_directories()
    logs.start(broker_id=meta.broker_id, cluster_id=meta.cluster_id).result()
    return logs


def cleaned_by_us(data: Path) -> LogManager:
    """Cleans all that can be cleaned, as the broker's cleaner does."""
    clock, disk = Clock(), OsFilesystem()
    clock.now_ms = time.time() * 1000
    config = LogConfig(
        cleanup_policy=("compact",),
        segment_bytes=16384,
        min_cleanable_dirty_ratio=0.01,
        delete_retention_ms=RETENTION_MS,
        file_delete_delay_ms=0,
    )
    logs = opened_by_us(data, clock, config)
    offload = InPlace()
    offload.close = lambda: None
    cleaner = LogCleaner(
        logs,
        clock,
        disk=disk,
        syncer=InPlaceSyncer(),
        new_offload=lambda: offload,
        settings=CleanerSettings(),
    )
    cleaner.startup()
    clock.advance(100)
    cleaner.shutdown()
    return logs


def wait_until_cleaned(data: Path, topic: str = TOPIC) -> None:
    """Kafka's cleaner has been through: its checkpoint is at the last closed segment."""
    last = max(int(path.stem) for path in (data / f"{topic}-0").glob("*.log"))
    deadline = time.monotonic() + SECONDS
    while f"{topic} 0 {last}\n" not in (data / "cleaner-offset-checkpoint").read_text():
        assert time.monotonic() < deadline, (data / "cleaner-offset-checkpoint").read_text()
        time.sleep(0.1)


def test_both_leave_the_same_and_read_what_the_other_left(zookeeper, server_folder, kafka_tool):
    folder = server_folder / "compaction"
    folder.mkdir()
    data, ours = folder / "data", folder / "ours"
    gone: set[bytes] = set()
    emptied: list[tuple] = []
    for number in range(PASSES):
        server = kafka_harness.start_broker(folder, f"{zookeeper}/compaction", settings=SETTINGS)
        try:
            bootstrap = server.wait_until_listening().bootstrap
            if number == 0:
                # Ours asks again while the broker does not know its controller yet.
                with Admin(bootstrap) as admin:
                    admin.topics.create([NewTopic(TOPIC, 1, configs=CONFIG)])
                produce(bootstrap)
            gone |= produce_more(bootstrap, number)
        finally:
            server.stop()
        shutil.rmtree(ours, ignore_errors=True)
        shutil.copytree(data, ours)
        before = {topic: batches(data, f"{topic}-0") for topic in COMPACTED}

        server = kafka_harness.start_broker(
            folder, f"{zookeeper}/compaction", settings={**SETTINGS, "log.cleaner.enable": "true"}
        )
        try:
            bootstrap = server.wait_until_listening().bootstrap
            for topic in COMPACTED:
                wait_until_cleaned(data, topic)
            theirs = consume(bootstrap)
        finally:
            # what is only killed is registered until its session ends, and keeps the next one out
            server.stop()
        logs = cleaned_by_us(ours)
        logs.shutdown()

        for topic in COMPACTED:
            assert batches(ours, f"{topic}-0") == batches(data, f"{topic}-0"), f"pass {number}"
            assert len(batches(ours, f"{topic}-0")) < len(before[topic])
        emptied += [found for found in batches(ours, f"{TOPIC}-0") if not found[-1]]
        values = {key: value for _, key, value, _ in theirs}
        assert {key for key in gone if values.get(key) is not None} == set()
    assert emptied, "no producer's batch was emptied"

    # What Kafka has cleaned, our log reads whole.
    logs = cleaned_by_us(data)
    log = logs.get(Tp(TOPIC, 0))
    offset, read = log.log_start_offset, []
    while len(result := log.read(offset, 1 << 20, min_one_message=True)):
        held = bytes(result.records.read())
        read += [record for header in batch_headers(held) for record in decode_batch(held, header.position)]
        offset = list(batch_headers(held))[-1].next_offset
    assert read == [record for *_, records in batches(data, f"{TOPIC}-0") for record in records]
    logs.shutdown()

    # What we have cleaned, Kafka's tools find sound, and a broker of Kafka serves the same.
    files = ",".join(map(str, (ours / f"{TOPIC}-0").glob("*.*index")))
    checked = kafka_tool("kafka-dump-log", "--files", files, "--index-sanity-check")
    assert not re.search("rror|xception|Invalid", checked.stdout + checked.stderr), checked.stdout[-2000:]
    shutil.rmtree(data)
    shutil.copytree(ours, data)
    server = kafka_harness.start_broker(folder, f"{zookeeper}/compaction", settings=SETTINGS)
    try:
        assert consume(server.wait_until_listening().bootstrap) == theirs
    finally:
        server.kill()
    assert [line for line in server.tail().splitlines() if "ERROR" in line or "orrupt" in line] == []


def wait_until_gone(address: str) -> None:
    """The session of a broker that was killed is over: it may come back."""
    client = KazooClient(address)
    client.start(SECONDS)
    try:
        deadline = time.monotonic() + SECONDS
        while client.get_children("/brokers/ids"):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        client.stop()
        client.close()


def values(found: list[tuple]) -> list[tuple]:
    return [record for *_, records in found for record in records]


def test_a_recovery_keeps_what_lies_behind_the_gaps_that_the_other_has_left(zookeeper, server_folder):
    """Compacted, altered to delete, killed:
    ours dropped all that Kafka had kept, and what ours has cleaned Kafka keeps.
    """
    folder, own = server_folder / "gaps", f"{zookeeper}/gaps"
    folder.mkdir()
    data, partition = folder / "data", f"{TOPIC}-0"
    settings = {**SETTINGS, "log.cleaner.enable": "true", "zookeeper.session.timeout.ms": 6000}
    server = kafka_harness.start_broker(folder, own, settings=settings)
    try:
        bootstrap = server.wait_until_listening().bootstrap
        with Admin(bootstrap) as admin:
            admin.topics.create([NewTopic(TOPIC, 1, configs=CONFIG)])
            for _ in range(2):  # what the first cleaning has left the second one takes away
                produce_again_and_again(bootstrap, 1500)
                wait_until_cleaned(data)
            admin.configs.alter({ConfigResource.topic(TOPIC): {"cleanup.policy": "delete"}})
            produce_again_and_again(bootstrap, 100)
        theirs = consume(bootstrap)
    finally:
        server.kill()
    left = batches(data, partition)
    bases = [int(path.stem) for path in sorted((data / partition).glob("*.log"))]
    assert any(base not in {found[1] + 1 for found in left} for base in bases[1:]), "no gap between segments"

    # All of it is scanned: nothing says what was synced, or what was cleaned.
    for name in ("recovery-point", "cleaner"):
        (data / f"{name}-offset-checkpoint").unlink(missing_ok=True)
    logs = opened_by_us(data, Clock(), LogConfig())
    log = logs.get(Tp(TOPIC, 0))
    assert (log.log_start_offset, log.log_end_offset) == (0, left[-1][1] + 1)
    assert batches(data, partition) == left
    logs.shutdown(clean=False)

    # Our cleaner leaves gaps of its own. A note that there are none ends with Kafka's first look at the
    # directory.
    cleaned_by_us(data).shutdown(clean=False)
    ours = values(batches(data, partition))
    note = data / partition / gapless.FILE_NAME
    note.touch()
    wait_until_gone(own)
    server = kafka_harness.start_broker(folder, own, settings=settings)
    try:
        again = consume(server.wait_until_listening().bootstrap)
    finally:
        server.kill()
    assert {key: value for _, key, value, _ in again} == {key: value for _, key, value, _ in theirs}
    assert not note.exists()
    assert values(batches(data, partition)) == ours
