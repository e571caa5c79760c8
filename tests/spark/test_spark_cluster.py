"""Jobs on a standalone cluster of two workers, by `session` and by ``spark-submit``, and on Spark Connect."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.admin import Admin, NewTopic
from spark_processes import HOME, connect_server, environment, standalone_cluster

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(400)]

JOB = Path(__file__).with_name("cluster_job.py")


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as address:
        yield address


@pytest.fixture
def arguments(broker, tmp_path, request):
    """Where the brokers are, a new topic and a folder that all processes see."""
    topic = request.node.name
    with Admin(broker) as admin:
        admin.topics.create([NewTopic(topic, partitions=4)])
    return [broker, topic, str(tmp_path)]


def outcome(command):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_a_session_on_a_cluster(master, arguments):
    found = outcome([sys.executable, JOB, *arguments, master])

    assert found == {"batch": 1000, "stream": 1000, "zone": "UTC", "master": master, "executors": 2}


def test_a_job_that_is_submitted_keeps_what_was_submitted(master, arguments):
    submit = [HOME / "bin" / "spark-submit", "--master", master, "--conf", "spark.sql.session.timeZone=CET"]
    found = outcome([*map(str, submit), JOB, *arguments])

    assert found == {"batch": 1000, "stream": 1000, "zone": "CET", "master": master, "executors": 2}


def test_a_session_of_spark_connect(arguments, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with connect_server(tmp_path, port) as address:
        found = outcome([sys.executable, JOB, *arguments, address])

    assert (found["batch"], found["stream"]) == (1000, 1000)
