"""A broker that loses a disk tells the controller: others lead the partitions that were on it."""

import shutil
import time

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Producer


def test_a_partition_whose_directory_failed_gets_another_leader(join_cluster, tmp_path):
    directories = [tmp_path / "disk-a", tmp_path / "disk-b"]
    first = join_cluster(1)
    first.wait_until_ready()
    second = join_cluster(2, "--set", f"log.dirs={directories[0]},{directories[1]}")
    second.wait_until_ready()
    with Admin(first.bootstrap) as admin, Producer(first.bootstrap) as producer:
        admin.topics.create(NewTopic("t", assignment={0: [2, 1]}, configs={"segment.bytes": "20000"}))
        producer.send("t", b"before").result()
        (lost,) = (each for each in directories if (each / "t-0").exists())
        shutil.rmtree(lost)
        deadline = time.monotonic() + 30
        while admin.topics.describe(["t"])["t"].partitions[0].leader != 1:
            # A new segment cannot be made where the directory was.
            producer.send("t", bytes(15_000))
            assert time.monotonic() < deadline
        producer.send("t", b"after").result()
    assert "log_dir.failed" in second.tail()
    assert second.stop() == 0
    assert first.stop() == 0


def test_a_partition_whose_files_were_removed_gets_another_leader_and_the_others_stay(join_cluster):
    """Appends to files without a name succeed:
    the broker has to look, or it acknowledges what nobody can ever read.
    """
    first = join_cluster(1)
    first.wait_until_ready()
    second = join_cluster(2, "--set", "barnabas.log.files.check.interval.ms=50")
    second.wait_until_ready()
    with Admin(first.bootstrap) as admin, Producer(first.bootstrap, acks="all") as producer:
        for topic in ("t", "other"):
            admin.topics.create(NewTopic(topic, assignment={0: [2, 1]}))
            producer.send(topic, b"before").result()
        shutil.rmtree(second.data_dir / "t-0")
        deadline = time.monotonic() + 30
        while admin.topics.describe(["t"])["t"].partitions[0].leader != 1:
            producer.send("t", b"meanwhile").result()
            assert time.monotonic() < deadline
        producer.send("t", b"after").result()
        producer.send("other", b"after").result()
        assert admin.topics.describe(["other"])["other"].partitions[0].leader == 2
    assert "log.files_removed" in second.tail()
    assert "log_dir.failed" not in second.tail()
    assert second.stop() == 0
    assert first.stop() == 0
