"""The endpoint that a Prometheus server scrapes: what it serves, and whom it refuses."""

import asyncio
import json
import random
import re
import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, DeliveryError, Producer
from barnabas.console.history.sampler import METRICS
from barnabas.core.metrics import Kind, Registry
from barnabas.network.client import NetworkClient
from barnabas.network.clock import LoopClock
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.selector import Selector, completed
from barnabas.node import metrics_endpoint
from barnabas.node.metrics_endpoint import CONNECTIONS_MAX, PIECE, MetricsEndpoint, RegistryText
from barnabas.protocol.messages.fetch import FetchRequest
from waiting import until

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 30


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """A broker that serves metrics on a port of the system's choice."""
    started = serve(tmp_path_factory.mktemp("metrics") / "data", "--set", "metrics.port=0")
    started.wait_until_ready()
    yield started
    assert started.stop() == 0, started.tail()


@pytest.fixture(scope="module")
def port(server):
    return int(re.search(r"metrics=http://127\.0\.0\.1:(\d+)/metrics", server.ready_line)[1])


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return answer.read().decode()


def samples(text):
    """By name and labels, what was served."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name, **labels):
    return found.get((name, frozenset(labels.items())), 0)


def test_requests_records_and_bytes_are_counted(server, port):
    with Admin(server.bootstrap) as admin:
        admin.topics.create([NewTopic("counted", 1, 1)])
    before = samples(scrape(port))
    with Producer(server.bootstrap) as producer:
        for number in range(100):
            producer.send("counted", value=b"%05d" % number)
    with Consumer(server.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("counted", 0)])
        read = []
        until(lambda: read.extend(consumer.poll(1)) or len(read) == 100)

    now = samples(scrape(port))

    traffic = "kafka_server_brokertopicmetrics_"
    assert value(now, f"{traffic}messagesin_total", topic="counted") == 100
    size = value(now, "kafka_log_log_size", topic="counted", partition="0")
    assert value(now, f"{traffic}bytesin_total", topic="counted") == size > 500
    assert value(now, f"{traffic}bytesout_total", topic="counted") >= size
    assert value(now, "kafka_log_log_logendoffset", topic="counted", partition="0") == 100
    for name in ("messagesin_total", "bytesin_total", "bytesout_total"):
        grown = value(now, traffic + name) - value(before, traffic + name)
        assert grown >= value(now, traffic + name, topic="counted")
    produced = {
        dict(labels)["version"]: count
        for (name, labels), count in now.items()
        if name == "kafka_network_requestmetrics_requests_total" and ("request", "Produce") in labels
    }
    assert sum(produced.values()) >= 1
    for phase in ("totaltimems", "localtimems", "remotetimems", "throttletimems", "requestbytes"):
        name = f"kafka_network_requestmetrics_{phase}"
        assert value(now, f"{name}_count", request="Produce") == sum(produced.values())
    assert value(now, "kafka_network_requestmetrics_requestbytes", request="Produce", quantile="0.999") > 500
    total, local, remote = (
        value(now, f"kafka_network_requestmetrics_{phase}", request="Fetch", quantile="0.50")
        for phase in ("totaltimems", "localtimems", "remotetimems")
    )
    assert total > 0
    assert 0 <= local <= total
    assert 0 <= remote <= total


def test_refused_records_are_counted(server, port):
    small = NewTopic("small", 1, 1, configs={"max.message.bytes": "500"})
    keyed = NewTopic("keyed", 1, 1, configs={"cleanup.policy": "compact"})
    with Admin(server.bootstrap) as admin:
        admin.topics.create([small, keyed])
    with Producer(server.bootstrap) as producer:
        for topic, content in (("small", b"x" * 1000), ("keyed", b"no key")):
            refused = producer.send(topic, value=content)
            with pytest.raises(DeliveryError):
                refused.result(SECONDS * 1000)

    found = samples(scrape(port))

    traffic = "kafka_server_brokertopicmetrics_"
    assert 1000 < value(found, f"{traffic}bytesrejected_total", topic="small") < 1200
    assert value(found, f"{traffic}failedproducerequests_total", topic="small") == 0, (
        "the client's fault is none"
    )
    assert value(found, f"{traffic}failedproducerequests_total", topic="keyed") == 1
    assert value(found, f"{traffic}failedfetchrequests_total", topic="") == 0


def test_an_open_transaction_is_seen_until_it_ends(server, port):
    lag = "kafka_cluster_partition_laststableoffsetlag"
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    with Admin(server.bootstrap) as admin:
        admin.topics.create([NewTopic("copied", 1, 1)])
    with Producer(server.bootstrap, transactional_id="copier") as producer:
        with producer.transaction():
            for number in range(3):
                # A time long ago is that of a transaction which hangs since then.
                producer.send("copied", value=b"%d" % number, timestamp_ms=1_000).result(SECONDS * 1000)
            open_ = samples(scrape(port))
        until(
            lambda: not value(samples(scrape(port)), "barnabas_open_transactions"),
            "the markers are written",
        )
    ended = samples(scrape(port))

    assert value(open_, lag, topic="copied", partition="0") == 3
    assert (value(open_, late), value(open_, "barnabas_open_transactions")) == (1, 1)
    assert 0 <= value(open_, "barnabas_oldest_open_transaction_age_ms") < 60_000
    assert value(ended, lag, topic="copied", partition="0") == value(ended, late) == 0
    assert value(ended, "barnabas_oldest_open_transaction_age_ms") == 0
    verifications = "kafka_server_addpartitionstotxnmanager_verification"
    assert value(ended, f"{verifications}timems_count") == 1
    assert value(ended, f"{verifications}failurerate_total") == 0
    assert value(ended, "kafka_server_transaction_coordinator_metrics_partition_load_time_max") >= 0


def test_fetches_of_followers_are_told_from_those_of_consumers(server, port):
    host, number = server.bootstrap.split(":")
    fetches = (
        FetchRequest(max_wait_ms=0),
        FetchRequest(max_wait_ms=0, replica_id=7),
        FetchRequest(replica_id=7),
    )
    before = fetch_counts(port)

    async def ask():
        client = NetworkClient(Selector(), ManualMetadataUpdater(), ClientSettings(), random.Random())
        for each in fetches:
            await completed(client.request(Node(0, host, int(number)), each, versions=(11, 11)))
        await client.close()

    asyncio.run(ask())

    now = fetch_counts(port)
    assert [now[name] - before[name] for name in now] == [1, 2, 3]


def fetch_counts(port):
    found = samples(scrape(port))
    return {
        name: value(found, "kafka_network_requestmetrics_totaltimems_count", request=name)
        for name in ("FetchConsumer", "FetchFollower", "Fetch")
    }


def test_connections_are_counted_by_listener(server, port):
    def connections():
        return value(samples(scrape(port)), "barnabas_connections", listener="PLAINTEXT")

    host, number = server.bootstrap.split(":")
    until(lambda: connections() == 0, "those of other tests to be gone")
    with socket.create_connection((host, int(number)), SECONDS):
        until(lambda: connections() == 1)
    until(lambda: connections() == 0)


def test_the_state_of_a_broker_that_is_alone(port):
    found = samples(scrape(port))

    assert value(found, "kafka_server_kafkaserver_brokerstate") == 3
    assert value(found, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value(found, "kafka_controller_kafkacontroller_activebrokercount") == 1
    assert value(found, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    until(lambda: leads_all(samples(scrape(port))))  # a topic of another test may be on its way
    assert value(found, "barnabas_event_loop_busy_seconds_total") > 0


def test_a_follower_counts_among_the_replicas_and_not_among_the_leaders(join_cluster):
    first = join_cluster(1)
    first.wait_until_ready()
    second = join_cluster(2, "--set", "metrics.port=0")
    second.wait_until_ready()
    port = int(re.search(r"metrics=http://127\.0\.0\.1:(\d+)/metrics", second.ready_line)[1])
    with Admin(first.bootstrap) as admin:
        admin.topics.create(NewTopic("both", assignment={0: [1, 2], 1: [2, 1], 2: [1, 2]}))

    def counts():
        found = samples(scrape(port))
        return [value(found, f"kafka_server_replicamanager_{name}count") for name in ("partition", "leader")]

    until(lambda: counts() == [3, 1], lambda: str(counts()))
    assert second.stop() == 0
    assert first.stop() == 0


def leads_all(found):
    led = value(found, "kafka_server_replicamanager_leadercount")
    held = value(found, "kafka_server_replicamanager_partitioncount")
    return led == held == value(found, "kafka_controller_kafkacontroller_globalpartitioncount")


def test_what_is_deleted_is_not_told_of_and_stays_in_the_sum(server, port):
    with Admin(server.bootstrap) as admin:
        admin.topics.create([NewTopic("passing", 1, 1)])
        with Producer(server.bootstrap) as producer:
            producer.send("passing", value=b"x")
        total = value(samples(scrape(port)), "kafka_server_brokertopicmetrics_messagesin_total")
        admin.topics.delete(["passing"])

    until(lambda: 'topic="passing"' not in scrape(port))

    assert value(samples(scrape(port)), "kafka_server_brokertopicmetrics_messagesin_total") >= total > 0


def test_the_page_has_each_metric_with_its_type_and_meaning(port):
    served = {}
    for line in scrape(port).splitlines():
        if line.startswith("# HELP "):
            _, _, name, doc = line.split(" ", 3)
        elif line.startswith("# TYPE "):
            served[name] = (line.rsplit(" ", 1)[1], doc)

    rows = re.findall(
        r"^\| `(\w+)(?:\{[\w,]+\})?` \| (\w+) \| (.*) \|$", (DOCS / "metrics.md").read_text(), re.MULTILINE
    )

    assert {name: (kind, doc) for name, kind, doc in rows} == served


def test_the_dashboard_asks_for_metrics_that_are_there(port):
    served = {name for name, _ in samples(scrape(port))}
    served |= set(re.findall(r"^# TYPE (\w+)", scrape(port), re.MULTILINE))
    served |= {f"barnabas_console_{metric.replace('.', '_')}" for metric in (*METRICS, "refreshed_seconds")}
    for page in (DOCS / "grafana").glob("*.json"):
        panels = json.loads(page.read_text())["panels"]
        expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
        asked = {name for each in expressions for name in re.findall(r"\b(?:kafka|barnabas)_\w+", each)}

        assert expressions
        assert asked <= served


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"hello\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", b"200"),
    ],
)
def test_other_requests_get_http_s_own_answers(port, request_, status):
    with socket.create_connection(("127.0.0.1", port), SECONDS) as sock:
        sock.sendall(request_)
        assert sock.recv(100).split(b" ")[1] == status


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /metrics HTTP/1.1\r\nHost: ", b"GET /metrics HTTP/1.1\r\n\r\n"],
    ids=["nothing", "half a request", "a request, and takes nothing"],
)
def test_clients_that_only_hold_their_connections_keep_nobody_out(port, said):
    held = []
    for _ in range(2 * CONNECTIONS_MAX):
        held.append(socket.create_connection(("127.0.0.1", port), SECONDS))
        held[-1].sendall(said)

    # One that comes while the places are all answered is closed: it comes again, as Prometheus does.
    for _ in range(15):
        until(lambda: scraped(port))
    for sock in held:
        sock.close()


def scraped(port):
    try:
        return scrape(port)
    except OSError:
        return None


def test_the_one_that_is_silent_for_longest_makes_room(port):
    asking = [socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(CONNECTIONS_MAX)]
    scrape(port)

    assert ended(asking[0])
    asking[1].sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert asking[1].recv(100).split(b" ")[1] == b"404"
    for sock in asking:
        sock.close()


def ended(sock):
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_request_that_does_not_come_ends_its_connection(monkeypatch):
    monkeypatch.setattr(metrics_endpoint, "HEAD_S", 0.01)

    async def asked():
        endpoint = MetricsEndpoint(RegistryText(Registry(), LoopClock(asyncio.get_running_loop())))
        url = await endpoint.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(b"GET /metrics HTTP/1.1\r\n")
        try:
            return await asyncio.wait_for(reader.read(), SECONDS)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            await endpoint.close()

    assert asyncio.run(asked()) == b""


def test_one_whose_answer_is_being_put_together_is_not_closed_for_another():
    registry, ready = Registry(), []

    def slowly():
        while not ready:
            yield None
        yield ("1",), 1

    registry.add("slow", Kind.GAUGE, "Slow.", slowly, ("number",))

    async def asked():
        endpoint = MetricsEndpoint(RegistryText(registry, EachLookTakesLong(asyncio.get_running_loop())))
        port = urlsplit(await endpoint.start("127.0.0.1", 0)).port
        eight = [asyncio.ensure_future(ask(port)) for _ in range(CONNECTIONS_MAX)]
        for _ in range(1000):
            await asyncio.sleep(0)  # until all of them have asked
        ninth = await ask(port)
        ready.append(True)
        answers = await asyncio.gather(*eight)
        await endpoint.close()
        return ninth, answers

    ninth, answers = asyncio.run(asked())
    assert ninth == b""
    assert [each[:12] for each in answers] == [b"HTTP/1.1 200"] * CONNECTIONS_MAX


def test_clients_that_do_not_take_their_answers_keep_nobody_out():
    registry = Registry()
    registry.add("big", Kind.GAUGE, "Big.", lambda: [(("x" * 100_000,), 1)] * 100, ("text",))

    async def asked():
        endpoint = MetricsEndpoint(RegistryText(registry, LoopClock(asyncio.get_running_loop())))
        port = urlsplit(await endpoint.start("127.0.0.1", 0)).port
        holding = []
        for _ in range(CONNECTIONS_MAX):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert await reader.readexactly(12) == b"HTTP/1.1 200"
            holding.append(writer)
        answer = await ask(port)
        for writer in holding:
            writer.transport.abort()
        await endpoint.close()
        return answer

    assert len(asyncio.run(asked())) > 100 * 100_000


class EachLookTakesLong(LoopClock):
    """So that a scrape pauses after each piece."""

    def __init__(self, loop):
        super().__init__(loop)
        self._looks = 0

    def monotonic_ms(self):
        self._looks += 1
        return 1000.0 * self._looks


async def ask(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_many_samples_are_put_together_from_pieces():
    registry = Registry()
    count = 5 * PIECE + 1

    def numbered():
        for number in range(count):
            yield (str(number),), number
            yield None

    def broken():
        yield ("1",), 1
        raise RuntimeError("a bug")

    registry.add("broken", Kind.GAUGE, "What cannot be read.", broken, ("number",))
    registry.add("numbered", Kind.GAUGE, "Numbers.", numbered, ("number",))
    registry.gauge("last", "The last one.", lambda: 1)

    text = asyncio.run(served(registry)).decode()

    assert text.count("# TYPE numbered gauge\n") == 1
    found = samples(text)
    assert [value(found, "numbered", number=str(number)) for number in range(count)] == list(range(count))
    assert value(found, "last") == 1
    assert "broken" not in text


async def served(registry):
    endpoint = MetricsEndpoint(RegistryText(registry, LoopClock(asyncio.get_running_loop())))
    url = await endpoint.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
    writer.write(b"GET /metrics HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    await endpoint.close()
    return answer.split(b"\r\n\r\n", 1)[1]
