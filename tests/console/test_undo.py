"""Records that are produced from here, and changes that are taken back from the audit log."""

import json

import pytest

from barnabas.admin import NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka
from waiting import until


@pytest.fixture(scope="module")
def kafka():
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Kafka(1, settings=settings) as kafka:
        kafka.admin.topics.create([NewTopic("orders", partitions=2), NewTopic("grown")])
        with Producer(kafka.bootstrap_servers) as producer:
            for number in range(10):
                producer.send_and_wait("orders", f"{number}", partition=number % 2)
        kafka.admin.groups.alter_offsets("readers", {TopicPartition("orders", 0): OffsetAndMetadata(3)})
        yield kafka


@pytest.fixture
def acting(kafka, open_console):
    return open_console(kafka.bootstrap_servers, allow_changes=True)


def post(site, path, body=None):
    return site.request("POST", f"/api/v1/clusters/demo{path}", json=body or {})


def done(site, kind, **parameters):
    """The id of a change that was carried out, and its note."""
    preview = post(site, f"/actions/{kind}", parameters)
    assert preview.status_code == 200, preview.text
    return confirmed(site, preview.json())


def confirmed(site, preview):
    answer = post(site, f"/plans/{preview['id']}", {"confirm": preview["subject"]})
    assert answer.status_code == 200, answer.text
    return answer.json()


def undone(site, change):
    """Takes a change back; its preview."""
    preview = post(site, f"/audit/{change['plan']}/undo")
    assert preview.status_code == 200, preview.text
    confirmed(site, preview.json())
    return preview.json()


def test_a_record_is_produced_as_the_preview_shows(acting, tmp_path):
    preview = post(
        acting, "/actions/produce-record",
        {"topic": "orders", "key": "k", "value": '{"card": "4000"}', "value_form": "json", "partition": 1,
         "headers": "trace: a:b\n\nempty:"},
    ).json()  # fmt: skip
    assert preview["content"] == [
        ["key", "k"],
        ["value", '{"card": "4000"}'],
        ["trace", "a:b"],
        ["empty", ""],
    ]
    answer = confirmed(acting, preview)
    assert answer["note"] == "stored in orders-1 at offset 5"
    (one,) = acting.get("/messages", topic="orders", positions="1:5")["records"]
    assert (one["key"]["text"], one["value"]["text"]) == ("k", '{"card": "4000"}')
    assert [(name, part["text"]) for name, part in one["headers"]] == [("trace", "a:b"), ("empty", "")]
    log = next(tmp_path.rglob("audit.jsonl")).read_text()
    assert "value 16 bytes" in log
    assert "4000" not in log
    again = post(acting, f"/plans/{preview['id']}", {"confirm": "orders"})
    assert again.status_code == 409


def test_a_tombstone_and_bytes(acting):
    done(acting, "produce-record", topic="orders", key="00ff", key_form="hex", value_form="null", partition=0)
    (one,) = acting.get("/messages", topic="orders", positions="0:5")["records"]
    assert (one["key"]["text"], one["key"]["form"], one["value"]["form"]) == ("00 ff", "hex", "null")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"value": "{", "value_form": "json"}, "no JSON"),
        ({"value": "NaN", "value_form": "json"}, "no JSON"),
        ({"value": "0g", "value_form": "hex"}, "hexadecimal"),
        ({"value": "x", "value_form": "null"}, "null and has a text"),
        ({"headers": "no colon"}, "NAME: VALUE"),
        ({"partition": 9}, "no partition 9"),
        ({"topic": "__consumer_offsets"}, "cluster's own"),
    ],
)
def test_a_record_that_cannot_be_is_refused(acting, more, said):
    answer = post(acting, "/actions/produce-record", {"topic": "orders", **more})
    assert (answer.status_code, said in answer.text) == (409, True), answer.text


def test_a_read_only_console_produces_and_takes_back_nothing(kafka, open_console):
    site = open_console(kafka.bootstrap_servers)
    for path in ("/actions/produce-record", "/audit/x/undo"):
        assert post(site, path, {"topic": "orders"}).status_code == 403


def value(acting, key):
    (one,) = [one for one in acting.get("/configs/topic/orders")["configs"] if one["name"] == key]
    return one["value"], one["source"]


def test_a_configuration_is_taken_back_to_what_it_was(acting):
    first = done(acting, "alter-topic", topic="orders", key="retention.ms", value="1000000")
    second = done(acting, "alter-topic", topic="orders", key="retention.ms", value="2000000")
    preview = undone(acting, second)
    assert [(one["before"], one["after"]) for one in preview["effects"]] == [("2000000", "1000000")]
    assert preview["warnings"] == []
    undone(acting, first)
    assert value(acting, "retention.ms")[1] != "TOPIC"


def test_what_was_changed_since_is_said(acting):
    first = done(acting, "alter-topic", topic="orders", key="segment.ms", value="1000000")
    done(acting, "alter-topic", topic="orders", key="segment.ms", value="3000000")
    warnings = post(acting, f"/audit/{first['plan']}/undo").json()["warnings"]
    assert any("it was 1000000, it is 3000000" in one for one in warnings)


def positions(kafka, group):
    found = kafka.admin.groups.offsets([group])[group]
    return {str(tp): one.offset for tp, one in found.items()}


def test_positions_are_taken_back_those_that_were_none_too(acting, kafka):
    change = done(acting, "reset-offsets", group="readers", topic="orders", to="latest")
    assert positions(kafka, "readers").keys() == {"orders-0", "orders-1"}
    undone(acting, change)
    assert positions(kafka, "readers") == {"orders-0": 3}
    gone = done(acting, "delete-group", group="readers")
    assert positions(kafka, "readers") == {}
    undone(acting, gone)
    assert positions(kafka, "readers") == {"orders-0": 3}


def test_a_rule_and_a_quota_are_taken_back(acting, kafka):
    rule = {"resource": "topic", "name": "other", "principal": "User:alice"}
    change = done(acting, "add-acl", **rule)
    until(lambda: len(kafka.admin.acls.describe()) == 1, "the rule is there")
    undone(acting, change)
    until(lambda: not kafka.admin.acls.describe(), "the rule is gone")
    first = done(acting, "set-quota", key="producer_byte_rate", user="alice", value="1000")
    second = done(acting, "set-quota", key="producer_byte_rate", user="alice", value="2000")
    undone(acting, second)
    undone(acting, first)
    assert acting.get("/quotas")["quotas"] == []


def test_the_audit_log_has_no_secret_that_was_never_set_before(acting, tmp_path):
    """Of all brokers the cluster names only what is set; a key that no broker knows may be a secret one."""
    wanted = {"key": "my.reporter.secret", "value": "s3cret"}
    preview = post(acting, "/actions/alter-brokers", wanted)
    assert (preview.status_code, "s3cret" in preview.text) == (200, False), preview.text
    assert preview.json()["effects"][0]["after"] == "hidden"
    change = confirmed(acting, preview.json())
    log = next(tmp_path.rglob("audit.jsonl")).read_text()
    assert ("hidden" in log, "s3cret" in log) == (True, False)
    refused = post(acting, f"/audit/{change['plan']}/undo")
    assert (refused.status_code, "nothing to take back" in refused.text) == (409, True)


def test_a_change_is_taken_back_however_much_was_done_since(acting, tmp_path):
    change = done(acting, "alter-topic", topic="orders", key="flush.messages", value="7")
    (path,) = tmp_path.rglob("audit.jsonl")
    other = json.loads(path.read_text().splitlines()[-1]) | {"plan": "other"}
    with path.open("a") as file:
        file.writelines([json.dumps(other) + "\n"] * 1_000)
    assert all(one["plan"] == "other" for one in acting.get("/audit"))
    undone(acting, change)
    assert value(acting, "flush.messages")[1] != "TOPIC"


def test_what_nothing_takes_back_is_refused(acting):
    change = done(acting, "expand-topic", topic="grown", partitions=3)
    for plan in (change["plan"], "unknown"):
        answer = post(acting, f"/audit/{plan}/undo")
        assert (answer.status_code, "nothing to take back" in answer.text) == (409, True)


def test_old_lines_of_the_audit_log_are_read(acting, tmp_path):
    done(acting, "alter-topic", topic="orders", key="flush.ms", value="1000")
    (path,) = tmp_path.rglob("audit.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({k: v for k, v in one.items() if k != "undo"}) + "\n" for one in lines)
    )
    assert [one["outcome"] for one in acting.get("/audit")] == ["done", "begun"]
    assert acting.get("/audit")[0]["undo"] is None
    assert "Take back" not in acting.page("/audit")


def test_the_page_takes_back_what_it_shows(acting):
    change = done(acting, "alter-topic", topic="orders", key="flush.ms", value="2000")
    page = acting.page("/audit")
    assert f"/audit/{change['plan']}/undo" in page
    token = page.partition('name="token" value="')[2].partition('"')[0]
    for given, status in ((token, 200), ("", 403)):
        answer = acting.request("POST", f"/c/demo/audit/{change['plan']}/undo", data={"token": given})
        assert answer.status_code == status, answer.text
