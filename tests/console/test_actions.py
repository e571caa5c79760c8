"""Actions: a preview changes nothing, is what gets executed, once, when it is confirmed; who did it is
written.
"""

import asyncio
import json
import re

import pytest

from barnabas.admin import NewTopic, OffsetAndMetadata, PartitionReassignment
from barnabas.client import Consumer, Producer
from barnabas.console.actions.partitions import CancelReassignment, cancel_reassignment
from barnabas.console.actions.plans import Effect, Planned, Plans
from barnabas.console.stores.line_log import LineLog
from barnabas.core.errors import KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.operations.errors import OperationError
from barnabas.testing import Kafka
from waiting import eventually, until


@pytest.fixture(scope="module")
def kafka():
    with Kafka(2) as kafka:
        yield kafka


@pytest.fixture
def acting(kafka, open_console):
    site = open_console(kafka.bootstrap_servers, allow_changes=True)
    site.look()
    return site


@pytest.fixture
def topic(kafka):
    """A topic with 5 records in each of two partitions."""
    name = kafka.create_topic(partitions=2, replication_factor=1)
    with Producer(kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send_and_wait(name, b"v", partition=number % 2, timestamp_ms=1000 * number)
    return name


def post(site, path, body):
    return site.request("POST", f"/api/v1/clusters/demo{path}", json=body)


def previewed(site, kind, **parameters):
    answer = post(site, f"/actions/{kind}", parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def confirmed(site, preview, confirm=None):
    return post(site, f"/plans/{preview['id']}", {"confirm": confirm or preview["subject"]})


def effects(preview):
    return {one["subject"]: (one["before"], one["after"]) for one in preview["effects"]}


def topics(kafka):
    return [one.name for one in kafka.admin.topics.list()]


def partitions(kafka, topic):
    """Of a topic, as any broker says, which learns a moment later what the controller did; 0: no topic."""
    try:
        return len(kafka.admin.topics.describe(topic)[topic].partitions)
    except KafkaError:
        return 0


def test_a_console_that_only_reads_refuses(site):
    answer = post(site, "/actions/delete-topic", {"topic": "orders"})
    assert (answer.status_code, "--allow-changes" in answer.json()["error"]) == (403, True)


def test_a_topic_is_created_expanded_and_deleted(acting, kafka):
    made = previewed(acting, "create-topic", topic="made", partitions=1, configs="retention.ms=1000")
    assert effects(made)["topic made"] == ("not there", "partitions: 1, replicas of each: 1")
    assert "made" not in topics(kafka)
    assert confirmed(acting, made).status_code == 200
    eventually(lambda: partitions(kafka, "made"), 1)

    grown = previewed(acting, "expand-topic", topic="made", partitions=3)
    assert effects(grown) == {"partitions of made": ("1", "3")}
    assert confirmed(acting, grown).status_code == 200
    eventually(lambda: partitions(kafka, "made"), 3)

    gone = previewed(acting, "delete-topic", topic="made")
    assert confirmed(acting, gone).status_code == 200
    eventually(lambda: partitions(kafka, "made"), 0)


def test_offsets_are_reset_to_what_the_preview_shows(acting, kafka, topic):
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    kafka.admin.groups.alter_offsets("g", {first: OffsetAndMetadata(5), second: OffsetAndMetadata(5)})
    body = {"group": "g", "topic": topic, "partitions": "0", "to": "offset", "value": 99}
    nothing = post(acting, "/actions/reset-offsets", body)  # 99 becomes the end, where the group is
    assert (nothing.status_code, nothing.json()["error"]) == (409, "nothing would change")
    preview = previewed(acting, "reset-offsets", group="g", topic=topic, to="time", value=4000)
    assert effects(preview) == {str(first): ("5", "2"), str(second): ("5", "2")}
    assert kafka.offsets("g")[first].offset == 5

    assert confirmed(acting, preview).status_code == 200
    assert {tp: one.offset for tp, one in kafka.offsets("g").items()} == {first: 2, second: 2}


@pytest.mark.parametrize(
    ("kind", "of"), [("alter-topic", "topic"), ("alter-broker", "broker"), ("alter-brokers", None)]
)
def test_a_value_that_is_not_set_is_not_taken_away(acting, topic, kind, of):
    key = "retention.ms" if of == "topic" else "log.cleaner.threads"
    body = {"key": key, "value": ""} | ({of: topic if of == "topic" else 0} if of else {})
    nothing = post(acting, f"/actions/{kind}", body)
    assert (nothing.status_code, nothing.json()["error"]) == (409, "nothing would change")


def test_nothing_is_done_twice(acting, kafka, topic):
    preview = previewed(acting, "truncate-topic", topic=topic)
    assert confirmed(acting, preview).status_code == 200
    again = confirmed(acting, preview)
    assert (again.status_code, "no such preview" in again.json()["error"]) == (409, True)


def test_a_wrong_confirmation_does_nothing_and_can_be_mended(acting, kafka, topic):
    preview = previewed(acting, "delete-topic", topic=topic)
    wrong = confirmed(acting, preview, "something else")
    assert (wrong.status_code, "nothing was done" in wrong.json()["error"]) == (409, True)
    assert topic in topics(kafka)
    assert confirmed(acting, preview).status_code == 200


def test_what_has_changed_since_the_preview_is_not_overwritten(open_console):
    """Two operators at once; of one broker, for of two the second may hear of the change too late."""
    with Kafka() as kafka:
        acting = open_console(kafka.bootstrap_servers, allow_changes=True)
        acting.look()
        _two_operators_at_once(acting, kafka.create_topic())


def _two_operators_at_once(acting, topic):
    mine = previewed(acting, "alter-topic", topic=topic, key="retention.ms", value="1000")
    theirs = previewed(acting, "alter-topic", topic=topic, key="retention.ms", value="2000")
    assert confirmed(acting, theirs).status_code == 200
    late = confirmed(acting, mine)
    assert (late.status_code, "not as it was in the preview" in late.json()["error"]) == (409, True)
    entries = acting.get("/audit")
    assert [(one["kind"], one["outcome"]) for one in entries[:3]] == [
        ("alter-topic", "failed"),
        ("alter-topic", "begun"),
        ("alter-topic", "done"),
    ]


def test_records_that_came_after_the_preview_are_not_deleted(acting, kafka, topic):
    preview = previewed(acting, "truncate-topic", topic=topic)
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send_and_wait(topic, b"late", partition=0)
    assert confirmed(acting, preview).status_code == 200
    assert [record.value for record in kafka.records(topic)] == [b"late"]


def test_a_group_with_members_is_left_alone(acting, kafka, topic):
    with Consumer(kafka.bootstrap_servers, group_id="busy", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        consumer.poll(2000)
        kafka.wait_for_group("busy", state="Stable", members=1)
        answer = post(acting, "/actions/reset-offsets", {"group": "busy", "topic": topic})
        assert (answer.status_code, "stop them first" in answer.json()["error"]) == (409, True)


def test_a_topic_is_moved_as_the_preview_shows(acting, kafka, topic):
    before = {
        one.partition: list(one.replicas) for one in kafka.admin.topics.describe(topic)[topic].partitions
    }
    target = 1 - before[0][0]
    preview = previewed(acting, "reassign", topic=topic, brokers=str(target))
    assert confirmed(acting, preview).status_code == 200

    def replicas():
        return [list(one.replicas) for one in kafka.admin.topics.describe(topic)[topic].partitions]

    until(lambda: replicas() == [[target]] * 2, "the partitions to be moved")


class _Moves:
    """As much of an admin client as a reassignment is cancelled with."""

    def __init__(self, moving):
        self.partitions, self.moving, self.cancelled = self, moving, []

    async def reassignments(self, **_):
        return dict(self.moving)

    async def try_reassign(self, changes, **_):
        self.cancelled.append(changes)
        return dict.fromkeys(changes)


def test_only_the_moves_that_the_preview_shows_are_cancelled():
    tp, other = TopicPartition("t", 0), TopicPartition("t", 1)
    move = PartitionReassignment([1, 2], [2], [1])
    admin = _Moves({tp: move, TopicPartition("x", 0): move})
    planned = asyncio.run(cancel_reassignment(admin, CancelReassignment("t")))
    assert [(one.subject, one.before) for one in planned.effects] == [
        ("replicas of t-0", "adding [2], removing [1]")
    ]
    for now in ({}, {tp: PartitionReassignment([1, 3], [3], [1])}):
        admin.moving = now  # it has arrived; or somebody has sent it elsewhere
        with pytest.raises(OperationError, match="nothing was done"):
            asyncio.run(planned.carry_out(admin))
    admin.moving = {tp: move, other: move}  # another partition has begun to move
    asyncio.run(planned.carry_out(admin))
    assert admin.cancelled == [{tp: None}]


def test_nobody_pushes_out_what_another_one_is_about_to_confirm():
    plans = Plans()
    planned = Planned("s", [Effect("s", "1", "2")], None)

    def keep(user):
        return plans.keep("demo", "kind", user, planned, now_ms=0).id

    mine = keep("me")
    first, *_, last = [keep("busy") for _ in range(60)]
    for user in range(150):
        keep(f"user {user}")
    assert plans.take(mine, "demo", "me", "s", 0).user == "me"
    assert plans.take(last, "demo", "busy", "s", 0).user == "busy"
    with pytest.raises(OperationError, match="no such preview"):
        plans.take(first, "demo", "busy", "s", 0)


def test_a_group_that_went_on_since_the_preview_is_not_deleted(acting, kafka, topic):
    tp = TopicPartition(topic, 0)
    kafka.admin.groups.alter_offsets("gone-on", {tp: OffsetAndMetadata(2)})
    previews = [
        previewed(acting, "delete-offsets", group="gone-on", topic=topic),
        previewed(acting, "delete-group", group="gone-on"),
    ]
    kafka.admin.groups.alter_offsets("gone-on", {tp: OffsetAndMetadata(3)})
    for preview in previews:
        answer = confirmed(acting, preview)
        assert (answer.status_code, "nothing was done" in answer.json()["error"]) == (409, True)
    assert kafka.offsets("gone-on")[tp].offset == 3


def test_a_topic_that_was_made_anew_since_the_preview_is_not_emptied(acting, kafka, topic):
    preview = previewed(acting, "truncate-topic", topic=topic)
    kafka.admin.topics.delete([topic])

    def is_made_anew():
        try:
            return kafka.admin.topics.create(NewTopic(topic, 2, 1))
        except KafkaError:
            return False

    until(is_made_anew, "the name to be free")
    until(lambda: partitions(kafka, topic) == 2, "the topic to be there")
    answer = confirmed(acting, preview)
    assert (answer.status_code, "nothing was done" in answer.json()["error"]) == (409, True)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("create-topic", {"topic": "x", "partitions": 1 << 31}),
        ("expand-topic", {"topic": "x", "partitions": 1 << 31}),
        ("set-offset", {"group": "g", "topic": "x", "partition": 0, "offset": 1 << 63}),
        ("set-offset", {"group": "g", "topic": "x", "partition": 1 << 31, "offset": 0}),
        ("reset-offsets", {"group": "g", "to": "shift", "value": -(1 << 63)}),
        ("reassign", {"topic": "x", "brokers": "0", "throttle": 1 << 63}),
        ("produce-record", {"topic": "x", "partition": 1 << 31}),
        ("alter-broker", {"broker": 1 << 31, "key": "k"}),
        ("move-log-dir", {"topic": "x", "partition": 0, "broker": 1 << 31, "log_dir": "/d"}),
        ("abort-hanging", {"topic": "x", "partition": 0, "start_offset": 1 << 63}),
    ],
)
def test_a_number_that_the_protocol_cannot_say_is_refused(acting, kind, body):
    answer = post(acting, f"/actions/{kind}", body)
    assert (answer.status_code, "less than or equal" in answer.text or "greater" in answer.text) == (
        422,
        True,
    )


def test_a_change_without_its_last_line_is_said_to_be_done(acting, kafka, topic, monkeypatch):
    preview = previewed(acting, "delete-topic", topic=topic)
    append = LineLog.append

    def full(log, *lines):
        if '"begun"' not in lines[0]:
            raise OSError(28, "No space left on device")
        append(log, *lines)

    monkeypatch.setattr(LineLog, "append", full)
    answer = confirmed(acting, preview)
    assert (answer.status_code, "it was done, but" in answer.json()["error"]) == (409, True)
    until(lambda: topic not in topics(kafka), "the topic to be gone")


def test_the_audit_log_has_who_what_before_and_after(acting, topic, tmp_path):
    preview = previewed(acting, "delete-topic", topic=topic)
    confirmed(acting, preview)
    file = acting.console.data / "audit.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(one["outcome"], one["user"], one["subject"]) for one in lines] == [
        ("begun", "operator", topic),
        ("done", "operator", topic),
    ]
    assert lines[0]["effects"] == [dict(one) for one in preview["effects"]]
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(file.read_text() + '{"cut off')
    assert len(acting.get("/audit")) == 2


def test_what_cannot_be_written_down_is_not_done(acting, kafka, topic):
    (acting.console.data / "audit.jsonl").mkdir(parents=True)
    answer = confirmed(acting, previewed(acting, "delete-topic", topic=topic))
    assert (answer.status_code, "cannot be written" in answer.json()["error"]) == (409, True)
    assert topic in topics(kafka)


def test_forms_walk_from_the_parameters_to_the_deed(acting, kafka, topic):
    form = acting.page("/actions/delete-topic", topic=topic)
    token = re.search(r'name="token" value="(\w+)"', form)[1]
    assert f'value="{topic}"' in form
    shown = acting.request("POST", "/c/demo/actions/delete-topic", data={"token": token, "topic": topic})
    assert shown.status_code == 200, shown.text
    plan = re.search(r'action="(/c/demo/plans/[\w-]+)"', shown.text)[1]
    done = acting.request("POST", plan, data={"token": token, "confirm": topic})
    assert (done.status_code, "audit log" in done.text) == (200, True)
    until(lambda: topic not in topics(kafka), "the topic to be gone")


def test_a_form_says_what_the_default_is(acting):
    form = acting.page("/actions/create-topic")
    assert "-1: the cluster&#39;s default, num.partitions, now 1<" in form
    assert "-1: the cluster&#39;s default, default.replication.factor, now 1<" in form
    assert "KEY=VALUE, one a line" in form
    assert "bytes a second; 0: none" in acting.page("/actions/reassign")


def test_a_default_that_was_not_read_is_not_known(open_console):
    site = open_console("127.0.0.1:9", allow_changes=True)
    assert "num.partitions, which is not known" in site.page("/actions/create-topic")


def test_a_form_with_too_many_fields_is_refused_in_a_line(acting):
    body = {f"field{number}": "x" for number in range(60)}
    answer = acting.request("POST", "/c/demo/actions/delete-topic", data=body)
    assert (answer.status_code, "at most 50 fields" in answer.text) == (409, True)


@pytest.mark.parametrize("token", [{}, {"token": ""}, {"token": "0" * 64}])
def test_a_form_without_the_console_s_token_does_nothing(acting, kafka, topic, token):
    answer = acting.request("POST", "/c/demo/actions/delete-topic", data={**token, "topic": topic})
    assert answer.status_code == 403
    assert topic in topics(kafka)


def test_a_form_of_another_site_is_no_call_of_the_interface(acting, topic):
    """A browser sends such a body anywhere without asking; one that says it is JSON it does not."""
    body = json.dumps({"topic": topic})
    answer = acting.request(
        "POST",
        "/api/v1/clusters/demo/actions/delete-topic",
        content=body,
        headers={"content-type": "text/plain"},
    )
    assert answer.status_code in {409, 422}


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("create-topic", {"topic": "a b"}, "invalid"),
        ("create-topic", {"topic": "x", "configs": "nothing"}, "KEY=VALUE"),
        ("expand-topic", {"topic": "nope", "partitions": 2}, ""),
        ("alter-topic", {"topic": "nope", "key": "retention.ms", "value": "1"}, ""),
        ("reassign", {"topic": "nope", "brokers": "x"}, "ids of brokers"),
        ("delete-topic", {"topic": "__consumer_offsets"}, ""),
        ("reset-offsets", {"group": "g", "to": "sideways"}, "to"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(acting, kind, body, said):
    answer = post(acting, f"/actions/{kind}", body)
    assert answer.status_code in {409, 422}
    assert said in answer.json()["error"]
    assert "\n" not in answer.json()["error"]
