"""Quotas in a cluster of both kinds: set by a tool at one broker, each broker holds its clients to them."""

import kafka_harness
import pytest
from kafka_tools import ours as our_tool
from throttle_shapes import TOPIC, Client

from barnabas.admin import Admin, NewTopic
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.alone, pytest.mark.timeout(180)]

BOUND = 5000


@pytest.fixture
def both(zookeeper, serve, server_folder, tmp_path):
    """A genuine broker and ours in one cluster; each leads one partition of a topic."""
    folder = server_folder / "quotas"
    folder.mkdir()
    place = f"{zookeeper}/quotas"
    genuine = kafka_harness.start_broker(folder, place, 1)
    try:
        genuine.wait_until_listening()
        ours = serve(tmp_path / "data", "--id", "2", "--zookeeper", place)
        ours.wait_until_ready()
        with Admin(ours.bootstrap) as admin:
            until(lambda: len(admin.cluster.describe().brokers) == 2, "the brokers know each other", 30)
            admin.topics.create(NewTopic(TOPIC, assignment={0: [1], 1: [2]}))
        yield genuine, ours
    finally:
        genuine.kill()


def set_quota(run, server, client_id, key, value):
    flags = ("--alter", "--add-config", f"{key}={value}", "--entity-type", "clients")
    done = run("kafka-configs", "--bootstrap-server", server.bootstrap, *flags, "--entity-name", client_id)
    code, out = done if isinstance(done, tuple) else (done.returncode, done.stdout + done.stderr)
    assert code == 0, out


def ours(_name, *arguments):
    done = our_tool("configs", *arguments)
    return done.code, done.out + done.err


def test_a_quota_of_a_tool_at_one_broker_holds_at_the_other(both):
    genuine, mine = both
    sides = ((genuine, 0), (mine, 1))
    for run, at in ((kafka_harness.run_tool, genuine), (ours, mine)):
        name = f"of-{run.__name__}"
        set_quota(run, at, name, "producer_byte_rate", BOUND)
        for server, partition in sides:
            # A client that has its quota soon waits for what it then writes too much.
            client = Client(server.port, name, BOUND, partition)
            until(lambda client=client: client.produce(20_000).said_ms > 0, f"{name} at {server}", 60)
            wait = client.produce(100_000)
            assert wait.said_ms > 100_000 / BOUND * 1000 - 12_000
    # The other tool takes the first one's away, and both brokers let go.
    flags = ("--alter", "--delete-config", "producer_byte_rate", "--entity-type", "clients")
    done = our_tool("configs", "--bootstrap-server", mine.bootstrap, *flags, "--entity-name", "of-run_tool")
    assert done.code == 0, done.err
    for server, partition in sides:
        client = Client(server.port, "of-run_tool", BOUND, partition)
        until(lambda client=client: client.produce(100).said_ms == 0, f"no quota at {server}", 60)
