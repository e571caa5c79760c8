"""What pages and REST say of a cluster: the same, and what is true."""

import time
from html.parser import HTMLParser

import pytest

from barnabas.admin.partitions import Partitions
from barnabas.client import Consumer
from barnabas.console.web.routes import SHOWN
from barnabas.console.web.shapes import number
from barnabas.core.errors import ErrorCode, KafkaError


@pytest.fixture
def site(standing_site):
    return standing_site


def value(figure):
    assert figure["state"] == "ok", figure
    return figure["value"]


def test_the_overview_counts_and_judges(site, cluster):
    site.look()  # other tests have made groups
    shown = site.get("")

    topics = cluster.admin.topics.describe_all(internal=True)
    partitions = sum(len(one.partitions) for one in topics.values())
    found = [value(shown[name]) for name in ("brokers", "topics", "partitions", "groups", "without_leader")]
    assert found == [2, len(topics), partitions, len(cluster.admin.groups.list()), 0]
    assert value(shown["cluster_id"]) == cluster.admin.cluster.describe().cluster_id
    assert shown["verdict"]["level"] == "good", shown["verdict"]
    assert "checks have no source" in " ".join(shown["verdict"]["reasons"])


def test_a_group_is_behind_in_records_and_in_seconds(site):
    (part,) = site.get("/groups/behind")["partitions"]

    assert [value(part[name]) for name in ("committed", "end", "lag", "seconds")] == [3, 10, 7, 60.0]
    (done,) = site.get("/groups/done")["partitions"]
    assert [value(done["lag"]), value(done["seconds"])] == [0, 0.0]


def test_no_commit_is_unknown_and_no_zero(cluster, open_console):
    with Consumer(cluster.bootstrap_servers, group_id="fresh", auto_offset_reset="latest") as consumer:
        consumer.subscribe(["logs.app"])
        consumer.poll(2000)
        cluster.wait_for_group("fresh", state="Stable", members=1)
        site = open_console(cluster.bootstrap_servers)
        site.look()
        (part,) = site.get("/groups/fresh")["partitions"]
    assert (part["lag"]["state"], part["lag"]["why"]) == ("unknown", "no position was committed")
    assert part["member"] is not None
    cluster.admin.groups.delete("fresh")


def test_topics_are_searched_sorted_and_cut_by_the_server(site):
    shown = site.get("/topics", search="ORD")
    assert [one["name"] for one in shown["rows"]] == ["orders"]
    assert site.get("/topics", size=1, page=2)["rows"][0]["name"] == "orders"
    assert site.get("/topics", sort="partitions", size=1)["rows"][0]["name"] == "orders"
    assert site.get("/topics", page=9999)["paging"]["page"] == 1
    with_internal = {one["name"] for one in site.get("/topics", internal=True)["rows"]}
    assert "__consumer_offsets" in with_internal


def test_a_topic_has_its_partitions_replicas_readers_and_keys(site, cluster):
    shown = site.get("/topics/orders")

    described = cluster.admin.topics.describe("orders")["orders"]
    for row, one in zip(shown["partitions"], described.partitions, strict=True):
        assert (value(row["leader"]), row["leader_epoch"], row["isr"]) == (
            one.leader,
            one.leader_epoch,
            sorted(one.isr),
        )
    first = shown["partitions"][0]
    assert (value(first["start"]), value(first["end"])) == (0, 10)
    assert value(first["replicas"][0]["size_bytes"]) > 0
    assert {one["group"] for one in shown["readers"]} == {"behind", "done"}
    for _ in range(20):  # brokers hear of a topic's configuration one after the other
        keys = {one["name"]: one for one in site.get("/topics/logs.app")["configs"]}
        if keys["retention.ms"]["source"] == "TOPIC":
            break
        site.look()
    assert (keys["retention.ms"]["value"], keys["retention.ms"]["source"]) == ("3600000", "TOPIC")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (0.0, "0"),
        (2.5, "2.5"),
        (0.01, "0.01"),
        (0.85, "0.85"),
        (1234.0, "1,234"),
        (1e300, "1e+300"),
        (7, "7"),
    ],
)
def test_a_number_that_is_whole_is_written_as_one(value, text):
    assert number(value) == text


def test_moves_that_may_not_be_read_are_not_none(cluster, open_console, monkeypatch):
    async def denied(*_, **__):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    monkeypatch.setattr(Partitions, "reassignments", denied)
    site = open_console(cluster.bootstrap_servers)
    site.look()
    assert "authoriz" in site.get("/controller")["reassignments_unread"].lower()
    assert "authoriz" in site.get("/topics/orders")["moves_unread"].lower()
    assert "Not readable" in site.page("/controller")
    assert "not readable" in site.page("/topics/orders")


def test_moves_that_were_readable_once_are_said_to_be_old(cluster, open_console, monkeypatch):
    async def denied(*_, **__):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    site = open_console(cluster.bootstrap_servers)
    site.look()
    assert site.get("/controller")["reassignments_unread"] is None
    monkeypatch.setattr(Partitions, "reassignments", denied)
    site.look()
    for said in (
        site.get("/controller")["reassignments_unread"],
        site.get("/topics/orders")["moves_unread"],
    ):
        assert said.startswith("not since ")
        assert "authoriz" in said.lower()
    assert "not since " in site.page("/controller")
    assert "None." not in site.page("/controller").partition("What has changed")[0]


def test_a_topic_that_is_not_there_is_said_at_once(site):
    began = time.monotonic()
    answer = site.request("GET", "/api/v1/clusters/demo/messages", params={"topic": "missing"})
    assert (answer.status_code, answer.json()) == (409, {"error": "there is no topic missing"})
    assert time.monotonic() - began < 15  # it was the time-out of the cluster, 30 s


def test_records_are_found_and_the_ranges_are_said(site):
    shown = site.get("/messages", topic="orders", start="earliest", contains="value 4")

    assert [(one["offset"], one["key"]["text"]) for one in shown["records"]] == [(4, "key 4")]
    assert shown["scanned"] == 10
    assert shown["ranges"][0] == {"partition": 0, "start": 0, "stop": 10, "left": 0, "earlier": 0}
    assert shown["next"] is None


def test_an_answer_goes_on_where_the_last_one_stopped(site):
    first = site.get("/messages", topic="orders", partition=0, start="2", count=3)
    assert [one["offset"] for one in first["records"]] == [2, 3, 4]
    assert (first["next"], first["stopped"]) == ("0:5", "enough was found")

    second = site.get("/messages", topic="orders", positions=first["next"], count=500)
    assert [one["offset"] for one in second["records"]] == [5, 6, 7, 8, 9]
    assert second["next"] is None


def test_records_of_a_time_and_the_newest_ones(site):
    start_ms = 1_900_000_000_000
    at = site.get("/messages", topic="orders", start=f"@{start_ms + 75_000}")
    assert [one["offset"] for one in at["records"]] == [8, 9]
    newest = site.get("/messages", topic="orders", partition=0, count=2)
    assert [one["offset"] for one in newest["records"]] == [8, 9]


@pytest.mark.parametrize("bad", ["minus", "@x", "-1", "9" * 20])
def test_a_start_that_is_none_is_refused_in_one_line(site, bad):
    answer = site.request("GET", "/api/v1/clusters/demo/messages", params={"topic": "orders", "start": bad})
    assert answer.status_code == 409
    assert "none of" in answer.json()["error"]


def test_the_way_to_a_coordinator_and_a_partition_is_explained(site):
    stations = dict(site.get("/explain/coordinator/behind")["stations"])
    assert "agree" in stations["verdict"]
    assert dict(site.get("/explain/partition/orders-0")["stations"])["leader"].startswith("broker")


def test_the_store_is_a_tree_and_keeps_its_secrets(cluster, open_console):
    site = open_console(cluster.bootstrap_servers, watched={"store": cluster._store})
    assert "brokers" in site.get("/store", path="/")["children"]
    assert site.get("/store", path="/controller")["value"]["brokerid"] in (0, 1)
    missing = site.request("GET", "/api/v1/clusters/demo/store", params={"path": "/nothing"})
    assert missing.status_code == 404


@pytest.mark.parametrize("shown", SHOWN, ids=lambda one: one.path or "/")
def test_every_page_draws_what_rest_answers(site, shown):
    subjects = {
        "/brokers/{broker_id}": "/brokers/0",
        "/topics/{name}": "/topics/orders",
        "/groups/{name:path}": "/groups/behind",
        "/clients/{name:path}": "/clients/sender",
        "/configs/{kind}/{name}": "/configs/topic/orders",
        "/explain/{kind}/{name:path}": "/explain/coordinator/behind",
    }
    if shown.path == "/store":
        answer = site.request("GET", "/c/demo/store")
        assert (answer.status_code, "--store" in answer.text) == (409, True)
        return
    text = site.page(subjects.get(shown.path, shown.path))

    page = Outline()
    page.feed(text)
    assert page.headings == 1
    assert page.open == []
    assert page.outside == []


class Outline(HTMLParser):
    """The elements that are still open, the first headings, and what would be loaded from elsewhere."""

    VOID = ("meta", "link", "input", "br", "polyline", "!doctype")

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.outside = [], 0, []

    def handle_starttag(self, tag, attributes):
        self.headings += tag == "h1"
        given = dict(attributes)
        for name in ("src", "href", "action"):
            if str(given.get(name, "/")).startswith(("http", "//")):
                self.outside.append(given[name])
        assert not [name for name in given if name.startswith("on")], "the policy allows no script in a page"
        assert "style" not in given
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag
