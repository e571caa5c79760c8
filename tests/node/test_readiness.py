"""When a broker says that it is ready, and what clients see before."""

import signal
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.core.ids import TopicPartition
from barnabas.core.pending import Pending
from barnabas.network.errors import CloseConnection
from barnabas.network.peer import ListenerId, Peer
from barnabas.node import readiness
from barnabas.node.readiness import FirstMetadata, Gate, look_again_s
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from barnabas.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from barnabas.replica.hosted import HostedPartitions
from metadata_updates import apply
from standing_clock import Clock


class Connection:
    """Counts the holds of one connection."""

    def __init__(self):
        self.holds = 0
        self.peer = Peer(ListenerId("PLAINTEXT", "PLAINTEXT"), ("127.0.0.1", 1), self)

    def hold(self):
        self.holds += 1

    def release(self):
        self.holds -= 1


def frame(api, text=b""):
    return memoryview(bytearray(struct.pack(">h", api) + text))


class Echo:
    """A service that answers a frame with itself, at once or later, or not at all."""

    def __init__(self):
        self.handled = []
        self.later = {}

    def handle(self, _peer, request):
        body = bytes(request[2:])
        self.handled.append(body)
        if body.startswith(b"close"):
            raise CloseConnection("bad")
        if body.startswith(b"later"):
            return self.later.setdefault(body, Pending())
        return None if body.startswith(b"none") else [body]


class TestGate:
    def test_what_the_controller_says_passes_and_all_else_waits_in_its_order(self):
        service = Echo()
        gate = Gate(service, Clock())
        clients, controller = [Connection() for _ in range(3)], Connection()
        waiting = [
            gate.handle(client.peer, frame(ApiKey.METADATA, b"%d" % number))
            for number, client in enumerate(clients)
        ]
        assert gate.handle(controller.peer, frame(ApiKey.UPDATE_METADATA, b"update")) == [b"update"]
        assert gate.handle(controller.peer, frame(ApiKey.LEADER_AND_ISR, b"roles")) == [b"roles"]
        assert gate.handle(controller.peer, frame(ApiKey.API_VERSIONS, b"versions")) == [b"versions"]
        assert not any(each.done for each in waiting)
        assert [each.holds for each in [*clients, controller]] == [1, 1, 1, 0]
        gate.open()

        assert [each.holds for each in clients] == [0, 0, 0]
        assert [each.result() for each in waiting] == [[b"0"], [b"1"], [b"2"]]
        assert service.handled == [b"update", b"roles", b"versions", b"0", b"1", b"2"]

    def test_many_that_waited_are_handled_in_slices(self):
        clock, service = Clock(), Echo()
        gate = Gate(service, clock)
        clients = [Connection() for _ in range(10)]
        waiting = [gate.handle(client.peer, frame(ApiKey.METADATA, b"x")) for client in clients]
        slow = service.handle

        def handle(peer, request):
            clock.now_ms += 2
            return slow(peer, request)

        service.handle = handle
        opened = gate.open()
        assert 0 < len(service.handled) < 5, "others have their turn after a few milliseconds"
        assert sum(client.holds for client in clients) == 10 - len(service.handled)
        clock.advance(100)

        assert opened.done
        assert all(each.done for each in waiting)
        assert [client.holds for client in clients] == [0] * 10

    def test_each_kind_of_answer_comes_to_who_waited(self):
        service = Echo()
        gate = Gate(service, Clock())
        later, failing, none, closed = (
            gate.handle(Connection().peer, frame(ApiKey.PRODUCE, text))
            for text in (b"later1", b"later2", b"none", b"close")
        )
        gate.open()
        service.later[b"later1"].complete([b"done"])
        service.later[b"later2"].fail(ValueError("late"))

        assert later.result() == [b"done"]
        assert isinstance(failing.error, ValueError)
        assert none.result() is None
        assert isinstance(closed.error, CloseConnection)

    def test_an_open_gate_holds_nothing_back(self):
        gate = Gate(Echo(), Clock())
        gate.open()
        client = Connection()

        assert gate.handle(client.peer, frame(ApiKey.METADATA, b"topics")) == [b"topics"]
        assert client.holds == 0

    def test_too_much_that_waits_closes_the_connection(self, monkeypatch):
        monkeypatch.setattr(readiness, "HELD_BYTES_MAX", 100)
        gate = Gate(Echo(), Clock())
        kept = gate.handle(Connection().peer, frame(ApiKey.PRODUCE, b"x" * 90))
        with pytest.raises(CloseConnection, match="starting"):
            gate.handle(Connection().peer, frame(ApiKey.PRODUCE, b"x" * 20))
        gate.open()

        assert kept.result() == [b"x" * 90]


class World:
    """A broker 1 that waits for UpdateMetadata with the topics."""

    def __init__(self, *topics, session_ms=20_000):
        self.clock = Clock()
        self.metadata = MetadataCache(1)
        self.hosted = HostedPartitions(self.metadata)
        self.first = FirstMetadata(
            1, set(topics), self.metadata, self.hosted, self.clock, session_ms=session_ms
        )

    def update(self, *brokers, **replicas):
        endpoints = [UpdateMetadataEndpoint(port=9, host="h", listener="PLAINTEXT", security_protocol=0)]
        apply(
            self.metadata,
            UpdateMetadataRequest(
                controller_id=2,
                live_brokers=[UpdateMetadataBroker(id=broker, endpoints=endpoints) for broker in brokers],
                topic_states=[
                    UpdateMetadataTopicState(
                        topic_name=topic,
                        partition_states=[UpdateMetadataPartitionState(partition_index=0, replicas=[broker])],
                    )
                    for topic, broker in replicas.items()
                ],
            ),
        )

    def host(self, topic):
        self.hosted.online[TopicPartition(topic, 0)] = object()


class TestFirstMetadata:
    def test_a_broker_that_was_not_named_waits_as_long_as_it_takes(self):
        world = World()
        world.clock.advance(1_000_000)
        assert not world.first.complete()
        world.update(1)

        assert world.first.complete()

    def test_the_empty_first_update_of_a_new_controller_is_not_enough(self):
        world = World("a", "b")
        world.update(1, 2)
        assert not world.first.complete()
        world.update(1, 2, a=2)
        assert not world.first.complete()
        world.update(1, 2, b=2)

        assert world.first.complete()

    def test_it_waits_for_the_partitions_that_it_holds(self):
        world = World("a", "b")
        world.update(1, 2, a=1, b=1)
        assert not world.first.complete()
        world.host("a")
        assert not world.first.complete()
        world.hosted.take_offline(TopicPartition("b", 0))

        assert world.first.complete()

    def test_a_controller_that_stops_telling_is_waited_for_only_so_long(self, caplog):
        world = World("a", "b", "c")
        world.update(1, a=2)
        assert not world.first.complete()
        world.clock.advance(19_000)
        world.update(1, b=2)
        assert not world.first.complete()
        world.clock.advance(19_000)
        assert not world.first.complete(), "something came since"
        world.clock.advance(2_000)

        assert world.first.complete()
        assert "start.metadata_incomplete" in caplog.text
        assert "['c']" in caplog.text

    def test_a_short_session_is_no_reason_to_let_clients_in_before_the_next_controller_sends(self):
        world = World("a", session_ms=1000)
        world.update(1)
        assert not world.first.complete()
        world.clock.advance(10_000)
        assert not world.first.complete()
        world.update(1, a=2)

        assert world.first.complete()


def ask_metadata(port, topics, timeout_s=20):
    """What a broker that may be starting answers on the topics, as soon as it answers at all."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
    chunks = encode_request(RequestHeader(ApiKey.METADATA, 9, 7, "early"), request)
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
                connection.sendall(b"".join(chunks))
                stream = connection.makefile("rb")
                (size,) = struct.unpack(">i", stream.read(4))
                answer, _ = MetadataResponse.decode(stream.read(size), 9, 5)
                return answer
        except (ConnectionError, struct.error):
            assert time.monotonic() < deadline


def test_a_start_that_waits_for_long_seldom_looks():
    """Each look is some 0.1 ms of a processor; the parent of a machine takes 1 s in 120 s for work."""
    waited_s, looks = 0.0, 0
    while waited_s < 120:
        waited_s, looks = waited_s + look_again_s(waited_s), looks + 1
    assert (look_again_s(0.1), looks < 1_500) == (0.002, True)


def test_no_client_hears_that_a_topic_is_unknown_while_the_broker_starts(tmp_path, serve):
    names = [f"t{number}" for number in range(3)]
    first = serve(tmp_path / "data")
    with Admin(first.wait_until_ready().bootstrap) as admin:
        for name in names:
            admin.topics.create(NewTopic(name, partitions=50))
    for _ in range(2):
        first.kill()
        first = serve(tmp_path / "data")
        answer = ask_metadata(first.port, names)
        assert {topic.error_code for topic in answer.topics} == {0}
        assert {each.error_code for topic in answer.topics for each in topic.partitions} == {0}
        assert sum(len(topic.partitions) for topic in answer.topics) == 150
        first.wait_until_ready()
    assert first.stop() == 0


@pytest.fixture
def silent(join_cluster):
    """A controller that does not say a word, and a broker that joins its cluster."""
    controller = join_cluster(1, "--set", "zookeeper.session.timeout.ms=60000")
    controller.wait_until_ready()
    controller.process.send_signal(signal.SIGSTOP)
    joining = join_cluster(2, "--set", "zookeeper.session.timeout.ms=600")
    deadline = time.monotonic() + 30
    while joining.tail().count("start.waits_for_controller controller=1") < 3:
        assert time.monotonic() < deadline
        assert joining.process.poll() is None, joining.tail()
        time.sleep(0.01)
    yield controller, joining
    controller.process.send_signal(signal.SIGCONT)
    assert controller.stop() == 0


def test_a_broker_waits_for_a_silent_controller_and_says_so(silent):
    controller, joining = silent
    controller.process.send_signal(signal.SIGCONT)
    joining.wait_until_ready()
    lines = [line for line in joining.tail().splitlines() if "start.waits_for_controller" in line]

    assert all("mend=" in line for line in lines)
    assert joining.stop() == 0


def test_a_broker_that_waits_for_a_silent_controller_can_be_stopped(silent):
    _, joining = silent

    assert joining.stop() == 0
    assert (joining.data_dir / ".kafka_cleanshutdown").exists()
