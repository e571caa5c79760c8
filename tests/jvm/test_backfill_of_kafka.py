"""A log directory that Kafka's own cleaner has compacted, read before the brokers."""

import kafka_harness
import pytest

import compacted_backfill

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(400)]
SETTINGS = {
    "log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01", "offsets.topic.num.partitions": 1,
}  # fmt: skip


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_copy_that_kafka_compacted_goes_on_with_the_brokers(
    spark, zookeeper, server_folder, tmp_path, policy
):
    name = f"backfill-{policy.replace(',', '-')}"  # a comma would make two log directories of it
    folder = server_folder / name
    folder.mkdir()
    server = kafka_harness.start_broker(folder, f"{zookeeper}/{name}", settings=SETTINGS)
    try:
        broker = server.wait_until_listening().bootstrap
        compacted_backfill.check(spark, broker, folder / "data", tmp_path, policy)
    finally:
        server.kill()
