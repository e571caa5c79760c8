"""Answers that come after their page: each is for whom it was made, as they may see it then."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace

import pytest

from barnabas.console.access.files import WatchedFile
from barnabas.console.actions.topics import AlterBrokers, AlterTopic
from barnabas.console.questions import NotAnsweredError
from barnabas.console.web.action_routes import plan
from barnabas.operations.messages.masks import parsed
from barnabas.testing import Fault
from waiting import eventually, until


@pytest.fixture
def impatient(cluster, open_console, tmp_path):
    """A console whose pages wait for nobody, and brokers that take a while for what is asked here."""
    names = ("DescribeUserScramCredentials", "DescribeConfigs", "ListOffsets")
    rules = tmp_path / "masks.toml"
    rules.write_text("")
    site = open_console(
        cluster.bootstrap_servers, patience_s=0, allow_changes=True, masking=WatchedFile(rules, parsed)
    )
    site.look()
    site.rules = rules
    slow = [cluster.plant(Fault(name, delay_ms=300, count=None)) for name in names]
    yield site
    for one in slow:
        one.remove()


def settled(site):
    until(lambda: "running=0" in repr(site.watched.questions), "the questions to end")


def test_the_page_of_an_answer_that_is_missing_has_it_when_it_is_read_again(impatient):
    first = impatient.page("/users")
    assert "Unknown: the cluster has not answered yet" in first
    assert 'data-refresh="2"' in first
    settled(impatient)
    second = impatient.page("/users")
    assert ("has not answered" in second, 'data-refresh="10"' in second) == (False, True)
    # From now on there is what was known, with its age.
    third = impatient.page("/users")
    assert "ago: the cluster has not answered yet" in third
    settled(impatient)


def test_a_preview_is_for_the_one_who_asked_and_is_given_once(impatient):
    wanted = AlterTopic("logs.app", "retention.ms", "7200000")

    def preview(user):
        try:
            return asyncio.run(plan(impatient.console, impatient.watched, "alter-topic", user, wanted))
        except NotAnsweredError:
            return None

    assert preview("alice") is None
    settled(impatient)
    assert preview("bob") is None
    found = preview("alice")
    assert [one.after for one in found.effects] == ["7200000"]
    assert preview("alice") is None
    settled(impatient)


def test_what_was_read_before_it_was_masked_is_not_shown(impatient):
    asked = {"topic": "orders", "partition": 0, "count": 1}
    assert impatient.get("/messages", **asked)["is_pending"]
    settled(impatient)
    impatient.rules.write_text('[[mask]]\nfields = ["value"]\n')
    assert impatient.get("/messages", **asked)["records"] == []
    settled(impatient)
    (record,) = impatient.get("/messages", **asked)["records"]
    assert record["value"]["text"] == "***"


def test_the_overview_of_the_first_look_is_one(impatient, monkeypatch):
    collector = impatient.watched._collector

    def first_look():
        """What is shown of one, unless the look that the site has begun with ends in between."""
        monkeypatch.setattr(collector, "snapshot", replace(collector.snapshot, refreshed_ms=0))
        shown, page = impatient.get("")["refreshed_s"], impatient.page("")
        return shown["state"], shown["why"], "TopicDescription" in page

    eventually(first_look, ("unknown", "the first look is not over", False))


def test_a_list_that_was_asked_for_before_a_change_is_not_shown_after_it(impatient):
    actions = "/api/v1/clusters/demo"
    wanted = asdict(AlterTopic("logs.app", "retention.ms", "5400000"))

    def changed():
        """Whether it is done; a broker may not have heard yet of the value that another one has previewed."""
        preview = impatient.request("POST", f"{actions}/actions/alter-topic", json=wanted)
        settled(impatient)
        if preview.status_code == 503:
            return False
        # The answer of the page comes before the change, and nobody has seen it, nor that of a try before.
        until(lambda: impatient.get("/configs/topic/logs.app")["is_pending"], "a question of its own")
        settled(impatient)
        confirm = {"confirm": preview.json()["subject"]}
        done = impatient.request("POST", f"{actions}/plans/{preview.json()['id']}", json=confirm)
        return done.status_code == 200

    until(changed, "the change")
    assert impatient.get("/configs/topic/logs.app")["is_pending"]
    settled(impatient)

    def value():
        rows = impatient.get("/configs/topic/logs.app")["configs"]
        settled(impatient)
        return [one["value"] for one in rows if one["name"] == "retention.ms"]

    until(lambda: value() == ["5400000"], "all brokers to hear of it")


def test_a_change_whose_cluster_is_taken_away_ends_in_words(cluster, open_console):
    site = open_console(cluster.bootstrap_servers, allow_changes=True)
    site.look()
    slow = cluster.plant(Fault("IncrementalAlterConfigs", delay_ms=60_000, skip=1))
    wanted = asdict(AlterBrokers("message.max.bytes", "1048600"))
    plan = site.request("POST", "/api/v1/clusters/demo/actions/alter-brokers", json=wanted).json()
    path, confirm = f"/api/v1/clusters/demo/plans/{plan['id']}", {"confirm": plan["subject"]}
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(site.request, "POST", path, json=confirm)
        slow.wait()
        site.watched.close()
        answer = done.result()
    slow.remove()
    assert (answer.status_code, "whether it was done is not known" in answer.text) == (409, True)
    assert [one.outcome for one in site.console.audit.entries("demo")] == ["failed", "begun"]


def test_the_end_of_a_preview_that_is_refused_is_the_refusal(impatient):
    wanted = asdict(AlterTopic("not-there", "retention.ms", "1"))
    path = "/api/v1/clusters/demo/actions/alter-topic"
    assert impatient.request("POST", path, json=wanted).status_code == 503
    settled(impatient)
    assert impatient.request("POST", path, json=wanted).status_code == 409
