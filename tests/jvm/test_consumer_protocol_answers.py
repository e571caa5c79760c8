"""The consumer protocol of groups: Kafka 4.4 and Barnabas are asked the same, and every answer compared."""

import sys
from collections.abc import Iterator
from pathlib import Path

import kafka_harness
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from parity.compare import compare
from parity.normal import Normalizer
from parity.scenarios.consumer_groups import consumer_groups
from parity.sides import Side
from parity.world import World

pytestmark = pytest.mark.jvm

# Each step is answered by what the step before it has made.
AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}


def transcript(name, bootstrap):
    port = int(bootstrap.rpartition(":")[2])
    side = Side(name, port, {str(port): "port"})
    world = World(side, Normalizer(side.words), "consumer groups")
    try:
        consumer_groups(world)
    finally:
        world.close()
    return world.steps


@pytest.fixture
def fresh_kafka44(judge, tmp_path) -> Iterator[str]:
    """A Kafka 4.4 node without the groups of other tests: the scenario lists all there are."""
    judge("Apache Kafka 4.4", lambda: kafka_harness.artifacts(kafka_harness.KRAFT_ERA))
    server = kafka_harness.start_kraft(tmp_path, AT_ONCE)
    try:
        yield server.wait_until_listening().bootstrap
    finally:
        server.kill()


@pytest.mark.timeout(120)
def test_a_member_cannot_tell_our_coordinator_from_that_of_kafka_4(fresh_kafka44, serve, tmp_path):
    options = [word for name, value in AT_ONCE.items() for word in ("--set", f"{name}={value}")]
    server = serve(tmp_path / "ours", *options)
    ours = transcript("Barnabas", server.wait_until_ready().bootstrap)
    theirs = transcript("Kafka 4.4", fresh_kafka44)
    server.stop()

    found = compare(theirs, ours)
    assert len(theirs) > 80
    assert not found, "\n".join(map(str, found))
