"""Clients ask what to push, and push it (KIP-714): the checks in Kafka's order, and what is shown of it."""

import random
import sys

import pytest

pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from barnabas.broker.client_metrics import manager as managing
from barnabas.broker.client_metrics import receiver as receiving
from barnabas.broker.client_metrics.subscriptions import ClientMetricsSubscriptions, TelemetryClient
from barnabas.broker.profiles import profile_of, wants_client_metrics
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import ZERO_UUID, uuid_text
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from barnabas.protocol.messages.push_telemetry import PushTelemetryRequest
from barnabas.records.compression import Codec, compress
from barnabas.records.crc import crc32c

ID = bytes(range(16))
OTHER = bytes(range(16, 32))
INTERVAL_MS = 1000


@pytest.fixture
def world(make_world):
    world = make_world(barnabas_api_profile="4.4", metrics_port="0")
    subscribe(world, "all", {"interval.ms": str(INTERVAL_MS), "metrics": "*"})
    return world


def subscribe(world, name, values):
    world.topics.client_metrics[name] = values
    world.topics.client_metrics_version += 1


def get(world, instance_id=ID):
    return world.send(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def subscription_of(world, instance_id=ID):
    client = TelemetryClient("test", world.peer)
    return ClientMetricsSubscriptions(world.topics).wanted_of(instance_id, client).subscription_id


def push(world, data=b"", instance_id=ID, codec=0, subscription_id=None, *, terminating=False):
    if subscription_id is None:
        subscription_id = subscription_of(world, instance_id)
    request = PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=data,
    )
    return world.send(request, 0).error_code


def metrics(*points, monotonic=True, delta=True, name="org.apache.kafka.producer.record.send.total"):
    """The bytes of one metric with these values, by the value of its label `topic`."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    if monotonic is not None:
        metric.sum.is_monotonic = monotonic
        metric.sum.aggregation_temporality = 1 if delta else 2
    into = (metric.gauge if monotonic is None else metric.sum).data_points
    for topic, value in points:
        point = into.add(as_double=value)
        point.attributes.add(key="topic").value.string_value = topic
    return data.SerializeToString()


def shown(world):
    """The values of all series, by their name and the label `topic`."""
    found = {}
    for metric in world.receiver.families():
        place = metric.labels.index("topic")
        for labels, value in metric.read():
            found[metric.name, labels[place]] = value
    return found


def test_a_client_gets_an_id_and_all_that_is_asked_of_it(world):
    answer = get(world, ZERO_UUID)

    assert answer.error_code == ErrorCode.NONE
    assert answer.client_instance_id not in (ZERO_UUID, ID)
    assert answer.accepted_compression_types == [4, 3, 1, 2]
    assert (answer.push_interval_ms, answer.telemetry_max_bytes) == (INTERVAL_MS, 1_048_576)
    assert answer.delta_temporality
    assert answer.requested_metrics == ["*"]


def test_subscriptions_that_match_are_taken_together(make_world):
    world = make_world(barnabas_api_profile="4.4", metrics_port="0")
    world.peer.software = ("apache-kafka-java", "4.4.0")
    subscribe(world, "one", {"interval.ms": "5000", "metrics": "b.,a."})
    subscribe(
        world, "two", {"interval.ms": "2000", "metrics": "a.,c.", "match": "client_software_name=apache.*"}
    )
    subscribe(world, "part", {"metrics": "d.", "match": "client_software_name=apache"})
    subscribe(world, "both", {"metrics": "e.", "match": "client_software_version=4.*,client_source_port=1"})
    answer = get(world)

    assert sorted(answer.requested_metrics) == ["a.", "b.", "c."]
    assert answer.push_interval_ms == 2000


def test_the_id_of_a_subscription_is_kafkas(world):
    """A checksum of the text of Java's set of metrics and of the interval, mixed with the client's id."""
    instance_id = bytes(8) + bytes.fromhex("0000000100000002")

    assert get(world, instance_id).subscription_id % 2**32 == crc32c(b"[*]1000") ^ 1 ^ 2
    subscribe(world, "all", {"metrics": "Aa,BB,b"})
    assert subscription_of(world, instance_id) % 2**32 == crc32c(b"[Aa, BB, b]300000") ^ 1 ^ 2


def test_a_client_asks_once_an_interval(world):
    assert get(world).error_code == ErrorCode.NONE
    assert get(world).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.clock.advance(INTERVAL_MS)
    assert get(world).error_code == ErrorCode.NONE


def test_a_client_pushes_once_an_interval_and_once_more_when_it_ends(world):
    get(world)
    assert push(world) == ErrorCode.NONE
    assert push(world) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(world, terminating=True) == ErrorCode.NONE
    assert push(world, terminating=True) == ErrorCode.INVALID_REQUEST


def test_a_changed_subscription_is_asked_for_at_once(world):
    old = get(world).subscription_id
    subscribe(world, "all", {"interval.ms": str(INTERVAL_MS), "metrics": "a."})

    assert push(world, subscription_id=old) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    answer = get(world)
    assert (answer.error_code, answer.requested_metrics) == (ErrorCode.NONE, ["a."])
    world.clock.advance(INTERVAL_MS)
    assert push(world, subscription_id=answer.subscription_id) == ErrorCode.NONE


def test_the_subscription_of_another_client_is_refused(world):
    """Its id follows from what is asked of a client, so those who are asked the same have the same."""
    match = f"client_instance_id={uuid_text(OTHER)}"
    subscribe(world, "all", {"interval.ms": str(INTERVAL_MS), "metrics": "org.apache.kafka.producer."})
    subscribe(world, "theirs", {"metrics": "org.apache.kafka.consumer.", "match": match})
    own, others = subscription_of(world), subscription_of(world, OTHER)
    assert own != others
    get(world)
    get(world, OTHER)

    assert push(world, metrics(("a", 1.0)), subscription_id=others) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    for made_up in (0, -1, 2**31 - 1, own ^ 1):
        world.clock.advance(INTERVAL_MS)
        assert push(world, metrics(("a", 1.0)), subscription_id=made_up) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert shown(world) == {}
    assert push(world, metrics(("b", 1.0)), OTHER, subscription_id=others) == ErrorCode.NONE
    assert len(shown(world)) == 1


@pytest.mark.parametrize("instance_id", [ZERO_UUID, bytes(15) + b"\x01"])
def test_a_push_needs_an_id(world, instance_id):
    assert push(world, instance_id=instance_id, subscription_id=1) == ErrorCode.INVALID_REQUEST


def test_a_codec_that_there_is_not_is_refused_and_asked_about_at_once(world):
    get(world)
    assert push(world, b"x", codec=5) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert get(world).error_code == ErrorCode.NONE


def test_a_push_has_as_many_bytes_as_are_allowed(world):
    get(world)
    assert push(world, bytes(1_048_577)) == ErrorCode.TELEMETRY_TOO_LARGE


@pytest.mark.parametrize("codec", Codec)
def test_what_is_pushed_in_any_codec_is_shown_and_deltas_are_added_up(world, codec):
    get(world)
    for value in (3.0, 4.0):
        assert push(world, compress(codec, metrics(("a", value), ("b", 1.0))), codec=codec) == ErrorCode.NONE
        world.clock.advance(INTERVAL_MS)

    name = "org_apache_kafka_producer_record_send_total"
    assert shown(world) == {(name, "a"): 7.0, (name, "b"): 2.0}


@pytest.mark.parametrize(
    ("kind", "given", "name"),
    [
        ({"monotonic": True, "delta": False}, "org.apache.kafka.x", "org_apache_kafka_x_total"),
        ({"monotonic": None}, "org.apache.kafka.x.total", "org_apache_kafka_x_total_value"),
        (
            {"monotonic": None},
            "kafka_server_kafkaserver_brokerstate",
            "client_kafka_server_kafkaserver_brokerstate",
        ),
    ],
)
def test_other_values_take_the_place_of_the_last(world, kind, given, name):
    get(world)
    for value in (3.0, 4.0):
        push(world, metrics(("a", value), name=given, **kind))
        world.clock.advance(INTERVAL_MS)

    assert shown(world) == {(name, "a"): 4.0}


def test_series_that_are_pushed_no_longer_go(world):
    get(world)
    push(world, metrics(("a", 1.0), ("b", 1.0)))
    for _ in range(61):
        world.clock.advance(INTERVAL_MS)
        push(world, metrics(("a", 1.0)))

    assert {topic for _, topic in shown(world)} == {"a"}


def test_each_client_that_has_series_says_when_it_has_pushed(world):
    subscribe(world, "all", {"interval.ms": "30000", "metrics": "*"})
    get(world)
    get(world, OTHER)
    push(world, metrics(("a", 1.0)))
    push(world, metrics(("b", 1.0)), OTHER)
    push(world, instance_id=bytes(range(32, 48)))
    world.clock.advance(30_000)
    push(world, metrics(("b", 1.0)), OTHER)
    world.clock.advance(5_000)

    one, other = (("test", uuid_text(each)) for each in (ID, OTHER))
    assert dict(world.receiver.push_ages()) == {one: 35.0, other: 5.0}
    assert dict(world.receiver.lifetimes()) == {one: 90.0, other: 90.0}
    world.clock.advance(55_000)
    assert dict(world.receiver.push_ages()) == {other: 60.0}


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f", metrics(("a", 1.0))[:-3]],
    ids=["noise", "length", "cut"],
)
def test_bytes_that_are_no_metrics_are_refused_and_harm_nobody(world, data):
    get(world)
    assert push(world, data) == ErrorCode.INVALID_RECORD
    world.clock.advance(INTERVAL_MS)
    assert push(world, metrics(("a", 1.0))) == ErrorCode.NONE
    assert len(shown(world)) == 1


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_read_elsewhere_and_refused(world, codec):
    get(world)
    world.elsewhere.waits = True
    bomb = compress(codec, bytes(receiving.PLAIN_BYTES_MAX + 1))
    request = PushTelemetryRequest(
        client_instance_id=ID, subscription_id=subscription_of(world), compression_type=codec, metrics=bomb
    )
    answer = world.start(request, 0)
    assert answer() is None
    world.elsewhere.finish()
    assert answer().error_code == ErrorCode.INVALID_RECORD


def test_the_series_of_one_client_are_bounded(world, monkeypatch):
    monkeypatch.setattr(receiving, "SERIES_OF_CLIENT_MAX", 3)
    get(world)
    push(world, metrics(*((str(number), 1.0) for number in range(5))))

    assert len(shown(world)) == 3
    assert world.receiver.left_out == 2


def test_long_series_take_the_room_of_several_and_give_it_back(world):
    """Else 2,000 series of one client are 20 MB in each scrape, more than the console reads."""
    get(world)
    # An end of a line takes two bytes there: 600 with the rest of the line, of which LINE_BYTES are the room.
    push(world, metrics(*(("\n" * 250 + str(number), 1.0) for number in range(1_500))))
    assert len(shown(world)) == world.receiver.series_count == receiving.SERIES_OF_CLIENT_MAX // 2
    world.clock.advance(61_000)
    world.receiver.sweep()
    get(world)
    push(world, metrics(*((str(number), 1.0) for number in range(1_500))))
    assert len(shown(world)) == 1_500


def test_the_id_of_a_client_is_cut_as_other_labels_are(world):
    world.receiver.export("i", "c" * 32_000, Codec.NONE, metrics(("a", 1.0)), 60_000.0)
    assert [len(client) for (client, _), _ in world.receiver.push_ages()] == [256]


def test_no_label_of_a_client_is_that_of_a_machine(world):
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="a")
    point = metric.gauge.data_points.add(as_double=1.0)
    for name in ("broker", "_broker_", "client-id"):
        point.attributes.add(key=name).value.string_value = name
    get(world)
    push(world, data.SerializeToString())
    (found,) = world.receiver.families()
    assert found.labels == ("client_id", "client_instance_id", "client_broker")


def labelled(count):
    """The bytes of a metric with so many values, each with a label of its own."""
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="a")
    for number in range(count):
        point = metric.gauge.data_points.add(as_double=1.0)
        point.attributes.add(key=f"k{number}").value.string_value = "v"
    return data.SerializeToString()


def test_the_labels_of_one_metric_are_bounded(world):
    """A scrape looks for each of them in each series: a thousand of both are a million."""
    get(world)
    push(world, labelled(receiving.LABELS_OF_NAME_MAX + 3))

    (metric,) = world.receiver.families()
    assert len(list(metric.read())) == receiving.LABELS_OF_NAME_MAX
    assert len(metric.labels) == receiving.LABELS_OF_NAME_MAX + 2, "and the two ids of the client"
    assert world.receiver.left_out == 3


def test_labels_go_with_their_last_series(world):
    get(world)
    push(world, labelled(3))
    for _ in range(61):
        world.clock.advance(INTERVAL_MS)
        push(world, labelled(1))

    (metric,) = world.receiver.families()
    assert metric.labels == ("client_id", "client_instance_id", "k0")


def test_all_series_are_bounded(make_world):
    world = make_world(barnabas_api_profile="4.4", metrics_port="0", barnabas_client_telemetry_series_max="3")
    get(world)
    push(world, metrics(*((str(number), 1.0) for number in range(5))))

    assert len(shown(world)) == 3


def test_clients_that_are_known_are_bounded_and_go_with_their_connection(world, monkeypatch):
    monkeypatch.setattr(managing, "INSTANCES_MAX", 10)
    for number in range(20):
        world.peer.address = ("127.0.0.1", number)
        get(world, number.to_bytes(16) if number > 1 else ID)
    assert world.services.client_metrics.instance_count() == 10

    world.peer._control = None
    assert world.services.client_metrics.instance_count() == 0


def test_a_silent_client_is_forgotten(world):
    get(world)
    world.clock.advance(59_999)
    assert world.services.client_metrics.instance_count() == 1
    world.clock.advance(1)
    assert world.services.client_metrics.instance_count() == 0


@pytest.mark.parametrize(
    ("config", "advertised"),
    [
        ({"metrics.port": "0"}, True),
        ({}, False),
        ({"metrics.port": "0", "barnabas.client.telemetry.enable": "false"}, False),
        ({"metrics.port": "0", "barnabas.api.profile": "3.9"}, False),
    ],
)
def test_it_is_advertised_where_pushes_are_taken(config, advertised):
    versions = profile_of(broker_config(config)).versions

    assert (ApiKey.PUSH_TELEMETRY in versions) is advertised
    assert (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS in versions) is advertised


def test_large_pushes_are_read_a_few_at_a_time(world):
    world.elsewhere.waits = True
    bomb = compress(Codec.ZSTD, bytes(receiving.AT_ONCE_BYTES_MAX + 1))
    answers = []
    for number in range(2, receiving.READING_MAX + 3):
        instance_id = number.to_bytes(16)
        request = PushTelemetryRequest(
            client_instance_id=instance_id,
            subscription_id=subscription_of(world, instance_id),
            compression_type=Codec.ZSTD,
            metrics=bomb,
        )
        answers.append(world.start(request, 0))

    *waiting, last = (answer() for answer in answers)
    assert waiting == [None] * receiving.READING_MAX
    assert last.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.elsewhere.finish()
    assert push(world, metrics(("a", 1.0))) == ErrorCode.NONE


def test_ever_new_ids_do_not_help_a_connection_or_an_address_to_push_more_often(world, monkeypatch):
    monkeypatch.setattr(managing, "NEW_OF_ADDRESS_MAX", 2 * managing.NEW_OF_CONNECTION_MAX)

    def pushed(port, host="127.0.0.1"):
        """How many of a hundred new ids get a push in."""
        world.peer.address = (host, port)
        codes = [push(world, metrics(("a", 1.0)), random.randbytes(16)) for _ in range(100)]
        assert set(codes) <= {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        return codes.count(ErrorCode.NONE)

    most = managing.NEW_OF_CONNECTION_MAX
    assert [pushed(port) for port in (1, 2, 3)] == [most, most, 0]
    assert pushed(1, "127.0.0.2") == most, "another address is none the worse"
    world.clock.advance(managing.MINUTE_MS)
    assert pushed(1) == most


def test_a_connection_that_comes_back_begins_anew_and_is_counted(world, monkeypatch):
    monkeypatch.setattr(managing, "NEW_OF_CONNECTION_MAX", 2)
    for expected in (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        assert push(world, metrics(("a", 1.0))) == expected
        (instance,) = world.services.client_metrics._instances.values()
        instance.expires_ms = 0.0


def test_a_thousand_clients_push_among_some_that_mean_harm(world):
    for number in range(2, 1002):
        world.peer.address = (f"10.0.0.{number % 100}", number)
        instance_id = number.to_bytes(16)
        harmful = number % 10 == 0
        data = b"\xff" * number if harmful else compress(Codec.ZSTD, metrics((str(number), 1.0)))
        code = push(world, data, instance_id=instance_id, codec=0 if harmful else Codec.ZSTD)

        assert code == (ErrorCode.INVALID_RECORD if harmful else ErrorCode.NONE)

    assert len(shown(world)) == world.receiver.pushes == 900
    assert world.receiver.malformed == 100
    assert world.services.client_metrics.instance_count() == 1000


def test_it_is_not_advertised_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.metrics.v1.metrics_pb2", None)
    config = broker_config({"metrics.port": "0"})

    assert ApiKey.PUSH_TELEMETRY not in profile_of(config).versions
    assert wants_client_metrics(config), "the broker says what is missing"
