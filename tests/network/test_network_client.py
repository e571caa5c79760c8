import asyncio
import errno
import os
import socket
import struct

import pytest
from network_harness import DiskFile

from barnabas.core.chunks import FileSlice
from barnabas.network import socket_wire
from barnabas.network.client import NetworkClient, parse_bootstrap
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.errors import DisconnectedError, RequestTimedOutError
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.server import Server
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.protocol.registry import REQUESTS

FAST = ClientSettings(reconnect_backoff_ms=1, reconnect_backoff_max_ms=2, request_timeout_ms=3000)


class FakeBroker:
    """Answers ApiVersions and what it was given answers for; notes what it was asked."""

    def __init__(self, node_id=0, **answers):
        self.node_id = node_id
        self.answers = {ApiKey[name]: answer for name, answer in answers.items()}
        self.asked = []
        self.cluster = [self]
        self.port = 0

    async def start(self, port=0):
        self.server = Server(LoopClock(asyncio.get_running_loop()))
        self.port = self.server.bind(Endpoint("PLAINTEXT", "127.0.0.1", port)).port
        self.server.start(self)
        return self

    def handle(self, _peer, frame):
        header, offset = decode_request_header(frame)
        api = ApiKey(header.api_key)
        request, _ = REQUESTS[api].decode(frame, header.api_version, offset)
        if api is ApiKey.API_VERSIONS:
            response = ApiVersionsResponse(
                api_keys=[
                    ApiVersion(api_key=key, min_version=cls.min_version, max_version=cls.max_version)
                    for key, cls in ((k, REQUESTS[k]) for k in (ApiKey.PRODUCE, ApiKey.METADATA))
                ]
            )
            return encode_response(header.correlation_id, response, header.api_version)
        self.asked.append((header, request))
        answer = self.answers.get(api, self.describe)(request)
        return answer and encode_response(header.correlation_id, answer, header.api_version)

    def describe(self, _request):
        brokers = [
            MetadataResponseBroker(node_id=each.node_id, host="127.0.0.1", port=each.port)
            for each in self.cluster
        ]
        return MetadataResponse(brokers=brokers, cluster_id="fake")


def run(scenario, *brokers, bootstrap=True, **options):
    """Runs a scenario with started brokers and a client of the first."""

    async def main():
        for broker in brokers:
            await broker.start()
        servers = [("127.0.0.1", brokers[0].port)] if bootstrap else ()
        client = NetworkClient(servers, settings=FAST, client_id="test", **options)
        try:
            async with asyncio.timeout(20):
                await scenario(client)
        finally:
            await client.close()
            for broker in brokers:
                await broker.server.stop(grace_ms=0)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("servers", "nodes"),
    [
        ("a:1,b:2", [Node(-1, "a", 1), Node(-2, "b", 2)]),
        ([("a", 1), " [::1]:2 "], [Node(-1, "a", 1), Node(-2, "::1", 2)]),
    ],
)
def test_bootstrap_servers(servers, nodes):
    assert parse_bootstrap(servers) == nodes


@pytest.mark.parametrize("servers", ["a", "a:", ":1", "a:b", "", []])
def test_bootstrap_servers_that_are_refused(servers):
    with pytest.raises(ValueError, match=r"bootstrap\.servers"):
        parse_bootstrap(servers)


def test_metadata_makes_the_nodes_known():
    one, two = FakeBroker(1), FakeBroker(2)
    one.cluster = two.cluster = [one, two]

    async def scenario(client):
        assert [node.id for node in client.nodes] == [-1]
        response = await client.metadata_update(["t"])
        assert response.cluster_id == "fake"
        assert [node.id for node in client.nodes] == [1, 2]
        header, request = one.asked[0]
        assert header.client_id == "test"
        assert [topic.name for topic in request.topics] == ["t"]
        assert not request.allow_auto_topic_creation
        await client.send(2, MetadataRequest())
        assert len(two.asked) == 1

    run(scenario, one, two)


def test_many_requests_in_flight_come_back_to_their_callers():
    counter = iter(range(10**6))
    broker = FakeBroker(METADATA=lambda _: MetadataResponse(controller_id=next(counter)))

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        responses = await asyncio.gather(*(client.send(0, MetadataRequest()) for _ in range(500)))
        assert [response.controller_id for response in responses] == list(range(500))
        assert len(broker.server.connections) == 1

    run(scenario, broker, bootstrap=False)


def test_a_pending_for_those_without_a_loop():
    broker = FakeBroker()

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        done = asyncio.Event()
        pending = client.request(0, MetadataRequest(), version=7)
        pending.when_done(lambda _: done.set())
        await done.wait()
        assert pending.result().cluster_id == "fake"
        assert broker.asked[0][0].api_version == 7

    run(scenario, broker, bootstrap=False)


def produce(records, acks=1):
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=100, topic_data=[TopicProduceData(name="t", partition_data=[partition])]
    )


def test_megabytes_from_memory_and_from_a_file(tmp_path):
    data = bytes(range(256)) * 10_000
    (tmp_path / "batch").write_bytes(data)
    broker = FakeBroker(PRODUCE=lambda _: ProduceResponse(throttle_time_ms=0))

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        file = FileSlice(DiskFile(tmp_path / "batch"), 0, len(data))
        await asyncio.gather(
            *(client.send(0, produce(records), version=8) for records in (data, file, memoryview(data)[5:]))
        )
        got = [request.topic_data[0].partition_data[0].records for _, request in broker.asked]
        assert [bytes(each) for each in got] == [data, data, data[5:]]

    run(scenario, broker, bootstrap=False)


def test_a_request_without_a_response():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        assert await client.send(0, produce(b"r", acks=0), version=8, expects_response=False) is None
        await client.send(0, MetadataRequest())
        assert [header.api_key for header, _ in broker.asked] == [ApiKey.PRODUCE, ApiKey.METADATA]

    run(scenario, broker, bootstrap=False)


def test_a_broker_that_comes_back():
    broker = FakeBroker()

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        await client.send(0, MetadataRequest())
        await broker.server.stop(grace_ms=0)
        while client.is_ready(0):  # noqa: ASYNC110 - until the client has noticed
            await asyncio.sleep(0.001)
        with pytest.raises(DisconnectedError, match=r"could not be established: .*Connection refused"):
            await client.send(0, MetadataRequest())
        await broker.start(broker.port)
        assert (await client.send_to_any(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)


def test_a_dead_bootstrap_server_is_passed_over():
    broker = FakeBroker()

    async def scenario(client):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            dead = unused.getsockname()[1]
            client.set_nodes([Node(-1, "127.0.0.1", dead), Node(-2, "127.0.0.1", broker.port)])
            for _ in range(5):
                assert (await client.send_to_any(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)


def test_names_are_resolved_and_every_address_is_tried():
    broker = FakeBroker()

    async def scenario(client):
        client.add_node(Node(0, "localhost", broker.port))
        assert (await client.send(0, MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)


def test_a_name_that_does_not_exist():
    async def scenario(client):
        client.add_node(Node(0, "no-such-host.invalid", 1))
        with pytest.raises(DisconnectedError, match=r"cannot resolve no-such-host\.invalid"):
            await client.send(0, MetadataRequest())

    run(scenario, bootstrap=False)


@pytest.mark.parametrize("port", [-1, 65536, 2**31 - 1])
def test_a_port_that_no_port_has(port):
    """A broker says where the others are, and may say anything."""

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", port))
        with pytest.raises(DisconnectedError, match="could not be established"):
            await client.send(0, MetadataRequest())

    run(scenario, bootstrap=False)


def test_without_a_free_descriptor_the_attempt_fails_and_the_next_one_succeeds(monkeypatch):
    broker = FakeBroker()
    make = socket.socket

    def no_more(*_args, **_options):
        monkeypatch.setattr(socket_wire.socket, "socket", make)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        monkeypatch.setattr(socket_wire.socket, "socket", no_more)
        with pytest.raises(DisconnectedError, match="Too many open files"):
            await client.send(0, MetadataRequest())
        assert (await client.send(0, MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)


def silent_server(answer=b""):
    """A server that accepts, reads, and sends only these bytes."""

    async def serve(reader, writer):
        await reader.read(10)
        writer.write(answer)
        await reader.read()
        writer.close()

    return asyncio.start_server(serve, "127.0.0.1", 0)


def test_a_broker_that_never_answers():
    async def scenario(client):
        async with await silent_server() as server:
            client.add_node(Node(0, *server.sockets[0].getsockname()[:2]))
            with pytest.raises(DisconnectedError):
                await client.send(0, MetadataRequest(), timeout_ms=50)
            with pytest.raises(DisconnectedError, match="no node answered"):
                await client.send_to_any(MetadataRequest(), timeout_ms=50)
            await client.close()

    run(scenario, bootstrap=False)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", -1), struct.pack(">ii", 4, 77)]
)
def test_something_that_is_no_broker(answer):
    async def scenario(client):
        async with await silent_server(answer) as server:
            client.add_node(Node(0, *server.sockets[0].getsockname()[:2]))
            with pytest.raises(DisconnectedError):
                await client.send(0, MetadataRequest(), timeout_ms=500)
            await client.close()

    run(scenario, bootstrap=False)


def test_an_overdue_response_is_a_timeout():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        with pytest.raises(RequestTimedOutError, match=r"no response from 127\.0\.0\.1"):
            await client.send(0, produce(b"r"), version=8, timeout_ms=30)
        assert (await client.send(0, MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)


def test_a_node_that_is_removed_or_moves():
    one, two = FakeBroker(PRODUCE=lambda _: None), FakeBroker()

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", one.port))
        waiting = client.send(0, produce(b"r"), version=8)
        client.add_node(Node(0, "127.0.0.1", two.port))
        with pytest.raises(DisconnectedError, match="has moved"):
            await waiting
        assert (await client.send(0, MetadataRequest())).cluster_id == "fake"
        assert client.is_ready(0)
        client.remove_node(0)
        assert not client.is_ready(0)
        with pytest.raises(KeyError):
            client.send(0, MetadataRequest())

    run(scenario, one, two, bootstrap=False)


def test_a_closed_client_fails_what_waits_and_what_comes():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        waiting = client.send(0, produce(b"r"), version=8)
        await client.close()
        with pytest.raises(DisconnectedError, match="the client is closed"):
            await waiting
        with pytest.raises(DisconnectedError, match="the client is closed"):
            client.send(0, MetadataRequest())

    run(scenario, broker, bootstrap=False)


def test_who_stops_waiting_disturbs_nobody():
    broker = FakeBroker()

    async def scenario(client):
        client.add_node(Node(0, "127.0.0.1", broker.port))
        impatient = client.send(0, MetadataRequest())
        impatient.cancel()
        assert (await client.send(0, MetadataRequest())).cluster_id == "fake"

    run(scenario, broker, bootstrap=False)
