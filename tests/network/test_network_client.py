import asyncio
import errno
import os
import socket
import struct
from random import Random

import pytest
from network_harness import DiskFile

from barnabas.core.chunks import FileSlice
from barnabas.core.errors import BarnabasError
from barnabas.network import selector
from barnabas.network.client import NetworkClient
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import Endpoint
from barnabas.network.errors import DisconnectedError, RequestTimedOutError
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.selector import Selector, completed
from barnabas.network.socket_server import SocketServer
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
from standing_clock import Clock

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
        self.server = SocketServer(LoopClock(asyncio.get_running_loop()))
        self.port = self.server.bind(Endpoint("PLAINTEXT", "127.0.0.1", port)).port
        self.server.start(self)
        return self

    def begin_turn(self):
        """As `Service.begin_turn`."""

    def end_turn(self):
        """As `Service.end_turn`."""

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


class Nodes:
    """A metadata updater whose nodes a test sets."""

    def __init__(self):
        self.nodes = []

    def fetch_nodes(self):
        return self.nodes

    def handle_server_disconnect(self, node, error):
        pass


class Client:
    """A network client on sockets whose node 0 is at an address."""

    def __init__(self, clock=None):
        self.updater = Nodes()
        self.network = NetworkClient(Selector(clock), self.updater, FAST, Random(1))

    def set_node(self, host, port):
        self.updater.nodes = [Node(0, host, port)]

    def request(self, request, **options):
        return self.network.request(self.updater.fetch_nodes()[0], request, **options)

    def send(self, request, *, version=None, **options):
        versions = None if version is None else (version, version)
        return completed(self.request(request, versions=versions, **options))

    @property
    def is_ready(self):
        return self.network.is_ready(0)


def run(scenario, *brokers):
    """Runs a scenario with started brokers and a client of the first."""

    async def main():
        for broker in brokers:
            await broker.start()
        client = Client()
        if brokers:
            client.set_node("127.0.0.1", brokers[0].port)
        try:
            async with asyncio.timeout(20):
                await scenario(client)
        finally:
            await client.network.close()
            for broker in brokers:
                await broker.server.stop(grace_ms=0)

    asyncio.run(main())


def test_many_requests_in_flight_come_back_to_their_callers():
    counter = iter(range(10**6))
    broker = FakeBroker(METADATA=lambda _: MetadataResponse(controller_id=next(counter)))

    async def scenario(client):
        responses = await asyncio.gather(*(client.send(MetadataRequest()) for _ in range(500)))
        assert [response.controller_id for response in responses] == list(range(500))
        assert len(broker.server.connections) == 1

    run(scenario, broker)


def test_a_pending_for_those_without_a_loop():
    broker = FakeBroker()

    async def scenario(client):
        done = asyncio.Event()
        pending = client.request(MetadataRequest(), versions=(7, 7))
        pending.when_done(lambda _: done.set())
        await done.wait()
        assert pending.result().cluster_id == "fake"
        assert broker.asked[0][0].api_version == 7

    run(scenario, broker)


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
        file = FileSlice(DiskFile(tmp_path / "batch"), 0, len(data))
        await asyncio.gather(
            *(client.send(produce(records), version=8) for records in (data, file, memoryview(data)[5:]))
        )
        got = [request.topic_data[0].partition_data[0].records for _, request in broker.asked]
        assert [bytes(each) for each in got] == [data, data, data[5:]]

    run(scenario, broker)


def test_a_request_without_a_response():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        assert await client.send(produce(b"r", acks=0), version=8, expects_response=False) is None
        await client.send(MetadataRequest())
        assert [header.api_key for header, _ in broker.asked] == [ApiKey.PRODUCE, ApiKey.METADATA]

    run(scenario, broker)


def test_a_broker_that_comes_back():
    broker = FakeBroker()

    async def scenario(client):
        await client.send(MetadataRequest())
        await broker.server.stop(grace_ms=0)
        while client.is_ready:  # noqa: ASYNC110 - until the client has noticed
            await asyncio.sleep(0.001)
        with pytest.raises(DisconnectedError, match=r"could not be established: .*Connection refused"):
            await client.send(MetadataRequest())
        await broker.start(broker.port)
        assert (await client.send(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker)


def test_a_dead_bootstrap_server_is_passed_over():
    broker = FakeBroker()

    async def scenario(client):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            dead = Node(-1, "127.0.0.1", unused.getsockname()[1])
            client.updater.nodes = [dead, Node(-2, "127.0.0.1", broker.port)]
            with pytest.raises(DisconnectedError):
                await completed(client.network.request(dead, MetadataRequest()))
            for _ in range(5):
                while (node := client.network.least_loaded_node()) == dead:
                    with pytest.raises(DisconnectedError):
                        await completed(client.network.request(node, MetadataRequest()))
                answer = await completed(client.network.request(node, MetadataRequest()))
                assert answer.cluster_id == "fake"

    run(scenario, broker)


def test_names_are_resolved_and_every_address_is_tried():
    broker = FakeBroker()

    async def scenario(client):
        client.set_node("localhost", broker.port)
        assert (await client.send(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker)


def test_a_name_that_does_not_exist():
    async def scenario(client):
        client.set_node("no-such-host.invalid", 1)
        with pytest.raises(DisconnectedError, match=r"cannot resolve no-such-host\.invalid"):
            await client.send(MetadataRequest())

    run(scenario)


@pytest.mark.parametrize("port", [-1, 65536, 2**31 - 1])
def test_a_port_that_no_port_has(port):
    """A broker says where the others are, and may say anything."""

    async def scenario(client):
        client.set_node("127.0.0.1", port)
        with pytest.raises(DisconnectedError, match="could not be established"):
            await client.send(MetadataRequest())

    run(scenario)


def test_without_a_free_descriptor_the_attempt_fails_and_the_next_one_succeeds(monkeypatch):
    broker = FakeBroker()
    make = socket.socket

    def no_more(*_args, **_options):
        monkeypatch.setattr(selector.socket, "socket", make)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario(client):
        monkeypatch.setattr(selector.socket, "socket", no_more)
        with pytest.raises(DisconnectedError, match="Too many open files"):
            await client.send(MetadataRequest())
        assert (await client.send(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker)


def silent_server(answer=b""):
    """A server that accepts, reads, and sends only these bytes."""

    async def serve(reader, writer):
        await reader.read(10)
        writer.write(answer)
        await reader.read()
        writer.close()

    return asyncio.start_server(serve, "127.0.0.1", 0)


def test_who_owes_an_answer_is_known_until_it_is_there():
    async def scenario(client):
        async with await silent_server() as server:
            client.set_node(*server.sockets[0].getsockname()[:2])
            assert client.network.silent_nodes(0) == []
            waiting = client.request(MetadataRequest(), timeout_ms=1000)
            await asyncio.sleep(0.05)
            assert client.network.silent_nodes(20) == client.updater.nodes
            assert client.network.silent_nodes(10_000) == []
            with pytest.raises(DisconnectedError):
                await completed(waiting)
            assert client.network.silent_nodes(0) == []

    run(scenario)


def test_a_broker_that_never_answers():
    async def scenario(client):
        async with await silent_server() as server:
            client.set_node(*server.sockets[0].getsockname()[:2])
            with pytest.raises(DisconnectedError):
                await client.send(MetadataRequest(), timeout_ms=50)
            await client.network.close()

    run(scenario)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack(">i", -1), struct.pack(">ii", 4, 77)]
)
def test_something_that_is_no_broker(answer):
    async def scenario(client):
        async with await silent_server(answer) as server:
            client.set_node(*server.sockets[0].getsockname()[:2])
            with pytest.raises(DisconnectedError):
                await client.send(MetadataRequest(), timeout_ms=500)
            await client.network.close()

    run(scenario)


def test_an_overdue_response_is_a_timeout():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        with pytest.raises(RequestTimedOutError, match=r"no response from 127\.0\.0\.1"):
            await client.send(produce(b"r"), version=8, timeout_ms=30)
        assert (await client.send(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker)


class CountingClock(Clock):
    """Stands until it is told to go on; a look that is made again and again at the same time is noticed."""

    TIMERS_MAX = 200

    def __init__(self):
        super().__init__()
        self.timers = 0

    def call_later(self, delay_ms, callback):
        self.timers += 1
        assert self.timers < self.TIMERS_MAX, "it looks without a pause"
        return super().call_later(delay_ms, callback)


async def all_asked(broker, count):
    while len(broker.asked) < count:  # noqa: ASYNC110 - the broker is on the same loop, and tells nobody
        await asyncio.sleep(0)


@pytest.mark.parametrize("others", [[], [3000], [3000, 2000]])
def test_the_earliest_deadline_counts_whenever_its_request_came(others):
    """A timer that was set for an earlier request's later deadline is set anew;
    one look is enough when it is over.
    """
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(_):
        clock = CountingClock()
        client = Client(clock)
        client.set_node("127.0.0.1", broker.port)
        waiting = [
            client.request(produce(b"r"), versions=(8, 8), timeout_ms=timeout_ms)
            for timeout_ms in (*others, 1000)
        ]
        await all_asked(broker, len(waiting))
        clock.advance(1000)
        assert not any(each.done for each in waiting), "a deadline that is reached is not over yet"
        clock.advance(2)
        assert all(each.done for each in waiting)
        assert isinstance(waiting[-1].error, RequestTimedOutError)
        await client.network.close()

    run(scenario, broker)


def test_what_comes_behind_a_response_that_ended_the_connection_is_not_taken_for_the_next_one():
    """Two frames in one read: the first is no response, so the connection is closed.
    Who waited for another one asks again.
    """

    class Confused(FakeBroker):
        def handle(self, peer, frame):
            header, _ = decode_request_header(frame)
            if header.api_key != ApiKey.METADATA or self.asked:
                return super().handle(peer, frame)
            self.asked.append((header, None))
            return [2 * b"\0\0\0\4\xff\xff\xff\xff"]

    async def scenario(client):
        again = []
        first, second = client.request(MetadataRequest()), client.request(MetadataRequest())
        second.when_done(lambda _: again.append(client.request(MetadataRequest())))
        for each in (first, second):
            with pytest.raises(BarnabasError):
                await completed(each)
        assert (await completed(again[0])).cluster_id == "fake"

    run(scenario, Confused())


def test_a_node_that_moves_or_is_removed():
    one, two = FakeBroker(PRODUCE=lambda _: None), FakeBroker()

    async def scenario(client):
        waiting = client.send(produce(b"r"), version=8)
        client.set_node("127.0.0.1", two.port)
        moved = client.send(MetadataRequest())
        with pytest.raises(DisconnectedError, match="has moved"):
            await waiting
        assert (await moved).cluster_id == "fake"
        assert client.is_ready
        client.network.disconnect(0)
        assert not client.is_ready

    run(scenario, one, two)


def test_a_closed_client_fails_what_waits_and_what_comes():
    broker = FakeBroker(PRODUCE=lambda _: None)

    async def scenario(client):
        waiting = client.send(produce(b"r"), version=8)
        await client.network.close()
        with pytest.raises(DisconnectedError, match="the client is closed"):
            await waiting
        with pytest.raises(DisconnectedError, match="the client is closed"):
            client.send(MetadataRequest())

    run(scenario, broker)


def test_who_stops_waiting_disturbs_nobody():
    broker = FakeBroker()

    async def scenario(client):
        impatient = client.send(MetadataRequest())
        impatient.cancel()
        assert (await client.send(MetadataRequest())).cluster_id == "fake"

    run(scenario, broker)
