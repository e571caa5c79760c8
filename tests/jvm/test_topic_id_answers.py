"""Topics by id: Kafka 4.4 and Barnabas are asked the same, and every answer is compared."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from parity.compare import compare
from parity.normal import Normalizer
from parity.scenarios.topic_ids import topic_ids
from parity.sides import Side
from parity.world import World

pytestmark = pytest.mark.jvm


def transcript(name, bootstrap):
    port = int(bootstrap.rpartition(":")[2])
    side = Side(name, port, {str(port): "port"})
    world = World(side, Normalizer(side.words), "topic ids")
    try:
        topic_ids(world)
    finally:
        world.close()
    return world.steps


@pytest.mark.timeout(120)
def test_a_client_that_names_topics_by_id_cannot_tell_our_broker_from_kafka_4(kafka44, serve, tmp_path):
    server = serve(tmp_path / "ours")
    ours = transcript("Barnabas", server.wait_until_ready().bootstrap)
    theirs = transcript("Kafka 4.4", kafka44)
    assert server.stop() == 0

    found = compare(theirs, ours)
    assert len(theirs) == 36
    assert not found, "\n".join(map(str, found))
