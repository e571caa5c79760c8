"""The epoch of the finalized features: what ApiVersions tells of /feature."""

import pytest

from barnabas.cluster.metadata.features import FeatureLevels
from barnabas.cluster.metadata.finalized_features import FinalizedFeatures
from barnabas.cluster.store import znodes
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore


class Turns:
    """Callbacks that wait for the next turn."""

    def __init__(self):
        self.waiting = []

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


@pytest.fixture
def turns():
    return Turns()


@pytest.fixture
def ensemble():
    return MemoryEnsemble()


@pytest.fixture
def store(turns, ensemble):
    store = MemoryStore(ensemble, turns.waiting.append)
    store.start()
    return store


@pytest.fixture
def features(turns, store):
    return followed(turns, store, FeatureLevels())


def followed(turns, store, levels):
    FinalizedFeatures(store, levels).start()
    turns.run()
    return levels


def feature(status=1, **levels):
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return znodes.encode_json({"version": 2, "status": status, "features": features})


def test_without_the_znode_the_epoch_is_unknown(features):
    assert features.epoch == -1


def test_what_the_controller_makes_is_seen_and_followed(turns, store, features):
    store.create(znodes.FEATURE, znodes.encode_feature())
    turns.run()
    assert features.epoch == 0
    store.set(znodes.FEATURE, znodes.encode_feature())
    turns.run()
    assert features.epoch == 1
    store.delete(znodes.FEATURE)
    turns.run()
    assert features.epoch == -1


def test_what_is_there_at_the_start_is_read(turns, store):
    store.create(znodes.FEATURE, znodes.encode_feature())
    assert followed(turns, store, FeatureLevels()).epoch == 0


@pytest.mark.parametrize("data", [feature(status=0), b"{", b"{}"], ids=["disabled", "damaged", "empty"])
def test_what_says_nothing_is_unknown(turns, store, features, data):
    store.create(znodes.FEATURE, znodes.encode_feature())
    store.set(znodes.FEATURE, data)
    turns.run()

    assert features.epoch == -1


def test_a_feature_that_no_broker_supports_is_one_line_and_changes_nothing(turns, store, features, caplog):
    store.create(znodes.FEATURE, znodes.encode_feature())
    turns.run()
    store.set(znodes.FEATURE, feature(strange=3))
    turns.run()

    assert features.epoch == 0
    (line,) = [each for each in caplog.text.splitlines() if "features_not_supported" in each]
    assert "strange" in line


def test_it_is_followed_beyond_the_end_of_a_session(turns, ensemble, store, features):
    ensemble.expire(store.session_id)
    turns.run()
    store.create(znodes.FEATURE, znodes.encode_feature())
    turns.run()

    assert features.epoch == 0


SUPPORTED = {"group.version": (0, 1), "transaction.version": (0, 2)}


def kept(**finalized):
    levels = {name.replace("_", "."): level for name, level in finalized.items()}
    return FeatureLevels(SUPPORTED, levels, kept=True)


def test_levels_are_those_of_the_znode_where_they_are_kept(turns, store):
    store.create(znodes.FEATURE, feature(**{"transaction.version": 2, "group.version": 0}))
    levels = followed(turns, store, kept())

    assert [levels.level(name) for name in ("transaction.version", "group.version", "other")] == [2, 0, 0]
    store.set(znodes.FEATURE, feature(**{"transaction.version": 1}))
    turns.run()
    assert (levels.finalized, levels.epoch) == ({"transaction.version": 1}, 1)


def test_where_they_are_not_kept_they_stay_what_they_were(turns, store):
    store.create(znodes.FEATURE, feature(**{"group.version": 0}))
    levels = followed(turns, store, FeatureLevels(SUPPORTED, {"group.version": 1}))

    assert levels.level("group.version") == 1


def test_what_a_later_broker_has_set_counts_as_far_as_it_is_known(turns, store, caplog):
    store.create(znodes.FEATURE, feature(**{"transaction.version": 3, "share.version": 2}))
    levels = followed(turns, store, kept())

    assert levels.finalized == {"transaction.version": 2}
    assert "features_not_supported" in caplog.text
    assert "share.version" in caplog.text


@pytest.mark.parametrize("data", [feature(status=0), b"{", b"{}"], ids=["disabled", "damaged", "empty"])
def test_a_damaged_znode_changes_no_level(turns, store, data):
    store.create(znodes.FEATURE, feature(**{"transaction.version": 2}))
    levels = followed(turns, store, kept())
    store.set(znodes.FEATURE, data)
    turns.run()

    assert (levels.level("transaction.version"), levels.epoch) == (2, -1)


def test_one_may_wait_until_a_change_is_known(turns, store):
    store.create(znodes.FEATURE, feature(**{"transaction.version": 2}))
    levels = followed(turns, store, kept())
    now, later = levels.reached(0), levels.reached(1)

    assert (now.done, later.done) == (True, False)
    store.set(znodes.FEATURE, feature(**{"transaction.version": 1}))
    turns.run()
    assert later.done
