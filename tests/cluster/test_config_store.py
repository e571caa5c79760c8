"""What a broker knows of the topics' settings, whenever they are changed."""

import pytest

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.cluster.store.znodes import config_path
from barnabas.core.pending import Pending
from standing_clock import Clock

OLD, NEW = {"min.insync.replicas": "1"}, {"min.insync.replicas": "2"}


class Brokers:
    """Two brokers; `mine` is the one that is looked at, `other` changes settings."""

    def __init__(self, loop):
        self.loop = loop
        self._ensemble = MemoryEnsemble(lambda: 0)
        self.store = self._session()
        loop.wait(ensure_persistent_paths(self.store))
        self.mine = ConfigStore(self.store, Clock())
        self.other = ConfigStore(self._session(), Clock())

    def _session(self):
        store = MemoryStore(self._ensemble, self.loop.call_soon)
        self.loop.wait(store.start())
        return store

    def write(self, topic, values):
        return self.other.write("topics", topic, values)

    def start(self):
        return self.mine.start(lambda _change, _values: None)

    def hold_read(self, topic):
        """Holds the next read of a topic's settings back until the function that this returns is called."""
        get, held = self.store.get, []

        def slow_get(path):
            if path != config_path("topics", topic):
                return get(path)
            self.store.get = get
            held.append((get(path), Pending()))
            return held[0][1]

        self.store.get = slow_get

        def release():
            read, answer = held.pop()
            answer.end_as(read)

        return release


@pytest.fixture
def brokers(loop):
    return Brokers(loop)


def started(brokers):
    return brokers.start


def made_again(brokers):
    """The topics were deleted, and others made under their names."""
    brokers.loop.wait(brokers.start())
    brokers.mine.forget(["changed", "slow"])
    return lambda: brokers.mine.ensure(["changed", "slow"])


@pytest.mark.parametrize("reads_of", [started, made_again])
def test_a_topic_that_is_changed_while_others_are_read_is_not_set_back(brokers, reads_of):
    for topic in ("changed", "slow"):
        brokers.loop.wait(brokers.write(topic, OLD))
    read_topics = reads_of(brokers)
    release = brokers.hold_read("slow")
    reading = read_topics()
    brokers.loop.run()
    brokers.loop.wait(brokers.write("changed", NEW))
    brokers.loop.run()
    release()
    brokers.loop.wait(reading)
    assert brokers.mine.topic("changed") == NEW
    assert brokers.mine.topic("slow") == OLD
