"""One suite of the client library on three brokers: Apache Kafka 3.9 with ZooKeeper, 4.4 with KRaft, ours.

Each scenario runs on all three over real sockets and asserts the same of each, so their results are equal.
Those on ours need no Java: they are part of `make test`, the others of `make test-jvm`.

By file: records in and out, offsets and Arrow (`test_library_records`), split batches, tables and objects
(`test_library_extras`), groups with rebalances in both protocols (`test_library_groups`; KIP-848 on the two
that have it), topics, configurations, groups and offsets by the admin client (`test_library_admin`).
"""

import pytest

OURS = "our_broker"
KAFKAS = [pytest.param(name, marks=pytest.mark.jvm) for name in ("kafka39", "kafka44")]
# The first as the Apache Kafka's of the harness have it: no test waits for members that do not come.
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "offsets.topic.num.partitions=5",
)


@pytest.fixture(scope="session")
def our_broker(tmp_path_factory, serve):
    """The bootstrap address of a broker of ours, in a process of its own."""
    running = serve(
        tmp_path_factory.mktemp("library") / "data", *(word for one in SETTINGS for word in ("--set", one))
    )
    running.wait_until_ready()
    yield running.bootstrap
    running.kill()


@pytest.fixture(params=[OURS, *KAFKAS])
def bootstrap(request):
    """The bootstrap address of each of the three."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[OURS, pytest.param("kafka44", marks=pytest.mark.jvm)])
def bootstrap_of_today(request):
    """That of the two which speak the protocols that came after 3.9."""
    return request.getfixturevalue(request.param)
