"""Ten shapes of load, and what a broker tells each client to wait. A module beside the test, for the other
broker of it.
"""

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, encode_request
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.registry import RESPONSES
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

TOPIC = "shapes"


class Client:
    """One client id; each request has a connection of its own, so that no answer waits for a mute."""

    def __init__(self, port, client_id):
        self.port = port
        self.client_id = client_id
        self.begun = time.monotonic()

    def at(self, seconds):
        """Waits until so long after the first request: load has a shape in time."""
        time.sleep(max(0.0, self.begun + seconds - time.monotonic()))

    def ask(self, request, version):
        frame = materialize(encode_request(RequestHeader(request.api, version, 7, self.client_id), request))
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(frame)
            with sock.makefile("rb") as answers:
                answer = answers.read(struct.unpack(">i", answers.read(4))[0])
        response = RESPONSES[request.api]
        return response.decode(memoryview(answer), version, 5 if response.is_flexible(version) else 4)[0]

    def produce(self, size):
        records = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"x" * size)]))
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])
        request = ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data])
        return self.ask(request, 9).throttle_time_ms

    def fetch(self, size):
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=size)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=size,
            session_epoch=-1,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = self.ask(request, 12)
        given = sum(len(each.records or b"") for topic in answer.responses for each in topic.partitions)
        return answer.throttle_time_ms, given

    def create(self, name, partitions, version):
        topic = CreatableTopic(
            name=f"{self.client_id}-{name}", num_partitions=partitions, replication_factor=1
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), version)
        return answer.throttle_time_ms, answer.topics[0].error_code


def one_large_request(client):
    return [client.produce(100_000)]


def a_burst(client):
    return [client.produce(10_000) for _ in range(12)]


def twice_the_quota(client):
    found = []
    for number in range(10):
        client.at(number / 4)
        found.append(client.produce(5000))
    return found


def a_burst_after_a_pause(client):
    first = client.produce(40_000)
    client.at(2.5)
    return [first, client.produce(40_000), client.produce(40_000)]


def the_next_sample(client):
    first = client.produce(60_000)
    client.at(1.2)
    second = client.produce(10)
    client.at(2.6)
    return [first, second, client.produce(10)]


def a_large_fetch(client):
    return [client.fetch(400_000), client.fetch(400_000)]


def fetches_above_the_quota(client):
    return [client.fetch(30_000) for _ in range(8)]


def topics_of_a_new_client(client):
    return [client.create("a", 30, 7), client.create("b", 1, 7), client.create("c", 1, 7)]


def topics_of_an_old_client(client):
    return [client.create("a", 12, 5), client.create("b", 5, 5)]


def more_time_than_it_may(client):
    for _ in range(30):
        last = client.ask(MetadataRequest(topics=None), 9).throttle_time_ms
    return [last]


SHAPES = {
    one_large_request: {"producer_byte_rate": 5000},
    a_burst: {"producer_byte_rate": 8000},
    twice_the_quota: {"producer_byte_rate": 3000},
    a_burst_after_a_pause: {"producer_byte_rate": 5000},
    the_next_sample: {"producer_byte_rate": 3000},
    a_large_fetch: {"consumer_byte_rate": 10_000},
    fetches_above_the_quota: {"consumer_byte_rate": 10_000},
    topics_of_a_new_client: {"controller_mutation_rate": 2},
    topics_of_an_old_client: {"controller_mutation_rate": 1},
    more_time_than_it_may: {"request_percentage": 0.0001},
}


def throttle_times(port):
    """By the name of the shape, what the broker at a port says."""
    with Admin(f"127.0.0.1:{port}") as admin:
        admin.topics.create(NewTopic(TOPIC, 1, 1))
        Client(port, "filler").produce(300_000)
        for _ in range(10):
            Client(port, "filler").produce(29_000)
        admin.quotas.alter(
            [ClientQuotaAlteration({"client-id": shape.__name__}, quota) for shape, quota in SHAPES.items()]
        )
        time.sleep(1)
    with ThreadPoolExecutor(len(SHAPES)) as threads:
        running = {
            shape.__name__: threads.submit(lambda shape=shape: shape(Client(port, shape.__name__)))
            for shape in SHAPES
        }
        return {name: each.result() for name, each in running.items()}
