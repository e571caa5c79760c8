"""A broker that is frozen (SIGSTOP): every page and every answer of REST comes within its time, and says what
is not known and whom it waits for. What changes something is not answered so.
"""

import re
import signal
import time
from urllib.parse import quote

import pytest
from console_site import scraped_sender

from barnabas.admin import Admin, NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.questions import PATIENCE_S
from barnabas.core.ids import TopicPartition
from waiting import until

WITHIN_S = 3.0
"""Pages wait for `PATIENCE_S`; a machine that has other work takes longer to write them."""
FROZEN = 2
LIVE = {
    "/configs/{kind}/{name}": f"/configs/broker/{FROZEN}",
    "/explain/{kind}/{name}": "/explain/partition/there-0",
    "/messages": "/messages?topic=there&partition=0&start=earliest",
    "/transactions/hanging": "/transactions/hanging",
}
"""What only the frozen broker can say."""
SUBJECTS = LIVE | {
    "/brokers/{broker_id}": f"/brokers/{FROZEN}",
    "/topics/{name}": "/topics/there",
    "/groups/{name}": "/groups/readers",
    "/lag-rules/{name}": "/lag-rules/readers",
    "/clients/{name}": "/clients/sender",
}


@pytest.fixture
def brokers(join_cluster):
    """Two brokers: of topic `there` the second one has the only replica of partition 0."""
    # The frozen one stays in the cluster: nothing but its silence says that it is frozen.
    patient = ("--set", "zookeeper.session.timeout.ms=120000")
    servers = [join_cluster(number, *patient) for number in (1, FROZEN)]
    for server in servers:
        server.wait_until_ready()
    with Admin(servers[0].bootstrap) as admin:
        admin.topics.create([NewTopic("there", assignment={0: [FROZEN], 1: [1]})])
        with Producer(servers[0].bootstrap) as producer:
            producer.send_and_wait("there", "value", partition=0)
        admin.groups.alter_offsets("readers", {TopicPartition("there", 0): OffsetAndMetadata(0)})
    yield servers
    servers[1].process.send_signal(signal.SIGCONT)
    for server in reversed(servers):
        server.kill()


def paths(site):
    """Below the cluster, every path of REST that is read, with something for its parameters."""
    document = site.request("GET", "/api/v1/openapi.json").json()
    prefix = "/api/v1/clusters/{cluster}"
    below = [path.removeprefix(prefix) for path, verbs in document["paths"].items()
             if "get" in verbs and path.startswith(prefix)]  # fmt: skip
    found = {path: SUBJECTS.get(path, path) for path in below}
    assert not [one for one in found.values() if "{" in one], "a path has nothing for its parameters"
    return found


def timed(site, method, path, **more):
    begun = time.monotonic()
    answer = site.request(method, path, **more)
    assert time.monotonic() - begun < WITHIN_S, path
    return answer


def read(site, path):
    return site.request("GET", f"/api/v1/clusters/demo{path}").json()


def is_whole(site, path):
    """Whether the page has what it is about."""
    found = read(site, path)
    return found["state"]["state"] == "ok" and not found["is_pending"]


def test_pages_do_not_wait_for_a_frozen_broker_and_are_whole_again_after_it(brokers, open_console):
    bootstrap = ",".join(one.bootstrap for one in brokers)
    site = open_console(
        bootstrap, patience_s=PATIENCE_S, allow_changes=True, watched={"brokers": scraped_sender}
    )
    site.look()
    change = {"broker": FROZEN, "key": "message.max.bytes", "value": "1048600"}
    preview, form = "/api/v1/clusters/demo/actions/alter-broker", "/c/demo/actions/alter-broker"
    token = re.search('name="token" value="([0-9a-f]+)"', site.page("/actions/alter-broker"))[1]
    brokers[1].process.send_signal(signal.SIGSTOP)
    for path, filled in paths(site).items():
        for prefix in ("/api/v1/clusters/demo", "/c/demo"):
            answer = timed(site, "GET", prefix + filled)
            if path == "/store":  # this console was not told where the store is
                assert answer.status_code == 409
                continue
            assert answer.status_code == 200, (filled, answer.text)
            if path in LIVE:
                assert "has not answered yet" in answer.text, (filled, answer.text)
    for path in ("/", "/metrics", "/api/v1/clusters", "/api/v1/openapi.json"):
        assert timed(site, "GET", path).status_code == 200
    marked = read(site, LIVE["/messages"])
    assert (marked["state"]["state"], marked["is_pending"], marked["records"]) == ("unknown", True, [])
    assert f"broker {FROZEN} has not answered yet" in marked["state"]["why"]
    page = site.request("GET", "/c/demo" + LIVE["/messages"]).text
    assert f"Unknown: broker {FROZEN} has not answered yet" in page
    assert 'data-refresh="2"' in page
    # A preview that does not come changes nothing, and says so.
    refused = timed(site, "POST", preview, json=change)
    assert refused.status_code == 503
    assert "nothing was done; ask for the preview again" in refused.json()["error"]
    again = timed(site, "POST", form, data={**change, "token": token})
    assert (again.status_code, 'value="1048600"' in again.text) == (503, True)
    assert not site.get("/audit")

    brokers[1].process.send_signal(signal.SIGCONT)
    for path in LIVE.values():
        until(lambda path=path: is_whole(site, path), f"{path} to be whole")
    records = read(site, LIVE["/messages"])["records"]
    assert [one["value"]["text"] for one in records] == ["value"]

    def planned():
        answer = site.request("POST", preview, json=change)
        return answer.json() if answer.status_code == 200 else None

    plan = until(planned, "the preview")
    confirm = {"confirm": plan["subject"]}
    outcomes = [
        site.request("POST", f"/api/v1/clusters/demo/plans/{quote(plan['id'])}", json=confirm).status_code
        for _ in range(2)
    ]
    assert outcomes == [200, 409]
    assert [(one["kind"], one["outcome"]) for one in site.get("/audit")].count(("alter-broker", "done")) == 1
