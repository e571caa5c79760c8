"""The plug-in in a pytest of its own, as a project has it that uses Barnabas."""

import os
import subprocess
import sys

import pytest

from barnabas.testing.kafka.own_folder import MEMORY

OF_A_PROJECT = r"""
import pytest
from barnabas.client import Producer
from barnabas.testing import Fault

def test_a_topic_of_ones_own(kafka, kafka_topic):
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(kafka_topic, b"here").result()
    assert [record.value for record in kafka.records(kafka_topic)] == [b"here"]
    kafka.plant(Fault("Produce", error="INVALID_RECORD", count=None))

def test_the_faults_of_another_test_are_gone(kafka, kafka_topic):
    with Producer(kafka.bootstrap_servers) as producer:
        assert producer.send(kafka_topic, b"here").result().offset == 0

def test_a_cluster(kafka_cluster):
    assert kafka_cluster(2, settings={"default.replication.factor": 2}).brokers == (0, 1)

def test_a_cluster_is_not_there_before_it_is_asked_for(kafka_cluster):
    with pytest.raises(AttributeError, match=r"no bootstrap_servers: write kafka_cluster\(3\)"):
        kafka_cluster.bootstrap_servers

@pytest.fixture(scope="session")
def of_the_session(kafka):
    return kafka.bootstrap_servers

def test_in_fixtures_of_the_session(of_the_session):
    assert of_the_session.startswith("127.0.0.1:")
"""
SIDE_BY_SIDE = r"""
import pytest
from barnabas.client import Consumer, Producer

@pytest.mark.parametrize("number", range(200))
def test_a_round(kafka_cluster, number):
    kafka = kafka_cluster(1)
    topic = kafka.create_topic()
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(topic, b"%d" % number).result(timeout=60)
    with Consumer(kafka.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        found = []
        while not found:
            found = consumer.poll(1000)
    assert [record.value for record in found] == [b"%d" % number]
"""
ASKS_FOR_NOTHING = """
import sys

def test_nothing_is_imported():
    rooms = ("barnabas.node", "barnabas.client", "barnabas.testing.kafka")
    assert not [name for name in sys.modules if name.startswith(rooms)]
"""


def pytest_of(folder, *options, seconds=120):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        *options,
        str(folder),
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )


def test_the_fixtures_of_a_project(tmp_path):
    (tmp_path / "test_of_a_project.py").write_text(OF_A_PROJECT)
    ran = pytest_of(tmp_path, "-p", "no:randomly")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 passed" in ran.stdout


def test_side_by_side_each_process_has_a_broker_of_its_own(tmp_path):
    (tmp_path / "test_of_a_project.py").write_text(OF_A_PROJECT)
    ran = pytest_of(tmp_path, "-n", "2")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_project_that_asks_for_nothing_pays_nothing(tmp_path):
    (tmp_path / "test_nothing.py").write_text(ASKS_FOR_NOTHING)
    ran = pytest_of(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.campaign
@pytest.mark.timeout(700)
def test_two_hundred_tests_side_by_side(tmp_path):
    """In twenty processes, each with a broker of its own: none sees another's records, and none is left."""
    (tmp_path / "test_side_by_side.py").write_text(SIDE_BY_SIDE)
    before = {path.name for path in MEMORY.glob("barnabas-kafka-*")}
    ran = pytest_of(tmp_path, "-n", "20", seconds=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "200 passed" in ran.stdout
    assert {path.name for path in MEMORY.glob("barnabas-kafka-*")} <= before
