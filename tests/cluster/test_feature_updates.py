"""UpdateFeatures at the controller: which levels may be, with Kafka's words, and where they are kept."""

import pytest

from barnabas.cluster.controller.feature_updates import FeatureUpdateItem, updated_levels
from barnabas.cluster.store import znodes
from barnabas.core.errors import ErrorCode, KafkaError

SUPPORTED = {"group.version": (0, 1), "transaction.version": (0, 2)}
HIGHEST = {"group.version": 1, "transaction.version": 2}
UP, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: Invalid update version"
UNKNOWN = "The controller does not support the given upgrade type."
NOT_SAID = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe"
    " downgrade."
)


def tx(level, kind=UP):
    return FeatureUpdateItem("transaction.version", level, kind)


@pytest.mark.parametrize(
    ("now", "update", "after"),
    [
        (2, tx(2), 2),
        (2, tx(2, SAFE), 2),
        (2, tx(1, SAFE), 1),
        (2, tx(0, UNSAFE), 0),
        (0, tx(2), 2),
        (0, tx(0, SAFE), 0),
    ],
)
def test_levels_that_may_be(now, update, after):
    levels = updated_levels({"transaction.version": now}, [update], SUPPORTED, 7)

    assert levels == {"transaction.version": after}


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (tx(1), f"1 for feature transaction.version. {NOT_SAID}"),
        (tx(3), "3 for feature transaction.version. Local controller 7 only supports versions 0-2"),
        (tx(-1), "-1 for feature transaction.version. A feature version cannot be less than 0."),
        (
            tx(1, 0),
            f"1 for feature transaction.version. {UNKNOWN}",
        ),
        (
            tx(1, 4),
            f"1 for feature transaction.version. {UNKNOWN}",
        ),
        (FeatureUpdateItem("a", 1, UP), "1 for feature a. Local controller 7 does not support this feature."),
        (FeatureUpdateItem("a", 0, SAFE), "0 for feature a. Feature a not found."),
    ],
)
def test_levels_that_may_not_be(update, reason):
    with pytest.raises(KafkaError) as refused:
        updated_levels(HIGHEST, [FeatureUpdateItem("group.version", 1, UP), update], SUPPORTED, 7)

    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert refused.value.message == f"{FAILED} {reason}"


def test_up_and_down_are_said():
    with pytest.raises(KafkaError, match="Can't downgrade to a newer version"):
        updated_levels({"transaction.version": 1}, [tx(2, SAFE)], SUPPORTED, 7)


def test_of_two_updates_of_one_feature_the_last_counts():
    assert updated_levels(HIGHEST, [tx(1, SAFE), tx(0, SAFE)], SUPPORTED, 7)["transaction.version"] == 0


def test_what_a_later_broker_has_left_may_be_taken_away():
    assert updated_levels({"share.version": 1}, [FeatureUpdateItem("share.version", 0, SAFE)], {}, 7) == {
        "share.version": 0
    }


# --- in the store


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(0, 1, 2, features=SUPPORTED)


def kept(cluster):
    return znodes.decode_features(cluster.ensemble.table.find(znodes.FEATURE).data)


def change(cluster, *updates, validate_only=False):
    controller = cluster.brokers[cluster.controller.id].controller
    return cluster.wait(controller.update_features(list(updates), validate_only=validate_only))


def test_a_new_cluster_has_the_highest_levels(cluster):
    assert kept(cluster) == HIGHEST


def test_a_cluster_without_features_has_none(make_cluster):
    assert kept(make_cluster(0)) == {}


def test_a_level_stays_when_another_broker_becomes_the_controller(cluster):
    epoch = change(cluster, tx(0, SAFE), FeatureUpdateItem("group.version", 0, SAFE))
    assert epoch == 1
    cluster.brokers[0].stop()

    assert cluster.controller.id in (1, 2)
    assert kept(cluster) == {"group.version": 0, "transaction.version": 0}


def test_nothing_is_written_where_nothing_changes(cluster):
    assert change(cluster, tx(2)) == 0
    assert change(cluster, tx(1, SAFE), validate_only=True) == 0
    assert kept(cluster) == HIGHEST


def test_all_or_none(cluster):
    with pytest.raises(KafkaError):
        change(cluster, tx(1, SAFE), FeatureUpdateItem("a", 1, UP))

    assert kept(cluster) == HIGHEST


def test_a_cluster_from_before_there_were_levels_gets_the_highest(cluster):
    cluster.wait(cluster.brokers[1].store.set(znodes.FEATURE, znodes.encode_feature()))
    cluster.brokers[0].stop()

    assert cluster.controller.id in (1, 2)
    assert kept(cluster) == HIGHEST


def test_a_damaged_znode_is_left_as_it_is(cluster):
    cluster.wait(cluster.brokers[1].store.set(znodes.FEATURE, b'{"version":2,"status":1,"features":{"a":1}}'))

    with pytest.raises(KafkaError) as refused:
        change(cluster, tx(1, SAFE))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    cluster.brokers[0].stop()
    assert cluster.controller.id in (1, 2)
    assert cluster.ensemble.table.find(znodes.FEATURE).data.endswith(b'{"a":1}}')
