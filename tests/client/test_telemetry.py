"""Our clients push their metrics to brokers that ask for them (KIP-714), and to no others."""

import asyncio
import contextlib
import gc
import math
import re
import urllib.request
import weakref

import pytest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.admin import Admin
from barnabas.client import AsyncProducer, Consumer, Producer
from barnabas.client.otlp import DELTA, Value, metrics_data
from barnabas.client.telemetry import chosen
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from barnabas.protocol.messages.push_telemetry import PushTelemetryResponse
from client_metrics_wanted import want_all_metrics
from fake_cluster import hangup
from waiting import until

otlp = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

INSTANCE = b"i" * 16


def read(data):
    """The values of a push by name: a number, its labels, and whether it is a growing sum."""
    (resource,) = otlp.MetricsData.FromString(bytes(data)).resource_metrics
    labels = {one.key: one.value.string_value for one in resource.resource.attributes}
    found = {}
    for metric in resource.scope_metrics[0].metrics:
        kind = metric.WhichOneof("data")
        (point,) = getattr(metric, kind).data_points
        places = tuple(one.value.string_value for one in point.attributes)
        grows = kind == "sum" and (metric.sum.is_monotonic, metric.sum.aggregation_temporality)
        found[metric.name, places] = (point.as_double, grows)
        assert point.time_unix_nano >= point.start_time_unix_nano > 0
    return labels, found


def test_values_are_written_as_the_library_reads_them():
    values = [Value("a.total", 3.5, {"topic": "t" * 300}, True), Value("b", -1.0, {}, False)]
    data = metrics_data(values, {"group_id": "g"}, since_ns=5, now_ns=2**63, temporality=DELTA)
    assert read(data) == (
        {"group_id": "g"},
        {("a.total", ("t" * 300,)): (3.5, (True, 1)), ("b", ()): (-1.0, False)},
    )


def test_metrics_are_chosen_by_their_names_without_those_that_there_are_not():
    metrics = {
        "consumer-fetch-manager-metrics": {"records-lag-max": 4.0, "fetch-rate": math.nan},
        "consumer-fetch-manager-metrics.t:1": {"records-lag": 4.0},
        "producer-topic-metrics.a.b": {"record-send-total": 2},
    }
    assert [(one.name, one.value, one.labels, one.is_counter) for one in chosen(metrics, ["*"])] == [
        ("org.apache.kafka.consumer.fetch.manager.records.lag.max", 4.0, {}, False),
        ("org.apache.kafka.consumer.fetch.manager.records.lag", 4.0, {"topic": "t", "partition": "1"}, False),
        ("org.apache.kafka.producer.topic.record.send.total", 2.0, {"topic": "a.b"}, True),
    ]
    wanted = ["org.apache.kafka.consumer.fetch.manager.records.lag.m"]
    assert len(list(chosen(metrics, wanted))) == 1
    assert not list(chosen(metrics, []))


def asking(cluster, requested=("org.apache.kafka.producer.record.send",), interval_ms=20, delta=True):
    """The brokers want these metrics; every push is kept, and `outcomes` are the codes for the next ones."""
    cluster.versions |= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0), ApiKey.PUSH_TELEMETRY: (0, 0)}
    cluster.pushes, cluster.taken, cluster.outcomes, cluster.asked = [], [], [], []
    cluster.news = asyncio.Event()

    def subscription(request, _node):
        cluster.asked.append(bytes(request.client_instance_id))
        cluster.news.set()
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=INSTANCE,
            subscription_id=len(cluster.asked),
            accepted_compression_types=[],
            push_interval_ms=interval_ms,
            telemetry_max_bytes=1_000_000,
            delta_temporality=delta,
            requested_metrics=list(requested),
        )

    def push(request, _node):
        cluster.pushes.append(request)
        cluster.news.set()
        code = cluster.outcomes.pop(0) if cluster.outcomes else ErrorCode.NONE
        if code is ErrorCode.NONE:
            cluster.taken.append(request)
        return PushTelemetryResponse(error_code=code)

    cluster._get_telemetry_subscriptions, cluster._push_telemetry = subscription, push


async def seen(cluster, condition):
    """Waits for questions and pushes until the condition holds."""
    while not condition():
        cluster.news.clear()
        await cluster.news.wait()


async def pushed(cluster, count):
    await seen(cluster, lambda: len(cluster.pushes) >= count)


SENT = ("org.apache.kafka.producer.record.send.total", ())


@pytest.mark.parametrize(("delta", "grows"), [(True, (True, 1)), (False, (True, 2))])
def test_a_producer_pushes_how_far_it_has_come_and_once_more_at_its_end(run, fake, delta, grows):
    async def scenario():
        async with fake() as cluster:
            asking(cluster, delta=delta)
            async with AsyncProducer(cluster.bootstrap) as producer:
                await producer.send_and_wait("t", "a")
                await producer.send_and_wait("t", "b")
                await pushed(cluster, 1)
                # What a push has said that was not taken is said by the next.
                cluster.outcomes += [ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.TELEMETRY_TOO_LARGE]
                await producer.send_and_wait("t", "c")
                await pushed(cluster, len(cluster.pushes) + 3)
            return cluster

    cluster = run(scenario())
    assert set(cluster.asked) == {bytes(16)}
    assert {(bytes(one.client_instance_id), one.subscription_id) for one in cluster.pushes} == {(INSTANCE, 1)}
    assert [one.terminating for one in cluster.pushes] == [False] * (len(cluster.pushes) - 1) + [True]
    counts = [read(one.metrics)[1][SENT] for one in cluster.taken]
    assert {kind for _, kind in counts} == {grows}
    assert (sum(count for count, _ in counts) if delta else counts[-1][0]) == 3


def test_a_changed_subscription_is_asked_for_at_once_and_a_refusal_ends_it(run, fake):
    async def scenario():
        async with fake() as cluster:
            asking(cluster)
            cluster.outcomes += [
                ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
                ErrorCode.TELEMETRY_TOO_LARGE,
                ErrorCode.INVALID_REQUEST,
            ]
            async with AsyncProducer(cluster.bootstrap) as producer:
                await pushed(cluster, 3)
                task = producer._telemetry._task
                await asyncio.wait([task], timeout=30)
                assert task.done()
            return cluster

    cluster = run(scenario())
    assert cluster.asked == [bytes(16), INSTANCE]
    assert [one.subscription_id for one in cluster.pushes] == [1, 2, 2], "and no last push"


def test_a_lost_connection_is_survived(run, fake):
    async def scenario():
        async with fake() as cluster:
            asking(cluster)
            cluster.faults[ApiKey.PUSH_TELEMETRY].append(hangup)
            async with AsyncProducer(cluster.bootstrap, retry_backoff_ms=5):
                await pushed(cluster, 1)

    run(scenario())


@pytest.mark.parametrize("how", ["not wanted", "not known", "not allowed"])
def test_nothing_is_pushed_where_it_is_not_wanted(run, fake, how):
    async def scenario():
        async with fake() as cluster:
            asking(cluster, requested=())
            if how == "not known":
                del cluster.versions[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS]
            allowed = how != "not allowed"
            async with AsyncProducer(cluster.bootstrap, enable_metrics_push=allowed) as producer:
                await producer.send_and_wait("t", "a")
                await seen(cluster, lambda: how != "not wanted" or len(cluster.asked) >= 3)
            return cluster

    cluster = run(scenario())
    assert not cluster.pushes
    assert bool(cluster.asked) == (how == "not wanted")


def test_a_client_that_was_dropped_is_found_by_the_garbage_collector(run, fake):
    async def scenario():
        async with fake() as cluster:
            asking(cluster)
            producer = await AsyncProducer(cluster.bootstrap).start()
            await pushed(cluster, 1)
            gone, task = weakref.ref(producer), producer._telemetry._task
            producer._cluster.network.disconnect(1)
            await asyncio.sleep(0)
            del producer
            while gone() is not None:
                gc.collect()
                await asyncio.sleep(0.01)
            await asyncio.wait([task], timeout=30)
            assert task.done()

    run(scenario())


@pytest.fixture
def server(serve, tmp_path):
    """A broker that serves metrics, and asks all clients for all of theirs."""
    started = serve(tmp_path / "data", "--set", "metrics.port=0")
    started.wait_until_ready()
    with Admin(started.bootstrap) as admin:
        want_all_metrics(admin, started.port)
    yield started
    assert started.stop() == 0, started.tail()


def shown(server, client_id):
    url = re.search(r"metrics=(http://\S+)", server.ready_line)[1]
    with contextlib.closing(urllib.request.urlopen(url, timeout=30)) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            sample.name: (sample.value, sample.labels)
            for family in families
            for sample in family.samples
            if sample.labels.get("client_id") == client_id
        }


def test_our_broker_shows_what_our_clients_push(server):
    options = {"client_id": "reader", "group_id": "readers", "auto_offset_reset": "earliest"}
    with (
        Producer(server.bootstrap, client_id="writer") as producer,
        Consumer(server.bootstrap, **options) as consumer,
    ):
        for number in range(10):
            producer.send("t", str(number))
        producer.flush()
        consumer.subscribe("t")
        while not consumer.poll(timeout_ms=1000):
            pass
        sent = "org_apache_kafka_producer_record_send_total"
        until(lambda: shown(server, "writer").get(sent, (0,))[0] == 10)
        lag = "org_apache_kafka_consumer_fetch_manager_records_lag_max"
        until(lambda: consumer.poll() == [] and lag in shown(server, "reader"))
        assert shown(server, "reader")[lag][1]["group_id"] == "readers"
