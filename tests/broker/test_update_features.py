"""UpdateFeatures where features have levels; `test_not_configured` has the others."""

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Pending
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode


@pytest.fixture
def world(make_world):
    return make_world(barnabas_api_profile="4.4")


def request(**fields):
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, **fields)
    return UpdateFeaturesRequest(feature_updates=[update])


@pytest.mark.parametrize(
    ("version", "fields", "kind"),
    [
        (0, {"allow_downgrade": True}, 2),
        (0, {"allow_downgrade": False}, 1),
        (1, {"upgrade_type": 3}, 3),
        (2, {"upgrade_type": 7}, 7),
    ],
)
def test_the_controller_is_asked(world, version, fields, kind):
    world.features.seen({}, 1)
    answer = world.send(request(**fields), version)

    assert world.controller.asked == [([("transaction.version", 1, kind)], False)]
    assert (answer.error_code, answer.error_message) == (E.NONE, None)
    results = [(each.feature, each.error_code, each.error_message) for each in answer.results]
    assert results == ([("transaction.version", E.NONE, "NONE")] if version < 2 else [])


def test_the_answer_waits_until_this_broker_knows_the_levels(world):
    answer = world.start(request(upgrade_type=2), 2)
    assert answer() is None
    world.features.seen({"transaction.version": 1}, 0)
    assert answer() is None
    world.features.seen({"transaction.version": 1}, 1)

    assert answer().error_code == E.NONE


@pytest.mark.parametrize("version", [0, 1, 2])
def test_one_that_cannot_be_refuses_all(world, version):
    refusal = KafkaError(E.INVALID_UPDATE_VERSION, "why not")
    world.controller.features_epoch = Pending.failed(refusal)
    answer = world.send(request(), version)

    assert (answer.error_code, answer.error_message) == (E.INVALID_UPDATE_VERSION, "why not")
    assert answer.results == []


def test_only_the_controller_answers(world):
    world.controller.is_active = False

    assert world.send(request(), 2).error_code == E.NOT_CONTROLLER


def test_without_group_version_there_are_no_groups_of_the_consumer_protocol(world):
    beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    describe = ConsumerGroupDescribeRequest(group_ids=["g"])
    assert world.send(beat, 1).error_code != E.UNSUPPORTED_VERSION
    world.features.seen({"transaction.version": 2}, 1)

    assert world.send(beat, 1).error_code == E.UNSUPPORTED_VERSION
    assert world.send(describe, 1).groups[0].error_code == E.UNSUPPORTED_VERSION
