"""The epoch of the finalized features: what ApiVersions tells of /feature."""

import pytest

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
    features = FinalizedFeatures(store)
    features.start()
    turns.run()
    return features


def feature(status=1, **levels):
    return znodes.encode_json({"version": 2, "status": status, "features": levels})


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
    features = FinalizedFeatures(store)
    features.start()
    turns.run()

    assert features.epoch == 0


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
