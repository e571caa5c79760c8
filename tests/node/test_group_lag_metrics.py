"""The lag of groups in the broker's own metrics."""

import re
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from waiting import until

START_MS = 1_900_000_000_000


@pytest.fixture
def started(serve, tmp_path):
    """Starts a broker; `lags` of a metric by group and partition."""

    def start(*flags):
        server = serve(tmp_path / "data", "--set", "metrics.port=0", *flags)
        server.wait_until_ready()
        url = re.search(r"metrics=(http://\S+/metrics)", server.ready_line)[1]

        def lags(name):
            with urllib.request.urlopen(url, timeout=30) as answer:
                text = answer.read().decode()
            return {
                (one.labels["group"], f"{one.labels['topic']}-{one.labels['partition']}"): one.value
                for family in text_string_to_metric_families(text)
                for one in family.samples
                if one.name == name
            }

        return server, lags

    return start


def test_both_lags_are_those_of_the_records(started):
    server, lags = started()
    with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
        admin.topics.create([NewTopic("t", partitions=2), NewTopic("empty")])
        for number in range(10):  # each a batch of its own, ten seconds after the one before
            producer.send_and_wait("t", "v", partition=0, timestamp_ms=START_MS + number * 10_000)
        positions = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 0, TopicPartition("empty", 0): 0}
        admin.groups.alter_offsets("behind", positions)
        admin.groups.alter_offsets("done", {TopicPartition("t", 0): 10})
        zero = {("behind", "t-1"): 0, ("behind", "empty-0"): 0, ("done", "t-0"): 0}
        assert until(lambda: lags("barnabas_group_lag") or None) == {("behind", "t-0"): 7, **zero}
        assert lags("barnabas_group_lag_seconds") == {("behind", "t-0"): 60, **zero}
        # From the cache, and after a commit.
        assert lags("barnabas_group_lag_seconds")["behind", "t-0"] == 60
        admin.groups.alter_offsets("behind", {TopicPartition("t", 0): 8})
        assert lags("barnabas_group_lag_seconds")["behind", "t-0"] == 10
        with Producer(server.bootstrap, transactional_id="x") as transactional:
            transactional.init_transactions()
            transactional.begin_transaction()
            transactional.send("t", "v", partition=1)
            transactional.commit_transaction()
        admin.groups.alter_offsets("behind", {TopicPartition("t", 1): 1})
        # A marker is all that is left: an offset, and no time.
        assert until(lambda: lags("barnabas_group_lag")["behind", "t-1"]) == 1
        assert ("behind", "t-1") not in lags("barnabas_group_lag_seconds")
    assert server.stop() == 0


def test_a_key_turns_them_off(started):
    server, lags = started("--set", "barnabas.group.lag.metrics.enable=false")
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("t"))
        admin.groups.alter_offsets("g", {TopicPartition("t", 0): 0})
    assert lags("barnabas_group_lag") == {}
    assert server.stop() == 0
