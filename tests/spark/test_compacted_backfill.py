"""A log directory that our cleaner has compacted, read before the brokers."""

import pytest

import compacted_backfill
from seeds import drawn_by_this_run

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
AT_ONCE = ("log.cleaner.backoff.ms=100", "log.initial.task.delay.ms=100", "offsets.topic.num.partitions=1")


@pytest.mark.parametrize("policy", drawn_by_this_run(["compact", "compact,delete"], "policies of a copy"))
def test_a_copy_that_our_cleaner_compacted_goes_on_with_the_brokers(spark, serve, tmp_path, policy):
    data = tmp_path / "data"
    server = serve(data, *(word for setting in AT_ONCE for word in ("--set", setting)))
    broker = server.wait_until_ready().bootstrap
    compacted_backfill.check(spark, broker, data, tmp_path, policy)
