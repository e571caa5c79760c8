"""Following a streaming query: what is committed for it, its lag and its metrics;
told by a query of reports.
"""

import json
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.spark.follower import PartitionLag, QueryFollower, positions_of
from barnabas.spark.offsets import SourceOffset

START = 1_700_000_000_000


def progress(batch, positions, *, run="run", rows=10, foreign=()):
    sources = [{"endOffset": json.dumps(SourceOffset(one, {}).encode())} for one in positions]
    sources += [{"endOffset": offset} for offset in foreign]
    return {
        "runId": run, "batchId": batch, "numInputRows": rows, "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 50.0, "durationMs": {"triggerExecution": 250}, "sources": sources,
    }  # fmt: skip


class Query:
    """A query of which only the reports count."""

    id, runId, name = "id", "run", 'a "job"'  # noqa: N815 - as PySpark calls it

    def __init__(self, *reports):
        self.recentProgress = [SimpleNamespace(json=json.dumps(one)) for one in reports]


class Session:
    """A session that keeps the listener."""

    def __init__(self):
        self.streams = self
        self.listeners = []

    def addListener(self, listener):
        self.listeners.append(listener)

    def removeListener(self, listener):
        self.listeners.remove(listener)

    def tell(self, report):
        for listener in list(self.listeners):
            listener.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report))))


@pytest.fixture
def tp(broker, topic_name):
    """A partition with ten records, a second apart."""
    name = topic_name("followed")
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(name, partitions=1, configs={"retention.ms": "-1"})])
    with Producer(broker) as producer:
        for number in range(10):
            producer.send_and_wait(name, b"v", timestamp_ms=START + number * 1000)
    return TopicPartition(name, 0)


def committed(broker, group, tp):
    with Admin(broker) as admin:
        found = admin.groups.offsets([group], [tp])[group][tp]
    return found.offset if found is not None else None


def test_the_end_of_the_last_batch_is_committed(broker, tp):
    session, group = Session(), f"{tp.topic}-group"
    query = Query(progress(0, [{tp: 3}]))
    with QueryFollower(query, {"bootstrap.servers": broker}, group, session) as follower:
        session.tell(progress(1, [{tp: 6}]))
        for batch in (1, 2):  # one of them is newer than all batches of the query that is followed
            session.tell(progress(batch, [{tp: 9}], run="another"))
        follower.commit()
        assert committed(broker, group, tp) == 6
        assert follower.lag() == [PartitionLag(tp.topic, 0, 6, 10, 4, 3.0)]
        # The event of the last batch has not come when the query ends.
        query.recentProgress = Query(progress(2, [{tp: 10}])).recentProgress
    assert committed(broker, group, tp) == 10
    assert session.listeners == []


def test_two_queries_are_asked_for_their_lag_at_one_moment(broker, tp):
    """They had one consumer, which one of them took from the other in the middle of its look-up."""

    def ask(position):
        with QueryFollower(
            Query(progress(0, [{tp: position}])), {"bootstrap.servers": broker}, None, Session()
        ) as follower:
            together.wait(30)
            return {follower.lag()[0] for _ in range(10)}

    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(ask, [3, 7]))
    assert found == [{PartitionLag(tp.topic, 0, 3, 10, 7, 6.0)}, {PartitionLag(tp.topic, 0, 7, 10, 3, 2.0)}]


def test_an_older_commit_never_comes_after_a_newer_one(broker, tp, monkeypatch):
    session, arrived, sent = Session(), threading.Event(), []

    def alter_offsets(group, offsets):
        if not sent and not arrived.is_set():
            arrived.set()
            overtaken.wait(1)  # the chance of a second commit to overtake this one
        sent.append(dict(offsets))
        overtaken.set()

    overtaken = threading.Event()
    follower = QueryFollower(Query(), {"bootstrap.servers": broker}, "group", session)
    monkeypatch.setattr(follower._admin.groups, "alter_offsets", alter_offsets, raising=False)
    session.tell(progress(0, [{tp: 3}]))
    assert arrived.wait(30)
    session.tell(progress(1, [{tp: 6}]))
    follower.close()

    assert sent == [{tp: 3}, {tp: 6}]


def test_without_a_group_nothing_is_committed(broker, tp):
    with QueryFollower(
        Query(progress(0, [{tp: 3}])), {"bootstrap.servers": broker}, None, Session()
    ) as follower:
        follower.commit()
        assert [one.records for one in follower.lag()] == [7]


def test_metrics_as_prometheus_reads_them(broker, tp):
    session = Session()
    with QueryFollower(Query(), {"bootstrap.servers": broker}, None, session) as follower:
        for batch in (0, 1, 1):  # a query that waits reports its last batch again
            session.tell(progress(batch, [{tp: 4}]))
        port = follower.serve()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()

    query = 'query="a \\"job\\""'
    assert f"barnabas_spark_input_rows_total{{{query}}} 20.0" in lines
    assert f"barnabas_spark_batch_seconds_count{{{query}}} 2.0" in lines
    assert f"barnabas_spark_batch_seconds_sum{{{query}}} 0.5" in lines
    assert f"barnabas_spark_processed_rows_per_second{{{query}}} 50.0" in lines
    labels = f'partition="0",{query},topic="{tp.topic}"'
    assert f"barnabas_spark_lag_records{{{labels}}} 6.0" in lines
    assert f"barnabas_spark_lag_seconds{{{labels}}} 5.0" in lines


def test_a_scrape_has_the_rates_while_the_brokers_do_not_say_the_lag(broker, tp, monkeypatch):
    session = Session()
    with QueryFollower(Query(), {"bootstrap.servers": broker}, None, session) as follower:
        session.tell(progress(0, [{tp: 4}]))

        def refused():
            raise OSError("no broker")

        monkeypatch.setattr(follower, "lag", refused)
        port = follower.serve()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()

    assert "barnabas_spark_input_rows_total{" in text
    assert "barnabas_spark_lag" not in text


def test_only_our_sources_count_and_the_one_that_is_behind():
    a, b = TopicPartition("a", 0), TopicPartition("b", 0)
    report = progress(0, [{a: 5, b: 7}, {a: 3}], foreign=['{"c":{"0":9}}', "17", "null"])

    assert positions_of(report) == {a: 3, b: 7}
