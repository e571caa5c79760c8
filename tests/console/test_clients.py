"""What clients push to brokers (KIP-714), on the console's pages, by REST and at a terminal."""

import html
import json
import re
import time
from dataclasses import replace
from urllib.parse import unquote

import confluent_kafka
import pytest
from click.testing import CliRunner

from barnabas.admin import ClusterDescription, NewTopic
from barnabas.cli.main import cli
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.client.metadata import Broker
from barnabas.console.reading import Observation, read
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.views import clients as views
from barnabas.console.web.shapes import segment
from barnabas.operations import client_pushes as pushes
from barnabas.operations.broker_metrics import figures_of
from barnabas.operations.scrapes import BrokerScrape, BrokerScraper
from barnabas.testing import Kafka
from client_metrics_wanted import want_all_metrics
from waiting import until

NOW = 1_900_000_000_000
SEND_RATE = "org_apache_kafka_producer_record_send_rate"
SEND_TOTAL = "org_apache_kafka_producer_record_send_total"
LAG = "org_apache_kafka_consumer_fetch_manager_records_lag_max"


# --- with clients and brokers


@pytest.fixture(scope="module")
def pushed_to():
    """Two brokers that serve metrics, and ask every client for all of them five times a second."""
    pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    with Kafka(2, settings={"metrics.port": "0"}) as kafka:
        kafka.admin.topics.create([NewTopic("orders", partitions=2)])
        want_all_metrics(kafka.admin, *(kafka.node(broker).endpoints[0].port for broker in kafka.brokers))
        yield kafka


@pytest.fixture
def site(pushed_to, open_console):
    urls = {broker: pushed_to.node(broker).metrics_url for broker in pushed_to.brokers}
    return open_console(pushed_to.bootstrap_servers, watched={"brokers": BrokerScraper(urls)})


def rows(site, **asked):
    """The list after another look, by client id."""
    site.look()
    return {one["client_id"]: one for one in site.get("/clients", **asked)["rows"]}


def until_shown(site, client, *figures):
    """The row of a client once all these figures are known."""

    def shown():
        row = rows(site).get(client)
        return row and all(row[one]["state"] == "ok" for one in figures) and row

    return until(shown, lambda: f"{client}: {rows(site)}")


def sent_by_topic(site, client):
    """The labels and values that the page of a client shows of what it has sent, after another look."""
    if client not in rows(site):
        return []
    shown = site.get(f"/clients/{client}", search="topic.record.send.total")
    return [(one["labels"], one["value"]["value"]) for one in shown["metrics"]]


def test_producers_and_consumers_are_shown_as_they_see_themselves(site, pushed_to):
    with (
        Producer(pushed_to.bootstrap_servers, client_id="sender") as producer,
        Consumer(pushed_to.bootstrap_servers, client_id="reader", auto_offset_reset="earliest") as consumer,
    ):
        for number in range(20):
            producer.send_and_wait("orders", f"{number}", partition=0)
        consumer.assign([TopicPartition("orders", 0)])
        assert consumer.poll(20_000)
        consumer.pause(TopicPartition("orders", 0))
        producer.send_and_wait("orders", "unread", partition=0)
        until(lambda: sent_by_topic(site, "sender") == [({"topic": "orders"}, 21)])
        sender = until_shown(site, "sender", "records_per_s", "latency_ms", "errors", "heard")
        reader = until_shown(site, "reader", "records_per_s", "latency_ms", "lag", "heard")
    assert (sender["kinds"], sender["clients"], sender["lag"]) == (["producer"], 1, None)
    assert sender["records_per_s"]["value"] > 0
    assert sender["latency_ms"]["value"] > 0
    assert sender["errors"]["value"] == 0
    assert (reader["kinds"], reader["records_per_s"]["value"] > 0) == (["consumer"], True)
    shown = site.get("/clients/sender", search="record.send")
    names = {one["name"] for one in shown["metrics"]}
    assert {
        "org.apache.kafka.producer.record.send.rate",
        "org.apache.kafka.producer.record.send.total",
    } <= names
    assert "org.apache.kafka.producer.record.send.rate" in site.page("/clients/sender")


def test_librdkafka_says_less_and_the_page_says_what_would_help(site, pushed_to):
    producer = confluent_kafka.Producer({"bootstrap.servers": pushed_to.bootstrap_servers, "client.id": "rd"})
    producer.produce("orders", b"x")
    assert producer.flush(20) == 0

    def shown():
        producer.poll(0.05)
        return rows(site).get("rd")

    row = until(shown)
    assert row["kinds"] == ["producer"]
    assert row["records_per_s"]["state"] == "unknown"
    assert (
        "client-metrics --alter --name NAME --metrics org.apache.kafka.producer.record.send.rate"
        in (row["records_per_s"]["why"])
    )


def test_a_client_that_is_gone_grows_old_and_leaves(site, pushed_to):
    client = '<b onclick="x">&/%2f'
    with Producer(pushed_to.bootstrap_servers, client_id=client) as producer:
        producer.send_and_wait("orders", "v")
        until_shown(site, client, "records_per_s")
    page = site.page("/clients")
    assert client not in page
    assert html.escape(client).replace("&quot;", "&#34;") in page
    path = "/clients/%3Cb%20onclick%3D%22x%22%3E%26%2F%252f"
    assert f'/c/demo{path}"' in page
    assert site.get(path)["row"]["client_id"] == client
    assert client not in site.page(path)
    pushed_to.advance(31)
    old = rows(site)[client]
    assert {old[name]["state"] for name in ("records_per_s", "errors", "heard")} == {"stale"}
    assert "pushed nothing for 3" in old["heard"]["why"]
    assert old["heard"]["value"] >= 31
    pushed_to.advance(31)
    assert client not in rows(site)
    assert site.request("GET", f"/api/v1/clusters/demo{path}").status_code == 404


def at_a_terminal(kafka, *arguments):
    return CliRunner().invoke(cli, ["console", "-b", kafka.bootstrap_servers, *arguments])


def test_a_terminal_says_what_rest_says(site, pushed_to):
    with Producer(pushed_to.bootstrap_servers, client_id="typed") as producer:
        producer.send_and_wait("orders", "v")
        until_shown(site, "typed", "records_per_s")
        metrics = [f"--metrics={one}={pushed_to.node(one).metrics_url}" for one in pushed_to.brokers]
        done = at_a_terminal(pushed_to, *metrics, "--show", "/clients/typed?search=record.send.total")
        found = json.loads(done.stdout)
        rest = site.get("/clients/typed", search="record.send.total")
    assert [one["name"] for one in found["metrics"]] == [one["name"] for one in rest["metrics"]] != []
    assert found["row"].keys() == rest["row"].keys()
    done = at_a_terminal(pushed_to, "--show", "clients/no")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "/clients/no: there is no client no that pushes its metrics" in done.stderr
    done = at_a_terminal(pushed_to, "--show", "/clients/\udcff")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--show: the path is not in UTF-8" in done.stderr


def test_values_that_no_float_can_add_up_and_ids_with_line_breaks_have_their_pages(open_console, pushed_to):
    texts = [
        silent(1.0, r"a\nb", name) + "".join(sample(each, 1e308, r"a\nb", name) for each in (SEND_RATE, LAG))
        for name in ("i", "j")
    ]

    async def scraped():
        return {0: BrokerScrape({}, pushes.client_pushes("".join(texts), 10))}

    site = open_console(pushed_to.bootstrap_servers, watched={"brokers": scraped})
    row = rows(site)["a\nb"]
    assert (row["records_per_s"]["state"], row["lag"]["value"]) == ("unknown", 1e308)
    assert "too large to be added up" in row["records_per_s"]["why"]
    for page in (site.page("/clients"), site.page("/clients/a%0Ab")):
        assert "1e+308" in page
    found = site.get("/clients/a%0Ab")
    assert found["row"]["client_id"] == "a\nb"
    states = {one["name"].rpartition(".")[2]: one["value"]["state"] for one in found["metrics"]}
    assert states == {"rate": "unknown", "max": "ok"}


# --- what is made of several brokers and clients


def sample(name, value, client="c", instance="i", **labels):
    pairs = {"client_id": client, "client_instance_id": instance, **labels}
    inside = ",".join(f'{key}="{text}"' for key, text in pairs.items() if text)
    return f"{name}{{{inside}}} {value}\n"


def silent(seconds, client="c", instance="i", lifetime=60.0, **labels):
    """What a broker says of a client that has pushed so long ago."""
    age, life = (f"barnabas_client_metrics_{name}_seconds" for name in ("push_age", "lifetime"))
    return sample(age, seconds, client, instance, **labels) + sample(
        life, lifetime, client, instance, **labels
    )


def snapshot(*texts, series_max=pushes.SERIES_MAX):
    """A cluster of brokers whose metrics are these texts; None for one that is not read."""
    nodes = [Broker(number, "h", 1, None) for number in range(len(texts))]
    found = {
        broker: read(pushes.client_pushes(text, series_max), NOW)
        for broker, text in enumerate(texts)
        if text is not None
    }
    cluster = read(ClusterDescription("id", nodes[0], nodes), NOW)
    return ClusterSnapshot(cluster=cluster, client_pushes=found)


def shown(snapshot, now_ms=NOW, **asked):
    given = {"search": "", "sort": "name", "page": 1, "size": 100} | asked
    return views.clients(snapshot, now_ms, **given)


def row(snapshot, now_ms=NOW):
    (only,) = shown(snapshot, now_ms).rows
    return only


def metric(snapshot, name, client="c"):
    found = views.client(snapshot, client, NOW, search=name, page=1, size=100)
    (only,) = [one for one in found.metrics if one.name == name]
    return only


def test_a_client_that_moved_to_another_broker_is_counted_once_and_its_totals_are_added_up():
    before = silent(20.0) + sample(SEND_RATE, 900.0) + sample(SEND_TOTAL, 5000.0)
    after = silent(1.0) + sample(SEND_RATE, 7.0) + sample(SEND_TOTAL, 70.0)
    for texts in ((before, after), (after, before)):
        found = snapshot(*texts)
        assert (row(found).records_per_s.value, row(found).heard.value, row(found).clients) == (7.0, 1.0, 1)
        assert metric(found, "org.apache.kafka.producer.record.send.total").value.value == 5070.0


def test_clients_of_one_id_are_added_up_and_the_worst_is_shown():
    latency = "org_apache_kafka_consumer_fetch_manager_fetch_latency_avg"
    lead = "org_apache_kafka_consumer_lead_min"
    texts = [
        silent(age, instance=name) + sample(SEND_RATE, rate, instance=name)
        + "".join(sample(each, lag, instance=name) for each in (LAG, latency, lead))
        for name, age, rate, lag in (("a", 1.0, 10.0, 5.0), ("b", 2.0, 20.0, 50.0))
    ]  # fmt: skip
    one = row(found := snapshot("".join(texts)))
    assert (one.records_per_s.value, one.latency_ms.value, one.lag.value) == (30.0, 50.0, 50.0)
    assert (one.clients, one.heard.value, one.kinds) == (2, 1.0, ["consumer", "producer"])
    least = metric(found, "org.apache.kafka.consumer.lead.min")
    assert (least.value.value, least.made_by, least.clients) == (5.0, "least", 2)


def test_a_client_that_is_silent_counts_only_where_no_other_is_left():
    gone = silent(31.0, instance="gone") + sample(SEND_RATE, 100.0, instance="gone")
    there = silent(29.0) + sample(SEND_RATE, 1.0)
    assert row(snapshot(gone + there)).records_per_s.value == 1.0
    only = row(snapshot(gone)).records_per_s
    assert (only.value, only.state, only.why) == (100.0, "stale", "it has pushed nothing for 31 s")
    # Five minutes between two pushes are no silence where that is what was asked for.
    seldom = silent(300.0, lifetime=900.0) + sample(SEND_RATE, 1.0)
    assert row(snapshot(seldom)).records_per_s.state == "ok"
    # A look that did not come makes it older, too.
    assert row(snapshot(there), NOW + 5_000).records_per_s.state == "stale"


def test_the_whole_client_is_shown_and_not_the_sum_of_it_and_its_topics():
    consumed = "org_apache_kafka_consumer_fetch_manager_records_consumed_rate"
    topics = [sample(consumed, 3.0, group_id="g", topic=name) for name in ("a", "b")]
    whole = sample(consumed, 6.0, group_id="g")
    assert row(snapshot(silent(1.0) + whole + "".join(topics))).records_per_s.value == 6.0
    assert row(snapshot(silent(1.0) + "".join(topics))).records_per_s.value == 6.0


def test_of_a_member_that_joined_again_the_worse_value_is_shown():
    text = silent(1.0) + "".join(
        sample(f"org_apache_kafka_consumer_lead_{kind}", value, group_member_id=member)
        for member, value in (("old", 2.0), ("new", 9.0))
        for kind in ("min", "max")
    )
    found = snapshot(text)
    shown = {kind: metric(found, f"org.apache.kafka.consumer.lead.{kind}") for kind in ("min", "max")}
    assert {kind: one.value.value for kind, one in shown.items()} == {"min": 2.0, "max": 9.0}


@pytest.mark.parametrize("name", ["..", ".", "~..", "~~.", "~", "...", "a/../b", "%2e%2e", "a\nb"])
def test_a_name_that_is_a_step_of_a_path_has_a_link(standing_site, name):
    part = segment(name)
    assert (part in {".", ".."}, "/" in part, unquote(part) in {".", ".."}) == (False, False, False)
    # Nobody has it, and it is asked for by its name.
    answer = standing_site.request("GET", f"/api/v1/clusters/demo/clients/{part}")
    assert (answer.status_code, name in answer.json()["error"]) == (404, True)
    assert f"no client {name} that" in answer.json()["error"]


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/../b", "a%2Fb", "a?b", "a#b", "a/actions/b", "~", "%", "ü"]
)
def test_the_link_to_the_json_of_a_page_is_about_the_same_name(standing_site, name):
    page = standing_site.page(f"/explain/coordinator/{segment(name)}")
    link = html.unescape(re.search(r'this page as JSON: <a href="([^"]+)"', page)[1])
    answer = standing_site.request("GET", link)
    assert answer.json()["subject"] == f"the coordinator of group {name}"


def test_a_member_that_joined_again_is_counted_once():
    consumed = "org_apache_kafka_consumer_fetch_manager_records_consumed"
    text = silent(1.0) + "".join(
        sample(f"{consumed}_{name}", value, group_id="g", group_member_id=member)
        for member, rate, total in (("old", 5.0, 100.0), ("new", 6.0, 7.0), ("", 4.0, 1.0))
        for name, value in (("rate", rate), ("total", total))
    )
    assert row(snapshot(text)).records_per_s.value == 6.0
    total = metric(snapshot(text), "org.apache.kafka.consumer.fetch.manager.records.consumed.total")
    assert (total.value.value, total.labels, total.clients) == (108.0, {"group_id": "g"}, 1)


def test_an_endpoint_of_several_brokers_is_not_counted_for_each():
    text = silent(1.0, broker="0") + sample(SEND_RATE, 4.0, broker="0") + sample(SEND_TOTAL, 9.0, broker="0")
    found = snapshot(text, text, text)
    assert row(found).records_per_s.value == 4.0
    total = metric(found, "org.apache.kafka.producer.record.send.total")
    assert (total.value.value, total.labels) == (9.0, {})


def test_brokers_without_clients_say_why_and_what_would_help():
    receives = "barnabas_client_metrics_pushes_total 0.0\n"
    found = shown(snapshot(receives, "kafka_server_brokerstate 3.0\n", None))
    assert "barnabas client-metrics --alter" in found.unread[0]
    assert "Apache Kafka" in found.unread[1]
    assert "--metrics ID=URL" in found.unread[2]
    failed = replace(snapshot(receives), client_pushes={0: Observation().failed("refused")})
    assert shown(failed).unread == {0: "refused"}


def test_a_broker_that_does_not_say_when_is_no_reason_to_hide_its_clients():
    one = row(snapshot(sample(SEND_RATE, 1.0)))
    assert (one.records_per_s.value, one.heard.state) == (1.0, "unknown")
    assert "does not say" in one.heard.why


def test_too_many_series_are_left_out_and_those_of_the_list_last():
    others = "".join(sample("org_apache_kafka_a_rate", 1.0, client=f"c{number}") for number in range(50))
    found = snapshot(others + silent(1.0) + sample(SEND_RATE, 4.0) + sample(LAG, 4.0), series_max=10)
    view = shown(found)
    assert (len(view.rows), view.left_out) == (9, 42)
    assert next(one for one in view.rows if one.client_id == "c").records_per_s.value == 4.0
    kept = "barnabas_client_metrics_left_out_total 7.0\n"
    assert shown(snapshot(kept)).left_out_by_brokers == 7


def test_of_a_thousand_clients_with_one_id_those_that_were_heard_of_last_are_listed():
    text = "".join(
        silent(age, instance=f"i{age:04}") + sample(SEND_RATE, 1.0, instance=f"i{age:04}")
        for age in range(1_000)
    )
    found = views.client(snapshot(text), "c", NOW, search="", page=1, size=3)
    assert [one.instance_id for one in found.instances] == ["i0000", "i0001", "i0002"]
    assert found.row.clients == 1_000


@pytest.mark.parametrize("end", ["\u2028", "\x85", "\r", "\x0b", "\x1e"])
def test_a_label_begins_no_line_of_the_broker_and_none_of_another_client(end):
    idle = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"
    forged = f"{end}{idle} 0.0{end}{SEND_RATE}{{client_instance_id=}} 9{end}"
    text = f"{idle} 0.5\n" + sample(SEND_RATE, 4.0, topic=forged)
    assert figures_of(text) == {"handler_idle": 0.5}
    (one,) = pushes.client_pushes(text, 10).clients
    assert one.series == [("org.apache.kafka.producer.record.send.rate", (("topic", forged),), 4.0)]


def test_a_server_that_lies_does_not_hold_the_console_up():
    """A minute for these lines where a name is looked for at each letter."""
    text = (SEND_RATE + '{client_instance_id="' + 'i",' + "a" * 7_900 + "} 1\n") * 200
    began = time.thread_time()
    assert [len(one.series) for one in pushes.client_pushes(text, 1_000).clients] == [200]
    assert figures_of("x{" + "a" * 3_900 + "} 1\n") == {}
    assert time.thread_time() - began < 3


def test_odd_texts_are_names_and_no_more():
    text = (
        sample(SEND_RATE, 1.0, client="", instance="i1")
        + sample(SEND_RATE, 2.0, client=r"a\"b\\n\n", instance="i2")
        + sample(SEND_RATE, "NaN", client="nan")
        + sample(SEND_RATE, "x", client="none")
        + SEND_RATE + '{client_instance_id="' + "x" * 9_000 + '"} 1\n'
        + SEND_RATE + '{client_instance_id="} 1\n'
        + sample("client_mine_total_value", 1.0, client="own")
    )  # fmt: skip
    found = {one.client_id: one for one in shown(snapshot(text)).rows}
    assert set(found) == {"", 'a"b\\n\n', "own"}
    assert shown(snapshot(text)).left_out == 1, "the line that is too long"
    assert (found["own"].kinds, metric(snapshot(text), "client_mine_total_value", "own").labels) == ([], {})


@pytest.mark.parametrize("sort", ["rate", "latency", "errors", "lag", "heard", "nonsense"])
def test_the_list_is_sorted_and_what_is_not_known_comes_last(sort):
    names = {
        "rate": SEND_RATE,
        "latency": "org_apache_kafka_producer_request_latency_avg",
        "errors": "org_apache_kafka_producer_record_error_total",
        "lag": LAG,
    }
    text = sample("org_apache_kafka_consumer_x", 1.0, client="a")
    for client, value in (("b", 1.0), ("c", 3.0), ("d", 2.0)):
        text += sample(names.get(sort, SEND_RATE), value, client=client) + silent(value, client)
    order = "acdb" if sort == "nonsense" else "cdba"
    found = shown(snapshot(text), sort=sort)
    assert "".join(one.client_id for one in found.rows) == ("abcd" if sort == "nonsense" else order)
    part = shown(snapshot(text), sort=sort, size=3, page=2)
    assert (len(part.rows), part.paging.rows) == (1, 4)


def test_a_search_is_for_a_part_of_the_id_or_of_a_metrics_name_in_any_case():
    text = "".join(sample(SEND_RATE, 1.0, client=name) for name in ("Orders-1", "billing"))
    assert [one.client_id for one in shown(snapshot(text), search="orders").rows] == ["Orders-1"]
    text = sample("myOwn_rate", 1.0) + sample(SEND_RATE, 1.0)
    found = views.client(snapshot(text), "c", NOW, search="MyoWN", page=1, size=100)
    assert [one.name for one in found.metrics] == ["myOwn_rate"]
