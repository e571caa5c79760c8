"""What Kafka 4.4 does that 3.9 does not: transactions whose end bumps the epoch, and features with levels. A
genuine one and Barnabas are asked the same, and every answer is compared.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from parity.compare import compare
from parity.normal import Normalizer
from parity.scenarios.features import features_of_4
from parity.scenarios.transactions_of_4 import (
    ends,
    ends_of_both_kinds,
    fenced_at_the_last_epoch,
    fences,
    late_messages_of_4,
    markers_of_4,
    offsets_of_4,
    overflow,
)
from parity.sides import Side
from parity.world import World

pytestmark = pytest.mark.jvm

SCENARIOS = {
    ends: 90,
    ends_of_both_kinds: 11,
    fences: 15,
    late_messages_of_4: 20,
    markers_of_4: 18,
    offsets_of_4: 20,
    overflow: 8,
    fenced_at_the_last_epoch: 8,
    features_of_4: 80,
}
"""Each with how many answers it compares, about."""
ONE_PARTITION = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


def transcript(name, bootstrap, scenario):
    port = int(bootstrap.rpartition(":")[2])
    side = Side(name, port, {str(port): "port"})
    world = World(side, Normalizer(side.words), scenario.__name__)
    try:
        scenario(world)
    finally:
        world.close()
    return world.steps


@pytest.mark.timeout(240)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_a_client_cannot_tell_our_broker_from_kafka_4(kafka44, serve, tmp_path, scenario):
    settings = {**ONE_PARTITION, "broker.id": 1}  # as the other side's: refusals name the controller
    options = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    server = serve(tmp_path / "ours", *options)
    ours = transcript("Barnabas", server.wait_until_ready().bootstrap, scenario)
    theirs = transcript("Kafka 4.4", kafka44, scenario)
    assert server.stop() == 0

    found = compare(theirs, ours)
    assert len(theirs) >= SCENARIOS[scenario]
    assert not found, "\n".join(map(str, found))
