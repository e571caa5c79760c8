"""Ten shapes of load, what a broker tells each client to wait, and what it may be by Kafka's formula.
A module beside the test, for the other broker of it.

How fast the machine is does not count. A rate is measured over ten windows of a second and the part of the
one that is under way, so that a wait is known but for one second, however late a request came; tokens come
back while time goes by, which the client can bound by its own clock.
"""

import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import ClientQuotaAlteration
from barnabas.core.chunks import materialize
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from waiting import until

TOPIC = "shapes"
LARGE, SMALL = 300_000, 29_000
"""The records that fetches find: one large one, then small ones."""
FULL_WINDOWS_MS, PART_MS = 10_000, 1_000
BURST_S = 11
"""A bucket of tokens holds what comes in all windows."""
THROTTLING_QUOTA_EXCEEDED = 89


class Wait(NamedTuple):
    """What a broker said in milliseconds, and between what it may be."""

    said_ms: float
    least_ms: float
    most_ms: float
    outcome: object = None
    """What else came back: bytes of records, an error."""

    @property
    def is_right(self):
        return max(0, self.least_ms - 1) <= self.said_ms <= max(0, self.most_ms + 1)


class Client:
    """One client id; each request has a connection of its own, so that no answer waits for a mute."""

    def __init__(self, port, client_id, bound, partition=0):
        self.port = port
        self.partition = partition
        self.client_id = client_id
        self.bound = bound
        self.begun = time.monotonic()
        self.used = 0
        """What counts for the quota: bytes, or partitions."""
        self.sizes = (0, 0)
        """Of the last request and its answer."""

    def at(self, seconds):
        """Waits until so long after the first request: load has a shape in time."""
        time.sleep(max(0.0, self.begun + seconds - time.monotonic()))

    @property
    def age_ms(self):
        return (time.monotonic() - self.begun) * 1000

    def ask(self, request, version):
        frame = materialize(encode_request(RequestHeader(request.api, version, 7, self.client_id), request))
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(frame)
            with sock.makefile("rb") as answers:
                answer = answers.read(struct.unpack(">i", answers.read(4))[0])
        self.sizes = (len(frame) - 4, len(answer))
        return decode_response(request.api, version, answer)[1]

    def _waits(self, said_ms, used, outcome=None):
        """Of a rate: used / bound - what it is measured over."""
        due_ms = used / self.bound * 1000
        most_measured_ms = max(FULL_WINDOWS_MS + PART_MS, self.age_ms)
        return Wait(said_ms, due_ms - most_measured_ms, due_ms - FULL_WINDOWS_MS, outcome)

    def produce(self, size):
        records = bytes(build_batch([Record(0, int(time.time() * 1000), None, b"x" * size)]))
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=self.partition, records=records)]
        )
        said_ms = self.ask(ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data]), 9).throttle_time_ms
        self.used += self.sizes[0]
        return self._waits(said_ms, self.used)

    def fetch(self, offset, size):
        """What is not given is not counted. Sizes of answers differ by less than a header."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
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
        if given:
            self.used += self.sizes[1]
            return self._waits(answer.throttle_time_ms, self.used, given)
        found = self._waits(answer.throttle_time_ms, self.used + (SMALL if offset else LARGE), given)
        return found._replace(most_ms=found.most_ms + 300 * 1000 / self.bound)

    def create(self, name, partitions, version):
        """Of tokens: what is owed / bound, less what has come back."""
        topic = CreatableTopic(
            name=f"{self.client_id}-{name}", num_partitions=partitions, replication_factor=1
        )
        answer = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), version)
        error = answer.topics[0].error_code
        if not error:
            self.used += partitions
        # A strict quota throttles only for what it refuses, a permissive one for what it has taken.
        owed = self.used - BURST_S * self.bound if error or version < 6 else 0
        due_ms = owed / self.bound * 1000
        return Wait(answer.throttle_time_ms, due_ms - self.age_ms, due_ms, error)

    def spend_time(self):
        said_ms = self.ask(MetadataRequest(topics=None), 9).throttle_time_ms
        # Not longer than a window, however much too long it was.
        return Wait(said_ms, PART_MS, PART_MS)


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
    return [client.fetch(0, 400_000), client.fetch(0, 400_000)]


def fetches_above_the_quota(client):
    return [client.fetch(1, SMALL) for _ in range(8)]


def topics_of_a_new_client(client):
    return [client.create("a", 30, 7), client.create("b", 1, 7), client.create("c", 1, 7)]


def topics_of_an_old_client(client):
    return [client.create("a", 20, 5), client.create("b", 5, 5)]


def more_time_than_it_may(client):
    return [client.spend_time() for _ in range(30)][-1:]


SHAPES = {
    one_large_request: ("producer_byte_rate", 5000),
    a_burst: ("producer_byte_rate", 8000),
    twice_the_quota: ("producer_byte_rate", 3000),
    a_burst_after_a_pause: ("producer_byte_rate", 5000),
    the_next_sample: ("producer_byte_rate", 3000),
    a_large_fetch: ("consumer_byte_rate", 10_000),
    fetches_above_the_quota: ("consumer_byte_rate", 10_000),
    topics_of_a_new_client: ("controller_mutation_rate", 1),
    topics_of_an_old_client: ("controller_mutation_rate", 1),
    more_time_than_it_may: ("request_percentage", 0.0001),
}


def throttle_times(port):
    """By the name of the shape, what the broker at a port says."""
    with Admin(f"127.0.0.1:{port}") as admin:
        admin.topics.create(NewTopic(TOPIC, 1, 1))
        filler = Client(port, "filler", 1)
        filler.produce(LARGE)
        for _ in range(10):
            filler.produce(SMALL - 80)
        admin.quotas.alter(
            [
                ClientQuotaAlteration({"client-id": shape.__name__}, {key: bound})
                for shape, (key, bound) in SHAPES.items()
            ]
        )
        # Brokers hear of quotas in their order: the shapes have theirs once the last one holds.
        admin.quotas.alter([ClientQuotaAlteration({"client-id": "last"}, {"producer_byte_rate": 1})])
        last = Client(port, "last", 1)
        said = []
        until(
            lambda: said.append(last.produce(100)) or said[-1].said_ms > 0,
            lambda: f"quotas in force at {port}: {said[-1]} after {len(said)} requests",
        )
    with ThreadPoolExecutor(len(SHAPES)) as threads:
        running = {
            shape.__name__: threads.submit(
                lambda shape=shape, bound=bound: shape(Client(port, shape.__name__, bound))
            )
            for shape, (_, bound) in SHAPES.items()
        }
        return {name: each.result() for name, each in running.items()}
