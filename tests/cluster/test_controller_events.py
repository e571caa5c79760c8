"""Whatever happens in whatever order, the controller asks for no transition that its tables forbid."""

import logging
import random

import pytest
from brokers_fake import NOW_MS, FakeCluster
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_loop import Loop

from barnabas.cluster.store.memory import MemoryEnsemble
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition

IDS = (0, 1, 2)
TOPICS = ("t", "u")
replicas = st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=True)
topics = st.sampled_from(TOPICS)
events = st.one_of(
    st.tuples(st.just("create"), topics, replicas),
    st.tuples(st.just("delete"), topics),
    st.tuples(st.just("reassign"), topics, replicas),
    st.tuples(st.just("stop"), st.sampled_from(IDS)),
    st.tuples(st.just("start"), st.sampled_from(IDS)),
    st.tuples(st.just("disk fails"), st.sampled_from(IDS), topics),
    st.tuples(st.just("disk is back"), st.sampled_from(IDS)),
    st.tuples(st.just("hold answers")),
    st.tuples(st.just("release answers")),
)


def new_cluster(*brokers):
    return FakeCluster(Loop(), MemoryEnsemble(lambda: NOW_MS), random.Random(7), brokers=brokers)


def happen(cluster, event):
    """One event; what an operator cannot do now is passed over."""
    what, *values = event
    up = [broker for broker in cluster.brokers.values() if broker.up]
    if what == "create":
        topic, assigned = values
        try:
            cluster.create(topic, {0: assigned})
        except KafkaError:
            cluster.settle()
    elif what == "delete":
        try:
            cluster.delete(values[0])
        except KafkaError:
            cluster.settle()
    elif what == "reassign":
        topic, target = values
        tp = TopicPartition(topic, 0)
        cluster.controller.controller.alter_partition_reassignments({tp: target})
        cluster.settle()
    elif what == "stop" and len(up) > 1:
        cluster.brokers[values[0]].stop()
    elif what == "start" and not cluster.brokers[values[0]].up:
        cluster.brokers[values[0]].start()
    elif what == "disk fails":
        cluster.brokers[values[0]].failing_dirs.add(TopicPartition(values[1], 0))
    elif what == "disk is back":
        cluster.brokers[values[0]].failing_dirs.clear()
    elif what == "hold answers":
        cluster.holds_answers = True
    elif what == "release answers":
        cluster.release_answers()


class Lines(logging.Handler):
    """What the controller logs that it should never have to."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        text = record.getMessage()
        if text.startswith("illegal_transition") or record.exc_info:
            self.found.append(text)


@pytest.fixture(scope="module")
def odd_lines():
    handler = Lines()
    logging.getLogger("barnabas").addHandler(handler)
    yield handler.found
    logging.getLogger("barnabas").removeHandler(handler)


@settings(max_examples=200, deadline=None)
@given(st.lists(events, max_size=25))
@example(
    [
        ("create", "t", [0, 1, 2]),
        ("stop", 0),
        ("delete", "t"),
        ("create", "t", [0]),
        ("stop", 2),
        ("start", 2),
    ]
)
def test_no_order_of_events_asks_for_an_illegal_transition(odd_lines, happened):
    odd_lines.clear()
    cluster = new_cluster(*IDS)
    for event in happened:
        happen(cluster, event)
        assert not odd_lines, (event, odd_lines)
    # In the end all is well again, and what was to be deleted is gone.
    cluster.release_answers()
    for broker in cluster.brokers.values():
        broker.failing_dirs.clear()
        if broker.up:
            broker.stop()
        broker.start()
    assert not odd_lines
    assert not cluster.paths("/admin/delete_topics/")
