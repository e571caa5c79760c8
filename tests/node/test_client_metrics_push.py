"""Clients that know nothing of us push their metrics, and a scrape of the broker has them (KIP-714)."""

import re
import urllib.request

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from barnabas.admin import Admin, NewTopic
from client_metrics_wanted import want_all_metrics
from waiting import until

pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")

SECONDS = 30


@pytest.fixture
def server(serve, tmp_path):
    """A broker that serves metrics, and asks all clients for all of theirs."""
    started = serve(tmp_path / "data", "--set", "metrics.port=0")
    started.wait_until_ready()
    with Admin(started.bootstrap) as admin:
        admin.topics.create([NewTopic("t", 1, 1)])
        want_all_metrics(admin, started.port)
    yield started
    assert started.stop() == 0, started.tail()


def pushed_by(server, client_id):
    """The values of this client, by name."""
    url = re.search(r"metrics=(http://\S+)", server.ready_line)[1]
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            sample.name: sample.value
            for family in families
            for sample in family.samples
            if sample.labels.get("client_id") == client_id
        }


def test_librdkafka_pushes_and_its_values_are_shown(server):
    producer = Producer({"bootstrap.servers": server.bootstrap, "client.id": "rd"})
    producer.produce("t", b"x")
    assert producer.flush(SECONDS) == 0

    def shown():
        producer.poll(0.05)
        return "org_apache_kafka_producer_connection_creation_total" in pushed_by(server, "rd")

    until(shown)
