"""The timeline of incidents: changes, actions and alerts in one order, cut and gone on with."""

import json

import pytest
from click.testing import CliRunner

from barnabas.cli.main import cli
from barnabas.console.actions.audit import AuditEntry
from barnabas.console.actions.plans import Effect
from barnabas.console.alerts.rules import Incident
from barnabas.console.snapshot import ClusterChange
from barnabas.console.views import timeline as timelines
from barnabas.console.views.timeline import TimelineQuery, timeline
from barnabas.operations.errors import OperationError
from waiting import until

CHANGES = [
    *(ClusterChange(2000, "leader", f"orders-{place}", "1, epoch 1", "2, epoch 2") for place in range(5)),
    ClusterChange(1000, "isr", "orders-0", "1,2", "2"),
    ClusterChange(500, "group", "billing", "Stable, 1 members", "Empty, 0 members"),
]
ACTIONS = [
    AuditEntry(1500, "alice", "demo", "alter-topic", "orders", "x", "begun", None, [Effect("k", "1", "2")]),
    AuditEntry(
        1501, "alice", "demo", "alter-topic", "orders", "x", "done", None, [Effect("orders k", "1", "2")]
    ),
    AuditEntry(1600, "bob", "demo", "delete-topic", "logs", "y", "failed", "no right", []),
]
INCIDENTS = [Incident("i", "late", "group.lag/billing", 900, 1200, 5, 7, 9, 1800)]


def ask(start_ms=0, end_ms=9999, **more):
    return timeline(TimelineQuery(start_ms, end_ms, **more), CHANGES, ACTIONS, INCIDENTS)


def test_everything_is_in_one_order():
    shown = ask()
    assert [one.at_ms for one in shown.entries] == [2000] * 5 + [1800, 1600, 1501, 1500, 1200, 1000, 500]
    assert shown.counts == dict.fromkeys(timelines.KINDS, 0) | {
        "leader": 5, "isr": 1, "group": 1, "action": 3, "alert": 2,
    }  # fmt: skip
    done = next(one for one in shown.entries if one.at_ms == 1501)
    assert (done.who, done.before, done.after, done.subject) == ("alice", "1", "2", "alter-topic orders k")


def test_it_is_cut_by_time_kind_and_resource():
    assert [one.at_ms for one in ask(1000, 1500).entries] == [1500, 1200, 1000]
    assert {one.kind for one in ask(kinds=frozenset({"isr", "alert"})).entries} == {"isr", "alert"}
    assert {one.at_ms for one in ask(resource="BILLING").entries} == {1800, 1200, 500}
    with pytest.raises(OperationError, match="no kind 'x'"):
        ask(kinds=frozenset({"x"}))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_an_answer_goes_on_within_a_millisecond(count):
    found, positions = [], None
    while True:
        shown = ask(count=count, positions=positions)
        found += shown.entries
        positions = shown.next
        if positions is None:
            break
    assert found == list(ask().entries)


def test_more_changes_than_one_answer_looks_at_are_gone_on_with(monkeypatch):
    monkeypatch.setattr(timelines, "CHANGES_MAX", 6)
    shown = timeline(TimelineQuery(0, 9999), CHANGES[:6], [], [])
    assert ({one.at_ms for one in shown.entries}, shown.next) == ({2000}, "1000:0")
    stuck = timeline(TimelineQuery(0, 2000, positions="2000:0"), [*CHANGES[:5], CHANGES[0]], [], [])
    assert "left out" in stuck.left_out[0]


@pytest.mark.parametrize("wrong", ["", "1", "1:", "a:b", "-1:0", "9" * 20 + ":0"])
def test_positions_that_are_none_are_refused(wrong):
    if wrong:
        with pytest.raises(OperationError, match="positions"):
            ask(positions=wrong)


def test_the_page_and_rest_show_what_was_seen_and_done(cluster, open_console):
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    topic = cluster.create_topic(partitions=1)
    # The broker that is looked at may be the one that hears of it later.
    until(lambda: site.look() or site.get("/timeline", resource=topic)["entries"])
    where = "/api/v1/clusters/demo"
    body = {"topic": topic, "key": "retention.ms", "value": "7777777"}
    preview = site.request("POST", f"{where}/actions/alter-topic", json=body).json()
    site.request("POST", f"{where}/plans/{preview['id']}", json={"confirm": topic})
    shown = site.get("/timeline", resource=topic)
    assert {(one["kind"], one["who"]) for one in shown["entries"]} == {
        ("topic", None),
        ("action", "operator"),
    }
    assert shown["counts"]["action"] == 2
    assert "7777777" in site.page("/timeline", resource=topic, kind="action")
    assert site.get("/timeline", resource=topic, kind="isr")["entries"] == []
    for wrong in ({"start": "yesterday"}, {"kind": "x"}, {"end": "-9y"}):
        assert site.request("GET", f"{where}/timeline", params=wrong).status_code == 409
    folder = str(site.console.data)
    result = CliRunner().invoke(
        cli, ["timeline", "--data", folder, "--cluster", "demo", "--json", "--kind", "action"]
    )
    assert result.exit_code == 0, result.output
    assert [one["after"] for one in json.loads(result.stdout)["entries"]] == ["7777777", "begun"]
    lines = CliRunner().invoke(cli, ["timeline", "--data", folder, "--cluster", "demo", "--resource", topic])
    assert f"alter-topic {topic} retention.ms" in lines.stdout
    missing = CliRunner().invoke(cli, ["timeline", "--data", folder, "--cluster", "other"])
    assert (missing.exit_code, "no history of a cluster" in missing.output) == (1, True)
