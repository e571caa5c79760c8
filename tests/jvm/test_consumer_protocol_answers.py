"""The consumer protocol of groups: Kafka 4.2 and Barnabas are asked the same, and every answer compared.

Of 4.2, as the epochs of groups are those of 4.2 (docs/compatibility.md).
"""

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

SERVED = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.migration.policy": "bidirectional",
    # Each step is answered by what the step before it has made.
    "group.consumer.assignment.interval.ms": "0",
}

EXPLAINED = {
    # Kafka 4 words what Kafka 3.9 leaves to the code.
    ("unknown: described / v1", "error_message"),
    # Kafka 4.4 notes that a group without members has its assignment (KIP-1263); Kafka 4.2 does not.
    ("empty: described / v1", "assignment_epoch"),
}
"""Steps, and ends of fields, that differ with a reason."""


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
def fresh_kafka42(judge, tmp_path) -> Iterator[str]:
    """A Kafka 4.2 node without the groups of other tests: the scenario lists all there are."""
    judge("Apache Kafka 4.2", lambda: kafka_harness.artifacts(kafka_harness.EARLIER_KRAFT))
    server = kafka_harness.start_kraft(tmp_path, version=kafka_harness.EARLIER_KRAFT)
    try:
        yield server.wait_until_listening().bootstrap
    finally:
        server.kill()


@pytest.mark.timeout(120)
def test_a_member_cannot_tell_our_coordinator_from_that_of_kafka_4(fresh_kafka42, serve, tmp_path):
    options = [word for name, value in SERVED.items() for word in ("--set", f"{name}={value}")]
    server = serve(tmp_path / "ours", *options)
    ours = transcript("Barnabas", server.wait_until_ready().bootstrap)
    theirs = transcript("Kafka 4.2", fresh_kafka42)
    server.stop()

    unexplained = [each for each in compare(theirs, ours) if not is_explained(each)]
    assert len(theirs) > 70
    assert not unexplained, "\n".join(map(str, unexplained))


def is_explained(difference):
    step = difference.where.removeprefix("consumer groups / ")
    return any(step == where and difference.field.endswith(field) for where, field in EXPLAINED)
