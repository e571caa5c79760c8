"""The page of messages, its REST and its command: the same records, decoded, masked, in bounds."""

import asyncio
import base64
import http.server
import io
import json
import struct
import threading
from html import unescape

import fastavro
import pytest
from click.testing import CliRunner
from google.protobuf import descriptor_pb2

from barnabas.admin import NewTopic
from barnabas.cli.main import cli
from barnabas.client import Producer
from barnabas.console.access.files import WatchedFile
from barnabas.console.views import messages as message_views
from barnabas.operations.errors import OperationError
from barnabas.operations.messages.browse import MessageQuery
from barnabas.operations.messages.masks import parsed
from barnabas.operations.schemas.registry import RegistryClient
from barnabas.operations.schemas.source import SchemaSource
from barnabas.testing import Fault
from schema_registry import SchemaRegistry, serving
from waiting import until

USER = {"type": "record", "name": "User", "fields": [
    {"name": "id", "type": "long"},
    {"name": "card", "type": "string"},
    {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
]}  # fmt: skip
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
MASKS = '[[mask]]\ntopics = ["users"]\nfields = ["value.card"]\nkeep_last = 4\n'


@pytest.fixture
def site(standing_site):
    return standing_site


def framed(number, schema, value):
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return struct.pack(">bI", 0, number) + file.getvalue()


@pytest.fixture(scope="module")
def registered():
    """A registry with two schemas, and how often it was asked."""
    registry = SchemaRegistry()
    registry.register("users", json.dumps(USER))
    registry.register("nodes", json.dumps(NODE))
    with serving(registry) as address:
        registry.address = address
        yield registry


@pytest.fixture(scope="module")
def users(cluster):
    """A topic of Avro, JSON, bytes and a tombstone."""
    cluster.admin.topics.create(NewTopic("users", partitions=1))
    ada = {"id": 1, "card": "4000123412341234", "sum": "12.50"}
    avro = {"id": 1, "card": "4000123412341234", "sum": b"\x04\xe2"}
    values = [
        framed(1, {**USER, "fields": [*USER["fields"][:2], {"name": "sum", "type": "bytes"}]}, avro),
        json.dumps({**ada, "id": 2}).encode(),
        b"\xff\xfe4000123412341234",
        None,
        struct.pack(">bI", 0, 2) + b"\x02" * 200_000,
        struct.pack(">bI", 0, 99) + b"x",
    ]
    with Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send_and_wait("users", value, key=b"k", headers=[("trace", b"<b>")])


def texts(shown):
    return [one["value"]["text"] for one in shown["records"]]


def test_avro_is_read_by_the_registry(users, cluster, open_console, registered):
    site = open_console(cluster.bootstrap_servers, schemas=SchemaSource(RegistryClient(registered.address)))
    registered.asked.clear()  # other tests have asked too
    shown = site.get("/messages", topic="users", start="earliest")
    first, _, _, null, recursive, unknown = [one["value"] for one in shown["records"]]
    assert json.loads(first["text"]) == {"id": 1, "card": "4000123412341234", "sum": "12.50"}
    assert (first["form"], null["form"]) == ("avro", "null")
    assert "recursive" in recursive["why"]
    assert "no schema with the id 99" in unknown["why"]
    found = site.get("/messages", topic="users", start="earliest", filter="value.sum>=12.5\nvalue.id<2")
    assert ([one["offset"] for one in found["records"]], found["unjudged"]) == ([0], 3)
    assert len([one for one in registered.asked if one == "/schemas/ids/1"]) == 1


def test_protobuf_is_read_by_the_registry(cluster, open_console, registered):
    address = descriptor_pb2.FileDescriptorProto(name="x", package="shop", syntax="proto3")
    inner = address.message_type.add(name="Address")
    inner.field.add(name="street", number=1, type=9, label=1)
    order = descriptor_pb2.FileDescriptorProto(
        package="shop", syntax="proto3", dependency=["address.proto", "google/protobuf/timestamp.proto"]
    )
    order.message_type.add(name="Other")
    whole = order.message_type.add(name="Order")
    whole.field.add(name="total_cents", number=1, type=3, label=1)
    whole.field.add(name="to", number=2, type=11, label=1, type_name=".shop.Address")
    whole.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")

    def compiled(file):
        return base64.b64encode(file.SerializeToString()).decode()

    registered.register("address", compiled(address), kind="PROTOBUF")
    references = [{"name": "address.proto", "subject": "address", "version": 1}]
    number = registered.register("order", compiled(order), references, kind="PROTOBUF")
    topic = cluster.create_topic(partitions=1)
    message = b"\x08\x96\x01" + b"\x12\x06\x0a\x04Mill" + b"\x1a\x02\x08\x01"
    head = struct.pack(">bI", 0, number)
    with Producer(cluster.bootstrap_servers) as producer:
        for value in (
            b"\x02\x02" + message,
            b"\x02\x08" + message,
            b"\x00",
            b"\xff\xff\xff\xff\xff\xff",
            b"",
        ):
            producer.send_and_wait(topic, head + value)
    site = open_console(cluster.bootstrap_servers, schemas=SchemaSource(RegistryClient(registered.address)))
    shown = site.get("/messages", topic=topic, start="earliest", value="schema")
    first, wrong, other, *malformed = [one["value"] for one in shown["records"]]
    assert first["form"] == "protobuf"
    assert json.loads(first["text"]) == {
        "total_cents": "150", "to": {"street": "Mill"}, "at": "1970-01-01T00:00:01Z",
    }  # fmt: skip
    assert "no Protobuf schema with such a message" in wrong["why"]
    assert other["text"] == "{}"
    assert all("which message" in one["why"] for one in malformed)
    found = site.get("/messages", topic=topic, start="earliest", filter="value.to.street=Mill")
    assert [one["offset"] for one in found["records"]] == [0]


def test_a_registry_that_is_away_is_said(users, cluster, open_console):
    source = SchemaSource(RegistryClient("http://127.0.0.1:1", timeout_s=1))
    shown = open_console(cluster.bootstrap_servers, schemas=source).get("/messages", topic="users")
    assert "does not answer" in shown["records"][0]["value"]["why"]


def test_a_record_with_more_headers_than_a_page_shows_says_so(cluster, open_console):
    topic = cluster.create_topic(partitions=1)
    with Producer(cluster.bootstrap_servers) as producer:
        headers = [(f"h{number}", b"x") for number in range(130)]
        producer.send_and_wait(topic, b"v", headers=headers)
    site = open_console(cluster.bootstrap_servers)
    (one,) = site.get("/messages", topic=topic, filter="header.h129=x")["records"]
    assert (len(one["headers"]), one["headers_left_out"]) == (100, 30)
    assert "and 30 more" in site.page("/messages", topic=topic)


@pytest.mark.parametrize("where", ["elsewhere", "itself"])
def test_a_redirect_of_a_registry_has_the_log_in_for_the_registry_alone(where):
    """It may lead to whoever wants to know the password."""
    seen = []

    class Asked(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers["Authorization"] is not None))
            if self.path.startswith("/schemas"):
                self.send_response(302)
                self.send_header("Location", f"http://127.0.0.1:{target.server_port}/moved")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"schema": "1"}')

        def log_message(self, *_):
            pass

    with (
        http.server.HTTPServer(("127.0.0.1", 0), Asked) as registry,
        http.server.HTTPServer(("127.0.0.1", 0), Asked) as other,
    ):
        target = other if where == "elsewhere" else registry
        for server in (registry, other):
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        client = RegistryClient(f"http://127.0.0.1:{registry.server_port}", "pipeline", "s3cret")
        assert client.schema(1).text == "1"
        registry.shutdown()
        other.shutdown()
    assert seen == [("/schemas/ids/1", True), ("/moved", where == "itself")]


def test_what_is_masked_leaves_in_no_way(users, cluster, open_console, registered, tmp_path):
    rules = tmp_path / "masks.toml"
    rules.write_text(MASKS)
    site = open_console(
        cluster.bootstrap_servers,
        masking=WatchedFile(rules, parsed),
        schemas=SchemaSource(RegistryClient(registered.address)),
    )
    for form in ("auto", "text", "json", "hex", "schema"):
        searches = (
            {"contains": "40001234"},
            {"filter": "value~4000"},
            {"filter": "value.card=4000123412341234"},
        )
        for more in ({}, *searches):
            answer = site.get("/messages", topic="users", start="earliest", value=form, **more)
            assert "4000123" not in json.dumps(answer)
            assert "34 30 30 30" not in json.dumps(answer)
            assert len(answer["records"]) == (0 if more else 6), (form, more)
    shown = site.get("/messages", topic="users", start="earliest")
    assert [json.loads(one)["card"] for one in texts(shown)[:2]] == ["***1234", "***1234"]
    assert shown["is_masked"]
    assert "4000123" not in site.page("/messages", topic="users", start="earliest")
    # Rules that cannot be read hide everything.
    rules.write_text("[[mask")
    for path in ("/api/v1/clusters/demo/messages", "/c/demo/messages"):
        answer = site.request("GET", path, params={"topic": "users"})
        assert (answer.status_code, "masks.toml cannot be read" in answer.text) == (403, True)


def test_the_records_before_an_answer_are_one_step_away(site):
    newest = site.get("/messages", topic="orders", partition=0, count=3)
    assert [one["offset"] for one in newest["records"]] == [7, 8, 9]
    assert newest["ranges"][0] == {"partition": 0, "start": 7, "stop": 10, "left": 0, "earlier": 7}
    before = site.get("/messages", topic="orders", positions=newest["back"], count=3)
    assert [one["offset"] for one in before["records"]] == [4, 5, 6]
    assert before["next"] is None
    first = site.get("/messages", topic="orders", positions="0:0-2", count=3)
    assert ([one["offset"] for one in first["records"]], first["back"]) == ([0, 1], None)


def test_an_answer_that_found_enough_leaves_the_others_for_the_next(site):
    first = site.get("/messages", topic="orders", start="earliest", filter="offset>=2", count=3)
    assert ([one["offset"] for one in first["records"]], first["next"]) == ([2, 3, 4], "0:5")
    second = site.get("/messages", topic="orders", positions=first["next"], filter="offset>=2", count=9)
    assert [one["offset"] for one in second["records"]] == [5, 6, 7, 8, 9]


def test_a_reader_follows_what_comes(cluster, open_console):
    topic = cluster.create_topic(partitions=2)
    site = open_console(cluster.bootstrap_servers)
    first = site.get("/messages", topic=topic, follow=True)
    assert (first["records"], first["next"]) == ([], "0:0,1:0")
    with Producer(cluster.bootstrap_servers) as producer:
        producer.send_and_wait(topic, b"new", partition=1)
    second = site.get("/messages", topic=topic, follow=True, positions=first["next"])
    assert (texts(second), second["next"]) == (["new"], "0:0,1:1")
    assert site.get("/messages", topic=topic, follow=True, positions=second["next"])["records"] == []


def test_committed_offsets_are_read(site):
    shown = site.get(
        "/messages", topic="__consumer_offsets", start="earliest", filter="key.data.group=behind", count=500
    )
    (one,) = shown["records"]
    assert json.loads(one["value"]["text"])["data"]["offset"] == 3


@pytest.mark.parametrize("wrong", [{"filter": "x"}, {"positions": "0:1:2"}, {"positions": "a"}])
def test_what_is_no_question_is_refused_in_one_line(site, wrong):
    answer = site.request("GET", "/api/v1/clusters/demo/messages", params={"topic": "orders", **wrong})
    assert answer.status_code == 409
    assert "\n" not in answer.json()["error"]


def test_the_command_of_the_page_says_the_same(site, cluster, users, registered, tmp_path):
    rules, login = tmp_path / "masks.toml", tmp_path / "login"
    rules.write_text(MASKS)
    login.write_text("a:b\n")
    page = site.page("/messages", topic="users", start="earliest", filter="value.id>=2", value="json")
    command = unescape(page.partition("at a terminal: <code>")[2].partition("</code>")[0])
    assert command.endswith("--topic users --from earliest --value json --filter 'value.id>=2'")
    words = ["messages", "--bootstrap-server", cluster.bootstrap_servers, "--topic", "users"]
    more = [
        "--from",
        "earliest",
        "--registry",
        registered.address,
        "--registry-login",
        str(login),
        "--masking",
        str(rules),
    ]
    shown = CliRunner().invoke(cli, [*words, *more], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[1].split("\t")[3] == '{"id": 2, "card": "***1234", "sum": "12.50"}'
    assert "partition 0: read 0 to 6, 0 left, 0 before" in shown.stderr
    as_json = CliRunner().invoke(
        cli, [*words, *more, "--json", "--filter", "value.id=1"], catch_exceptions=False
    )
    assert [one["offset"] for one in json.loads(as_json.stdout)["records"]] == [0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--registry", "ftp://x"], "http"),
        (["--registry", "http://u:p@x"], "no password"),
        (["--registry-login", "x"], "--registry"),
        (["--registry", "http://x", "--registry-login", "/not/there"], "cannot be read"),
        (["--masking", "/not/there"], "cannot be read"),
        (["--filter", "what"], "no condition"),
    ],
)
def test_options_that_cannot_be_meant_are_one_line(options, said):
    words = ["messages", "--bootstrap-server", "127.0.0.1:1", "--topic", "t", *options]
    result = CliRunner().invoke(cli, words)
    assert result.exit_code
    assert said in (result.output + str(result.exception))


def test_one_user_leaves_places_to_look_at_records_to_others(cluster, open_console):
    site = open_console(cluster.bootstrap_servers, patience_s=0)
    site.look()
    held = cluster.plant(Fault("ListOffsets", delay_ms=60_000, count=None))

    def look(user, number):
        seen = site.watched.seen_through(lambda snapshot: snapshot, user)
        wanted = MessageQuery("orders", partition=0, start=str(number))
        try:
            return asyncio.run(message_views.messages(site.console, seen, wanted)).state.why
        except OperationError as error:
            return str(error)

    def have(count):
        until(lambda: f"{count} of 6" in repr(site.watched._readers), f"{count} to look")

    try:
        for number in range(6):
            look("alice", number)
        words = "alice looks at 3 places of this cluster now: try again in a moment"
        until(lambda: look("alice", 5) == words, "the refusal")
        have(3)
        for number in range(2):
            look("bob", 10 + number)
        have(5)
        look("carol", 20)
        have(6)
        words = "too many look at records of this cluster now: try again in a moment"
        until(lambda: look("dave", 30) == words, "the refusal")
    finally:
        held.remove()
