"""Brokers that die or fall silent: pages answer, and the damage is marked where it is."""

import pytest

from barnabas.console.collector import Pace
from barnabas.operations.clock import now_ms
from barnabas.testing import Fault, Kafka


@pytest.fixture
def kafka():
    with Kafka(2) as kafka:
        kafka.admin.topics.create(_topics())
        yield kafka


def _topics():
    from barnabas.admin import NewTopic

    return [
        NewTopic("on-both", assignment={0: [0, 1]}),
        NewTopic("on-one", assignment={0: [1], 1: [0]}),
    ]


def test_a_dead_broker_is_marked_and_everything_answers(kafka, open_console):
    site = open_console(kafka.bootstrap_servers, pace=Pace(round_s=3600, seldom=1, timeout_ms=2000))
    site.look()
    kafka.kill(1)
    for _ in range(20):  # the controller notices, and tells the other one
        site.look()
        partitions = site.get("/topics/on-one")["partitions"]
        known = [one["endpoint"]["state"] for one in site.get("/brokers")["brokers"]]
        if partitions[0]["leader"]["value"] == "none" and "unknown" in known:
            break

    rows = {one["id"]: one for one in site.get("/brokers")["brokers"]}
    assert (rows[1]["endpoint"]["state"], rows[1]["endpoint"]["why"]) == ("unknown", "not in the cluster")
    lost, led = site.get("/topics/on-one")["partitions"]
    assert led["leader"]["value"] == 0
    assert lost["leader"]["value"] == "none"
    assert lost["end"]["state"] != "ok"
    (kept,) = site.get("/topics/on-both")["partitions"]
    assert (kept["leader"]["value"], kept["end"]["state"]) == (0, "ok")
    health = {one["key"]: one for one in site.get("/health")["checks"]}
    assert health["no-leader"]["level"] == "critical"
    assert "on-one-0" in health["no-leader"]["subjects"]
    assert health["missing-brokers"]["level"] == "warning"
    changes = {(one["what"], one["subject"]) for one in site.get("/controller")["changes"]}
    assert {("leader", "on-one-0"), ("broker", "broker 1")} <= changes
    page = site.page("/topics/on-one")
    assert "no leader" in page
    assert 'href="/c/demo/explain/partition/on-one-0">why?' in page

    # What is wrong is said as what is wrong, not as what would be right.
    reasons = site.get("/health")["reasons"]
    assert any(one.startswith("partitions have no leader: on-one-0. ") for one in reasons)
    assert any(one.startswith("brokers that have replicas are missing: broker 1 with ") for one in reasons)
    assert "Broker 1: not in the cluster" in site.page("/brokers/1")

    # The partition that nobody leads holds no other one.
    shown = site.get("/messages", topic="on-one", start="earliest")
    assert ([one["partition"] for one in shown["ranges"]], shown["left_out"]) == ([1], [0])
    assert "explain/partition/on-one-0" in site.page("/messages", topic="on-one")
    follows = site.get("/messages", topic="on-one", positions="0:3,1:0", follow=True)
    assert follows["next"] == "0:3,1:0"
    for asked in ({"partition": 0}, {"partition": 0, "positions": "0:3"}):
        refused = site.request("GET", "/api/v1/clusters/demo/messages", params={"topic": "on-one", **asked})
        words = "partition 0 of topic on-one has no leader: nobody can read it now"
        assert (refused.status_code, refused.json()) == (409, {"error": words})


def test_a_broker_that_does_not_answer_leaves_the_others_as_they_are(kafka, open_console):
    site = open_console(kafka.bootstrap_servers, pace=Pace(round_s=3600, seldom=1, timeout_ms=500))
    site.look()
    fault = kafka.plant(Fault("ListGroups", node=1, delay_ms=60_000, count=None))
    site.look()
    fault.remove()

    unread = site.get("/groups")["unread"]
    assert list(unread) == ["1"]
    assert site.get("/health")["level"] in {"unknown", "warning", "critical"}
    assert site.get("/topics/on-both")["partitions"][0]["end"]["state"] == "ok"


def test_a_cluster_that_nobody_serves_harms_no_other(kafka, open_console):
    from barnabas.console.watched import WatchedCluster

    site = open_console(kafka.bootstrap_servers)
    options = {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": 1000, "request.timeout.ms": 500}
    site.console.clusters["dead"] = WatchedCluster("dead", options).start()
    site.look()
    rows = {one["name"]: one for one in site.request("GET", "/api/v1/clusters").json()}

    assert rows["demo"]["brokers"]["value"] == 2
    assert rows["dead"]["brokers"]["state"] == "unknown"
    assert rows["dead"]["level"] in {"unknown", "critical"}


def test_a_verdict_counts_as_long_as_what_it_was_made_of(kafka, open_console):
    site = open_console(kafka.bootstrap_servers, pace=Pace(round_s=30))
    site.look()
    watched = site.console.clusters["demo"]
    made = watched.verdict(now_ms())

    assert watched.verdict(now_ms() + 80_000) is made
    assert watched.verdict(now_ms() + 100_000) is not made
