"""What fails in another way than Kafka's errors say: every route answers one line with its status."""

import re

import pytest
from console_site import scraped_sender

from barnabas.console.actions.kinds import KINDS
from barnabas.console.web import routes
from barnabas.operations.errors import OperationError

FAILURES = (
    (KeyError("brokers"), "KeyError: 'brokers'"),
    (ConnectionResetError(104, "Connection reset by peer"), "[Errno 104] Connection reset by peer"),
    (ValueError("31 bytes are missing\nin an answer"), "ValueError: 31 bytes are missing in an answer"),
    (RecursionError(), "RecursionError"),
)
LIVE = {
    "/configs/{kind}/{name}": "/configs/topic/orders",
    "/explain/{kind}/{name}": "/explain/partition/orders-0",
    "/messages": "/messages?topic=orders",
    "/transactions/hanging": "/transactions/hanging",
    "/quorum": "/quorum",
    "/users": "/users",
    "/acls": "/acls",
    "/quotas": "/quotas",
    "/tokens": "/tokens",
    "/store": "/store",
}
"""What is asked when it is opened, with something for its parameters."""
OTHERS = {
    "/brokers/{broker_id}": "/brokers/0",
    "/topics/{name}": "/topics/orders",
    "/groups/{name}": "/groups/behind",
    "/clients/{name}": "/clients/sender",
    "/lag-rules/{name}": "/lag-rules/behind",
}
WANTED = {
    "create-topic": {"topic": "new", "partitions": 1, "replication_factor": 1},
    "alter-topic": {"topic": "orders", "key": "retention.ms", "value": "1"},
    "set-user": {"user": "u", "password": "s3cret"},
}
"""Parameters of an action, where a text for each is not enough."""


@pytest.fixture
def site(cluster, open_console):
    more = {"brokers": scraped_sender, "zookeeper_connect": "127.0.0.1:1"}
    site = open_console(cluster.bootstrap_servers, allow_changes=True, watched=more)
    site.look()
    return site


@pytest.fixture
def failing(site, monkeypatch):
    """Has whatever the console asks the cluster, or changes there, fail from now on with an exception."""

    def with_error(error):
        submit = site.watched.questions._submit

        def failed(work):
            work.close()

            async def fails():
                raise error

            return submit(fails())

        monkeypatch.setattr(site.watched, "_submit", failed)
        monkeypatch.setattr(site.watched.questions, "_submit", failed)

    return with_error


def documented(site):
    """The paths of OpenAPI below a cluster, with the methods of each."""
    document = site.request("GET", "/api/v1/openapi.json").json()
    prefix = "/api/v1/clusters/{cluster}"
    return {path.removeprefix(prefix): verbs for path, verbs in document["paths"].items()
            if path.startswith(prefix)}  # fmt: skip


@pytest.mark.parametrize(("error", "words"), FAILURES, ids=lambda one: type(one).__name__)
def test_every_page_of_what_is_asked_says_that_it_is_not_known(site, failing, error, words):
    failing(error)
    paths = [path for path, verbs in documented(site).items() if "get" in verbs]
    assert set(LIVE) <= set(paths)
    for path in paths:
        filled = LIVE.get(path) or OTHERS.get(path, path)
        assert "{" not in filled, "a path has nothing for its parameters"
        answer = site.request("GET", f"/api/v1/clusters/demo{filled}")
        page = site.request("GET", f"/c/demo{filled}")
        assert (answer.status_code, page.status_code) == (200, 200), (filled, answer.text)
        if path in LIVE:
            state = answer.json()["state"]
            assert (state["state"], state["why"]) == ("unknown", words), filled
            assert "Traceback" not in page.text


@pytest.mark.parametrize(("error", "words"), FAILURES[:2], ids=lambda one: type(one).__name__)
def test_every_change_says_in_one_line_that_it_was_not_done(site, failing, error, words, caplog):
    token = re.search('name="token" value="([0-9a-f]+)"', site.page("/actions/create-topic"))[1]
    failing(error)
    posts = [path for path, verbs in documented(site).items() if "post" in verbs]
    for path in posts:
        kind = path.removeprefix("/actions/")
        body = WANTED.get(kind) or {"why": "nothing"}
        if kind in KINDS and kind not in WANTED:
            body = dict.fromkeys(KINDS[kind].parameters.__dataclass_fields__, "1")
        filled = path.replace("{plan_id}", "none")
        answer = site.request("POST", f"/api/v1/clusters/demo{filled}", json=body)
        assert answer.status_code in {409, 422, 503}, (filled, answer.text)
        assert list(answer.json()) == ["error"]
        assert "\n" not in answer.json()["error"]
        page = site.request("POST", f"/c/demo{filled}", data={**body, "token": token})
        assert page.status_code in {303, 404, 405, 409, 422, 503}, (filled, page.text)
    refused = site.request("POST", "/api/v1/clusters/demo/actions/set-user", json=WANTED["set-user"])
    assert refused.status_code == 503
    assert refused.json() == {"error": f"there is no preview: {words}; nothing was done"}
    assert "s3cret" not in caplog.text


def test_a_change_that_fails_strangely_may_have_been_done(site, failing):
    below = "/api/v1/clusters/demo"
    plan = site.request("POST", f"{below}/actions/alter-topic", json=WANTED["alter-topic"]).json()
    failing(KeyError("brokers"))
    confirm = {"confirm": plan["subject"]}
    answer = site.request("POST", f"{below}/plans/{plan['id']}", json=confirm)
    assert answer.status_code == 500
    assert answer.json() == {"error": "KeyError: 'brokers': whether it was done is not known"}
    assert [one.outcome for one in site.console.audit.entries("demo")] == ["failed", "begun"]


def test_a_bug_of_a_view_is_one_line_and_stands_in_the_log(site, monkeypatch, caplog):
    def broken(*_):
        raise IndexError("of somebody else")

    monkeypatch.setattr(routes.overview_views, "overview", broken)
    answer = site.request("GET", "/api/v1/clusters/demo")
    words = "the console has failed here (IndexError); its log says more"
    assert (answer.status_code, answer.json()) == (500, {"error": words})
    page = site.request("GET", "/c/demo")
    assert (page.status_code, words in page.text, "somebody else" in page.text) == (500, True, False)
    assert "content-security-policy" in page.headers
    assert caplog.text.count("of somebody else") >= 2


def test_a_bug_of_the_page_that_says_so_is_one_line(site, monkeypatch):
    def broken(*_):
        raise OperationError("no such thing")

    monkeypatch.setattr(routes.overview_views, "overview", broken)
    monkeypatch.setattr("barnabas.console.web.app._problem", broken)
    answer = site.request("GET", "/c/demo")
    assert (answer.status_code, list(answer.json())) == (500, ["error"])
