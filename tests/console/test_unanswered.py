"""Answers that come after their page: each is for whom it was made, as they may see it then."""

import asyncio
from dataclasses import replace

import pytest

from barnabas.console.access.files import WatchedFile
from barnabas.console.actions.topics import AlterTopic
from barnabas.console.questions import NotAnsweredError
from barnabas.console.web.action_routes import plan
from barnabas.operations.messages.masks import parsed
from barnabas.testing import Fault
from waiting import until


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
    monkeypatch.setattr(collector, "snapshot", replace(collector.snapshot, refreshed_ms=0))
    shown = impatient.get("")
    assert (shown["refreshed_s"]["state"], shown["refreshed_s"]["why"]) == (
        "unknown", "the first look is not over",
    )  # fmt: skip
    assert "TopicDescription" not in impatient.page("")
