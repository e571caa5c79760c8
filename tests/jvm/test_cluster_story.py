"""Short forms of the stories of three brokers under load; `cluster_story.py` plays whole ones by command."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from pathlib import Path

import kafka_harness
import pytest
from cluster_story import known_warnings, play, transactions
from three_brokers import JVM, OURS, shapes_of_warnings

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

READERS = {"readers": ("confluent-range", "barnabas")}


@pytest.fixture
def judged(server_folder, request, judge):
    """Plays a plot in a folder of its own, and fails with the problems that it ends with."""
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    folder = server_folder / request.node.name
    folder.mkdir()

    def run(plot, kinds, connect=None, **options):
        problems, story = play(folder, plot, kinds, connect, **options)
        assert not problems, "\n".join([*problems[:20], str(story.cluster.our_warnings())])

    return run


def test_a_mixed_cluster_loses_nothing_while_brokers_die_and_the_office_moves(judged, zookeeper):
    def plot(story):
        story.cluster.put_in_office(3)
        story.kill(1)
        story.cluster.put_in_office(1)
        story.reassign({"__consumer_offsets": 4}, 1)
        story.stop(3)

    judged(plot, (JVM, OURS, OURS), f"{zookeeper}/mixed-story", groups=READERS)


def test_three_brokers_of_ours_lose_nothing_while_they_are_killed_and_stopped(judged):
    def plot(story):
        for number in story.cluster.kinds:
            story.kill(number)
        story.reassign({"often": 2, "__consumer_offsets": 4}, 1)
        story.shift("once", 1)
        story.stop(story.cluster.controller())

    judged(plot, (OURS, OURS, OURS), groups=READERS | {"consumer": ("confluent-consumer",)})


def test_transactions_continue_while_a_broker_changes_its_kind(judged, zookeeper):
    def plot(story):
        transactions(story, numbers=(1,), clients=("java", "barnabas", "aiokafka"))

    judged(plot, (JVM, OURS, JVM), f"{zookeeper}/transactions-story", groups=READERS)


PAGE = Path(__file__).parents[2] / "docs" / "rolling-replacement.md"


def scripts(folder: Path) -> Path:
    """A folder of the commands that the page names."""
    folder.mkdir()
    tools = {
        f"{name}.sh": kafka_harness.tool_command(name) for name in ("kafka-topics", "kafka-leader-election")
    }
    tools["kafka-server-start.sh"] = kafka_harness.broker_command(kafka_harness.JUDGE_OPTIONS)
    tools["barnabas"] = [sys.executable, "-m", "barnabas"]
    for name, command in tools.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
    return folder


def test_the_page_replaces_a_jvm_broker_by_ours_and_back_under_load(judged, zookeeper, tmp_path):
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    before, start_ours, after, start_kafka = (
        re.sub("^[$] ", "", block, flags=re.MULTILINE) for block in blocks
    )
    page = [before, start_ours, after, before, start_kafka, after, before]

    def plot(story):
        cluster = story.cluster
        server = cluster.running.pop(1)
        # The shell waits for the end of a process whose parent is this one: somebody has to take its exit
        # code.
        threading.Thread(target=server.process.wait, daemon=True).start()
        given = {"pid": str(server.pid), "cluster": f"--bootstrap-server {cluster.bootstrap}"}
        path = f"{scripts(tmp_path / 'bin')}{os.pathsep}{os.environ['PATH']}"
        folder = cluster.folder / "broker-1"
        bash = subprocess.Popen(
            ["bash", "-e", "-c", "".join(page)],
            env=os.environ | given | {"PATH": path},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = bash.communicate(timeout=300)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGKILL)
        assert bash.returncode == 0, said
        logs = (folder / "barnabas.log").read_text(), (folder / "kafka.log").read_text()
        assert "ready PLAINTEXT" in logs[0], logs[0]
        # A Java producer has five requests on the way as the leader changes: later ones are out of order.
        strange = set(shapes_of_warnings(logs[1])) - known_warnings()
        assert not [each for each in strange if not each.startswith("WARN")], logs[1]
        cluster.start(1)

    judged(plot, (JVM, OURS, OURS), f"{zookeeper}/replaced-story", groups=READERS)
