"""What is wrong around a cluster: passwords, clocks, sizes, stores and metrics that hang. Pages answer, and
say what is wrong.
"""

import contextlib
import socket
import struct
import threading
import time

import pytest

from barnabas.admin import NewTopic, OffsetAndMetadata
from barnabas.client import Producer
from barnabas.console.collector import Pace
from barnabas.console.questions import PATIENCE_S
from barnabas.console.watched import WatchedCluster
from barnabas.core.ids import TopicPartition
from barnabas.operations.scrapes import BrokerScraper, ZookeeperScraper
from barnabas.testing import Kafka
from waiting import until

LARGE = 60 << 20
METADATA_MAX = 32_767
"""Of one partition, by the protocol."""


@pytest.fixture(scope="module")
def kafka():
    """A broker that takes large records and much metadata, whose clock is an hour ahead."""
    settings = {
        "offset.metadata.max.bytes": METADATA_MAX,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
        "message.max.bytes": LARGE,
        "socket.request.max.bytes": 2 * LARGE,
    }
    with Kafka(settings=settings) as kafka:
        kafka.advance(3600)
        yield kafka


@contextlib.contextmanager
def server(serve):
    """Calls `serve` with each connection, on a thread of its own, until the end; yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as connections:

        def run(connection):
            with contextlib.suppress(OSError):
                serve(connection)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection = connections.enter_context(listener.accept()[0])
                    threading.Thread(target=run, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def says_nothing(connection):
    connection.recv(1)


def never_ends(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"#")
        time.sleep(0.02)


def lets_in_and_says_nothing(connection):
    """A ZooKeeper server that begins a session, and answers nothing that is asked in it."""
    connection.recv(1000)
    connection.sendall(struct.pack(">iiiqi16s?", 37, 0, 1000, 7, 16, b"", False))
    connection.recv(1000)


# --- a wrong password


def test_a_wrong_password_for_one_cluster_harms_no_other_and_is_not_tried_all_the_time(
    kafka, open_console, caplog
):
    with Kafka(secure={"operator": "right"}) as second:
        options = second.client("operator")
        options["sasl.jaas.config"] = options["sasl.jaas.config"].replace("right", "wrong")
        site = open_console(kafka.bootstrap_servers)
        pace = Pace(round_s=3600, retry_s=0.01, refused_s=3600)
        site.console.watch(refused := WatchedCluster("second", options, pace))
        until(lambda: refused.problem)
        site.look()
        site.look()

        rows = {one["name"]: one for one in site.request("GET", "/api/v1/clusters").json()}
        assert rows["demo"]["brokers"] | {"age_s": 0} == {"value": 1, "state": "ok", "age_s": 0, "why": None}
        assert (rows["second"]["level"], rows["second"]["brokers"]["state"]) == ("critical", "unknown")
        assert rows["second"]["reasons"][0] == "Authentication failed: Invalid username or password"
        # Each of the last three logs in, too, which a broker refuses after a tenth of a second.
        for path in ("", "/brokers", "/topics", "/groups", "/health", "/users", "/users", "/users"):
            answer = site.request("GET", f"/c/second{path}")
            assert (answer.status_code, "Invalid username or password" in answer.text) == (200, True), path
        assert "is read of this cluster" not in site.page("/topics")
        tries = [one for one in caplog.records if one.getMessage().startswith("console.unreachable")]
        assert len(tries) == 1, tries


# --- sizes


def test_a_commit_with_a_million_bytes_of_metadata_makes_no_page_large(kafka, open_console):
    kafka.admin.topics.create([NewTopic("wide", partitions=31)])
    note = "<b>" + "m" * (METADATA_MAX - 3)
    given = {TopicPartition("wide", each): OffsetAndMetadata(0, note) for each in range(31)}
    kafka.admin.groups.alter_offsets("talks", given)
    site = open_console(kafka.bootstrap_servers)
    site.look()

    positions = site.watched.snapshot.positions["talks"].value
    assert {one.metadata for one in positions.values()} == {""}
    assert len(site.get("/groups/talks")["partitions"]) == 31
    assert {one["series"] for one in site.get("/history", kind="group", subject="talks")["plots"]} >= {
        "group.lag/talks"
    }
    pages = [
        site.page("/groups/talks"),
        site.page("/groups"),
        site.page("/history", kind="group", subject="talks"),
        site.page("/messages", topic="__consumer_offsets", count=31),
    ]
    assert max(map(len, pages)) < 300_000
    assert "<b>m" not in "".join(pages)
    assert "<small>cut, 32.0 KiB</small>" in pages[-1]


def test_a_record_of_50_megabytes_is_searched_shown_cut_and_said_to_be(kafka, open_console):
    kafka.admin.topics.create([NewTopic("large", configs={"max.message.bytes": LARGE})])
    options = {"bootstrap.servers": kafka.bootstrap_servers, "max.request.size": LARGE}
    with Producer({**options, "buffer.memory": 2 * LARGE}) as producer:
        producer.send_and_wait("large", b"x" * ((50 << 20) - 6) + b"needle")
        producer.send_and_wait("large", b"small")
    site = open_console(kafka.bootstrap_servers)

    found = site.get("/messages", topic="large")
    shown = [(one["value"]["bytes"], one["value"]["is_cut"]) for one in found["records"]]
    assert (shown, found["stopped"]) == ([(50 << 20, True), (5, False)], "all was read")
    page = site.page("/messages", topic="large", contains="needle")
    assert ("<small>cut, 50.0 MiB</small>" in page, len(page) < 20_000) == (True, True)


# --- what hangs


@pytest.mark.parametrize("serve", [says_nothing, never_ends])
def test_metrics_that_hang_are_marked_and_end(kafka, open_console, serve):
    with server(serve) as metrics, server(says_nothing) as zookeeper:
        scrapers = {
            "brokers": BrokerScraper({0: f"http://{metrics}/metrics"}, timeout_s=0.3),
            "zookeeper": ZookeeperScraper(zookeeper, timeout_s=0.3),
        }
        site = open_console(kafka.bootstrap_servers, watched=scrapers)
        site.look()
        site.console.close()  # nothing is left that waits for them
        snapshot = site.watched.snapshot

        assert "it took longer than 0.3 s" in snapshot.scrapes[0].error
        assert snapshot.zookeeper[zookeeper].error.endswith("does not answer mntr: too slow")
        checks = {one["key"]: one["level"] for one in site.get("/health")["checks"]}
        assert (checks["request-queue"], checks["zk-outstanding"]) == ("unknown", "unknown")
        assert site.get("/brokers")["brokers"][0]["endpoint"]["state"] == "ok"


@pytest.mark.parametrize("serve", [says_nothing, lets_in_and_says_nothing])
def test_a_page_does_not_wait_for_a_store_that_hangs(kafka, open_console, serve):
    with server(serve) as zookeeper:
        site = open_console(
            kafka.bootstrap_servers, watched={"zookeeper_connect": zookeeper}, patience_s=PATIENCE_S
        )
        begun = time.monotonic()
        page = site.page("/store")
        # What hangs is given up after ten seconds and more.
        assert time.monotonic() - begun < 8
        assert "Unknown: the metadata store has not answered yet" in page
        found = site.get("/store")
        assert (found["state"]["state"], found["value"], found["children"]) == ("unknown", None, [])


@pytest.mark.parametrize("serve", [says_nothing, lets_in_and_says_nothing])
def test_a_console_that_ends_beside_a_store_that_hangs_leaves_no_traceback(
    kafka, open_console, serve, caplog
):
    with server(serve) as zookeeper:
        site = open_console(
            kafka.bootstrap_servers, watched={"zookeeper_connect": zookeeper}, patience_s=PATIENCE_S
        )
        assert "has not answered yet" in site.page("/store")
        site.console.close()
    assert "close_failed" not in caplog.text


# --- a clock that is ahead


def test_a_brokers_clock_that_is_ahead_is_said_and_makes_no_time_negative(kafka, open_console):
    kafka.admin.topics.create([NewTopic("ahead", configs={"message.timestamp.type": "LogAppendTime"})])
    kafka.admin.groups.alter_offsets("late", {TopicPartition("ahead", 0): OffsetAndMetadata(0)})
    options = {"bootstrap.servers": kafka.bootstrap_servers}
    with Producer({**options, "transactional.id": "early"}) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("ahead", b"one").result(20)
        producer.commit_transaction()
        kafka.advance(7)
        producer.begin_transaction()
        producer.send("ahead", b"two").result(20)
        site = open_console(kafka.bootstrap_servers)
        site.look()

        group = site.get("/groups/late")
        seconds = group["row"]["lag"]["seconds"]
        assert (seconds["state"], 7 <= seconds["value"] < 60) == ("ok", True)
        assert 3000 < group["clock_ahead_s"] < 3700
        assert "ahead of the console" in site.page("/groups/late")
        told = dict(site.get("/explain/transaction/early")["stations"])
        assert "from now: the clock of its coordinator is ahead of ours" in told["state"]
        assert "aborts it in 60000 ms" in told["verdict"]
        assert "-" not in "".join(word for word in told["state"].split() if word.lstrip("-").isdigit())
        producer.abort_transaction()
