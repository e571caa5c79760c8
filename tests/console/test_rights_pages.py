"""Users, access rules, quotas, the quorum, and what hangs: pages and what can be done from them."""

from types import SimpleNamespace

import pytest

from barnabas.admin import NewTopic, OffsetAndMetadata, QuorumInfo, QuorumReplica, TopicPartitionReplica
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.client import Producer
from barnabas.console.actions.kinds import KINDS
from barnabas.console.kept_admin import KeptAdmin
from barnabas.core.ids import TopicPartition
from barnabas.testing import Kafka
from waiting import eventually, until


@pytest.fixture(scope="module")
def kafka():
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Kafka(3, settings=settings) as kafka:
        yield kafka


@pytest.fixture
def acting(kafka, open_console):
    site = open_console(kafka.bootstrap_servers, allow_changes=True)
    site.look()
    return site


def post(site, path, body):
    return site.request("POST", f"/api/v1/clusters/demo{path}", json=body)


def previewed(site, kind, **parameters):
    answer = post(site, f"/actions/{kind}", parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def done(site, kind, **parameters):
    """The action, from its preview to its end; the effects of the preview."""
    preview = previewed(site, kind, **parameters)
    answer = post(site, f"/plans/{preview['id']}", {"confirm": preview["subject"]})
    assert answer.status_code == 200, answer.text
    return shown(preview)


def shown(preview):
    return {one["subject"]: (one["before"], one["after"]) for one in preview["effects"]}


def effects(site, kind, **parameters):
    """Of a preview; None where nothing would change."""
    answer = post(site, f"/actions/{kind}", parameters)
    return shown(answer.json()) if answer.status_code == 200 else None


def settled(look, expected):
    """Waits until brokers agree: each may be asked, and hears a moment later than the one that did it."""
    until(lambda: all(look() == expected for _ in range(12)), f"brokers to say {expected}")


def refusal(site, kind, **parameters):
    answer = post(site, f"/actions/{kind}", parameters)
    assert answer.status_code in {409, 422}, answer.text
    return answer.json()["error"]


def test_a_user_gets_a_password_another_one_and_none(acting, kafka):
    made = done(acting, "set-user", user="alice", password="secret-1", iterations=4096)
    assert made == {"SCRAM-SHA-512 of alice": ("not there", "a new password, 4096 iterations")}
    assert kafka.admin.quotas.scram_credentials(["alice"]) == {"alice": {2: 4096}}
    rows = acting.get("/users")["users"]
    assert rows == [{"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096, "why": None}]
    again = done(acting, "set-user", user="alice", password="secret-2")
    assert again["SCRAM-SHA-512 of alice"][0] == "a password, 4096 iterations"
    page = acting.page("/users")
    assert "alice" in page
    done(acting, "delete-user", user="alice")
    assert acting.get("/users")["users"] == []
    assert "has no SCRAM-SHA-512" in refusal(acting, "delete-user", user="alice")
    log = (acting.console.data / "audit.jsonl").read_text()
    assert "set-user" in log
    assert "secret" not in log


def test_a_password_stands_in_no_page_and_no_link(acting):
    form = acting.page("/actions/set-user", user="alice", password="secret")
    assert 'name="password" type="password" value=""' in form
    assert "secret" not in form


def test_a_rule_is_added_and_taken_away(acting, kafka):
    rule = {"resource": "topic", "name": "orders", "principal": "User:bob", "operation": "write"}
    made = previewed(acting, "add-acl", **rule)
    assert any("first rule" in one for one in made["warnings"])
    assert done(acting, "add-acl", **rule) == {
        "User:bob from *: allow write of topic orders (literal)": ("not there", "there")
    }
    settled(lambda: len(kafka.admin.acls.describe()), 1)
    [row] = acting.get("/acls")["acls"]
    assert (row["principal"], row["operation"], row["permission"]) == ("User:bob", "write", "allow")
    assert refusal(acting, "add-acl", **rule) == "nothing would change"
    deny = previewed(acting, "add-acl", **rule, permission="deny")
    assert any("stronger" in one for one in deny["warnings"])
    assert "User:bob" in acting.page("/acls")
    # Just this rule: another host is another one.
    assert "no such rule" in refusal(acting, "delete-acl", **rule, host="127.0.0.1")
    done(acting, "delete-acl", **rule)
    settled(kafka.admin.acls.describe, [])


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"resource": "topic", "name": "x", "principal": "bob"}, "TYPE:NAME"),
        ({"resource": "cluster", "name": "x", "principal": "User:b"}, "kafka-cluster"),
        ({"resource": "group", "name": "x", "principal": "User:b", "operation": "write"}, "no operation"),
        ({"resource": "planet", "name": "x", "principal": "User:b"}, "resource"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(acting, rule, said):
    assert said in refusal(acting, "add-acl", **rule)


def test_a_quota_is_set_changed_and_taken_away(acting, kafka):
    of = {"key": "producer_byte_rate", "user": "alice", "client_id": "<default>"}
    named = "client-id <default>, user alice"
    assert done(acting, "set-quota", **of, value="1024") == {
        f"producer_byte_rate of {named}": ("none", "1024")
    }
    assert acting.get("/quotas")["quotas"] == [
        {
            "entity": {"user": "alice", "client-id": None},
            "named": named,
            "key": "producer_byte_rate",
            "value": 1024,
        }
    ]
    assert "alice" in acting.page("/quotas")
    mine = previewed(acting, "set-quota", **of, value="2048")
    kafka.admin.quotas.alter(
        ClientQuotaAlteration({"user": "alice", "client-id": None}, {"producer_byte_rate": 5.0})
    )
    late = post(acting, f"/plans/{mine['id']}", {"confirm": named})
    assert (late.status_code, "not as it was" in late.json()["error"]) == (409, True)
    done(acting, "set-quota", **of)
    assert acting.get("/quotas")["quotas"] == []
    for value in ("many", "-1", "0", "inf", "nan"):
        assert "number" in refusal(acting, "set-quota", **of, value=value)
    assert "of a user" in refusal(acting, "set-quota", key="request_percentage", value="1")


def test_what_cannot_be_read_is_unknown_and_says_why(open_console):
    with Kafka(1) as plain:
        site = open_console(plain.bootstrap_servers)
        site.look()
        for path in ("/acls", "/tokens"):
            state = site.get(path)["state"]
            assert (state["state"], bool(state["why"])) == ("unknown", True), path
            page = site.page(path)
            assert "Unknown: " in page
            assert "unknown" not in page.partition('id="not-known"')[2].partition("</p>")[2].lower()


def test_a_cluster_without_a_quorum_says_so_without_an_alarm(acting):
    def shown():
        found = acting.get("/quorum")
        return found["state"]["state"], found["leader"], found["replicas"]

    eventually(shown, ("ok", None, []))
    page = until(lambda: "metadata in ZooKeeper" in (found := acting.page("/quorum")) and found)
    assert 'id="not-known"' not in page


def test_the_quorum_has_voters_lag_and_epoch(acting, monkeypatch):
    """As a KRaft cluster answers; a genuine one is asked by the walk."""
    info = QuorumInfo(
        1, 7, 90, [QuorumReplica(1, 100, -1, -1), QuorumReplica(2, 95, 5, 5)], [QuorumReplica(9, -1, 5, 5)]
    )

    async def describe(**_):
        return info

    async def get(_self):
        return SimpleNamespace(cluster=SimpleNamespace(describe_quorum=describe))

    monkeypatch.setattr(KeptAdmin, "get", get)
    shown = acting.get("/quorum")
    assert (shown["leader"], shown["epoch"], shown["high_watermark"]) == (1, 7, 90)
    assert [(one["node"], one["is_voter"], one["lag"]) for one in shown["replicas"]] == [
        (1, True, 0),
        (2, True, 5),
        (9, False, -1),
    ]
    assert "observer" in acting.page("/quorum")


def test_offsets_are_copied_to_a_group_that_is_made(acting, kafka):
    topic = kafka.create_topic(partitions=2)
    with Producer(kafka.bootstrap_servers) as producer:
        for number in range(6):
            producer.send_and_wait(topic, b"v", partition=number % 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    kafka.admin.groups.alter_offsets("old", {first: OffsetAndMetadata(1), second: OffsetAndMetadata(3)})
    copied = done(acting, "copy-offsets", source="old", group="new")
    assert copied == {str(first): ("none", "1"), str(second): ("none", "3")}
    assert {tp: one.offset for tp, one in kafka.offsets("new").items()} == {first: 1, second: 3}
    assert "itself" in refusal(acting, "copy-offsets", source="old", group="old")
    assert "no positions" in refusal(acting, "copy-offsets", source="none", group="new")

    placed = done(acting, "set-offset", group="new", topic=topic, partition=0, offset=2)
    assert placed == {str(first): ("1", "2")}
    outside = previewed(acting, "set-offset", group="new", topic=topic, partition=0, offset=99)
    assert "outside the log" in outside["warnings"][0]
    assert "no partition 7" in refusal(acting, "set-offset", group="new", topic=topic, partition=7, offset=0)
    fresh = done(acting, "set-offset", group="chosen", topic=topic, partition=1, offset=3)
    assert fresh == {str(second): ("none", "3")}


def replicas(kafka, topic):
    return [list(one.replicas) for one in kafka.admin.topics.describe(topic)[topic].partitions]


def test_the_replication_factor_grows_and_shrinks(acting, kafka):
    topic = kafka.create_topic(partitions=3, replication_factor=1)
    settled(lambda: topic in [one.name for one in kafka.admin.topics.list()], True)
    before = replicas(kafka, topic)
    done(acting, "replication-factor", topic=topic, replication_factor=2)
    until(lambda: all(len(one) == 2 for one in replicas(kafka, topic)), "two replicas each")
    grown = replicas(kafka, topic)
    assert [one[:1] for one in grown] == before
    # New replicas go where the fewest are.
    count = [sum(broker in one for one in grown) for broker in range(3)]
    assert max(count) - min(count) <= 1
    until(lambda: not kafka.admin.partitions.reassignments(), "the end of the copies")
    done(acting, "replication-factor", topic=topic, replication_factor=1)
    until(lambda: replicas(kafka, topic) == before, "one replica each")
    assert "there are 3 brokers" in refusal(acting, "replication-factor", topic=topic, replication_factor=4)


def test_a_replica_s_directory_is_one_of_its_broker(acting, kafka):
    topic = kafka.create_topic(partitions=1, replication_factor=1)
    settled(lambda: topic in [one.name for one in kafka.admin.topics.list()], True)
    [[broker]] = replicas(kafka, topic)
    replica = TopicPartitionReplica(broker, topic, 0)
    until(lambda: kafka.admin.log_dirs.describe_replicas([replica])[replica].current_log_dir, "its replica")
    [directory] = kafka.admin.log_dirs.describe([broker])[broker]
    of = {"topic": topic, "partition": 0}
    assert refusal(acting, "move-log-dir", **of, broker=broker, log_dir=directory) == "nothing would change"
    assert directory in refusal(acting, "move-log-dir", **of, broker=broker, log_dir="/elsewhere")
    other = (broker + 1) % 3
    assert "no replica" in refusal(acting, "move-log-dir", **of, broker=other, log_dir=directory)


def test_a_key_of_all_brokers_is_set_and_taken_away(acting, kafka):
    key = "log.cleaner.threads"
    assert done(acting, "alter-brokers", key=key, value="2") == {f"all brokers {key}": ("null", "2")}
    back = {f"all brokers {key}": ("2", "the default")}
    settled(lambda: effects(acting, "alter-brokers", key=key), back)
    assert done(acting, "alter-brokers", key=key) == back
    assert "log.cleaner.threads" in refusal(acting, "alter-brokers", key=key, value="many")


def test_producers_of_an_id_are_fenced(acting, kafka):
    topic = kafka.create_topic(partitions=1)
    with Producer(kafka.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_and_wait(topic, b"v")
        effects = done(acting, "fence-producer", transactional_id="t")
        assert "what is open is aborted" in effects["producers of t"][1]
        with pytest.raises(Exception, match=r"fenced|epoch|newer"):
            producer.commit_transaction()
    assert refusal(acting, "fence-producer", transactional_id="not-there")
    acting.look()
    assert acting.get("/transactions/hanging")["hanging"] == []
    assert "open transactions" in refusal(acting, "abort-hanging", topic=topic, partition=0, start_offset=5)


def test_every_action_has_a_form(acting):
    for kind in KINDS:
        assert "Show what would change" in acting.page(f"/actions/{kind}"), kind


def test_new_replicas_go_to_those_that_have_the_fewest(acting, kafka):
    kafka.admin.topics.create(NewTopic("uneven", assignment={number: [0] for number in range(4)}))
    preview = previewed(acting, "replication-factor", topic="uneven", replication_factor=2)
    added = [one["after"].split(" ")[0].split(",")[1] for one in preview["effects"]]
    assert sorted(added) == ["1", "1", "2", "2"]
