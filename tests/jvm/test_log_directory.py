"""Kafka's own eyes on a directory that our broker wrote:
`kafka-dump-log`, segments, indexes and snapshots.
"""

import contextlib
import re
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kafka import KafkaProducer
from topics_there import create_topics

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS_PER_CODEC = 400
TIMES = [1_600_000_000_000 + (n * 7919 % 1000) * 1000 for n in range(RECORDS_PER_CODEC)]  # out of order

COMPLAINTS = re.compile(
    r"mismatch|Mismatch|Misses|Index timestamp|Indexed offset|"
    r"non-consecutive|isvalid: false|Invalid|exception",
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory, serve) -> Path:
    """The directory of partition `dump-0`: many small segments, every codec, an idempotent producer."""
    server = serve(tmp_path_factory.mktemp("dump") / "data")
    broker = server.wait_until_ready()
    config = {"segment.bytes": "16384", "index.interval.bytes": "512", "retention.ms": "-1"}
    create_topics(broker.bootstrap, NewTopic("dump", 1, 1, config=config))
    for codec in CODECS:
        _produce(broker.bootstrap, codec)
    assert server.stop() == 0
    return broker.data_dir / "dump-0"


def _produce(bootstrap: str, codec: str) -> None:
    """With kafka-python: librdkafka sends no lz4 to a broker without consumer groups."""
    compression = None if codec == "none" else codec
    config = {"compression_type": compression, "batch_size": 2000, "linger_ms": 5, "enable_idempotence": True}
    with contextlib.closing(KafkaProducer(bootstrap_servers=bootstrap, **config)) as producer:
        for number, timestamp in enumerate(TIMES):
            producer.send(
                "dump",
                key=f"{codec}-{number}".encode(),
                value=bytes([number % 256]) * (number % 300),
                headers=[("codec", codec.encode())] if number % 3 else [],
                timestamp_ms=timestamp,
            )
        producer.flush(60)


@pytest.fixture(scope="module", params=["3.9.2", "4.3.1"])
def dump(request, kafka_tool):
    """What `kafka-dump-log` prints of files; fails when it complains about anything."""

    def run(files, *arguments):
        names = ",".join(str(file) for file in sorted(files))
        done = kafka_tool("kafka-dump-log", "--files", names, *arguments, version=request.param)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        complaints = [line for line in (done.stdout + done.stderr).splitlines() if COMPLAINTS.search(line)]
        assert complaints == []
        return done.stdout

    return run


def test_every_record_is_there_and_every_batch_is_valid(directory, dump):
    segments = list(directory.glob("*.log"))
    assert len(segments) > 3

    printed = dump(segments, "--deep-iteration", "--print-data-log")

    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert offsets == list(range(len(CODECS) * RECORDS_PER_CODEC))
    assert set(re.findall(r"compresscodec: (\w+)", printed)) == set(CODECS)
    assert "key: zstd-399" in printed
    assert "headerKeys: [codec]" in printed


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_the_indexes_pass_the_sanity_check_and_agree_with_the_log(directory, dump, suffix):
    files = list(directory.glob(f"*.{suffix}"))

    checked = dump(files, "--index-sanity-check")
    entries = dump(files)

    assert checked.count("passed sanity check.") == len(files)
    assert len(re.findall(r"^(?:offset|timestamp): \d+", entries, re.MULTILINE)) > len(files)


def test_the_producer_snapshot_names_the_producers(directory, dump):
    newest = max(directory.glob("*.snapshot"))

    printed = dump([newest])

    assert len(re.findall(r"producerId: \d+ producerEpoch: 0", printed)) == len(CODECS)
    assert printed.count("lastSequence: 399") == len(CODECS)
