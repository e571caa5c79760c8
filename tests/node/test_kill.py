"""Real kills: whatever was acknowledged is there after the restart, at the offset that was said.

A broker is killed with SIGKILL at a random moment of a stream of produce requests, again and again on the
same directory, with segments small enough to be rolled all the time. What was sent and not acknowledged may
be there or not.
"""

import asyncio
import contextlib
import random

import pytest

from barnabas.network.client import NetworkClient
from barnabas.network.errors import DisconnectedError
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings, Node
from barnabas.network.selector import Selector, completed
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import batch_headers, build_batch, decode_batch
from barnabas.records.record import Record

ROUNDS = 5
PARTITIONS = 3
IN_FLIGHT = 5
TOPIC = "kill"
# Retention stays away from records that are old on purpose.
SMALL_SEGMENTS = ("--set", "log.segment.bytes=65536", "--set", "log.retention.ms=-1")
SETTINGS = ClientSettings(max_in_flight=IN_FLIGHT * PARTITIONS, request_timeout_ms=10_000)


class Stream:
    """Numbered records to every partition, and which of them were acknowledged at which offset."""

    def __init__(self) -> None:
        self.acknowledged = [{} for _ in range(PARTITIONS)]
        self.sent = 0

    def batch(self) -> tuple[list[bytes], bytes]:
        values = [
            b"%d:" % (self.sent + n) + b"x" * random.randrange(500) for n in range(random.randint(1, 20))
        ]
        self.sent += len(values)
        return values, build_batch(
            [Record(n, 1_700_000_000_000, None, each, []) for n, each in enumerate(values)]
        )

    async def send(self, send, partition: int) -> None:
        """Sends batch after batch to a partition until the broker is gone."""
        while True:
            values, records = self.batch()
            data = PartitionProduceData(index=partition, records=records)
            topic = TopicProduceData(name=TOPIC, partition_data=[data])
            request = ProduceRequest(acks=random.choice([1, -1]), timeout_ms=5000, topic_data=[topic])
            response = await send(request, version=9)
            answer = response.responses[0].partition_responses[0]
            assert answer.error_code == 0, answer.error_message
            for n, value in enumerate(values):
                self.acknowledged[partition][answer.base_offset + n] = value


async def produce_until_killed(broker, server, stream) -> None:
    async with connected(broker) as send:
        loop = asyncio.get_running_loop()
        senders = [
            asyncio.ensure_future(stream.send(send, partition))
            for partition in range(PARTITIONS)
            for _ in range(IN_FLIGHT)
        ]
        loop.call_later(random.uniform(0.05, 0.3), server.process.kill)
        for outcome in await asyncio.gather(*senders, return_exceptions=True):
            assert isinstance(outcome, DisconnectedError), repr(outcome)


async def create_topic(broker) -> None:
    async with connected(broker) as send:
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        response = await send(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert response.topics[0].error_code == 0


async def read_all(broker, partition: int) -> dict[int, bytes]:
    """Every record of a partition, by offset."""
    found: dict[int, bytes] = {}
    async with connected(broker) as send:
        while True:
            place = FetchPartition(
                partition=partition, fetch_offset=max(found, default=-1) + 1, partition_max_bytes=1 << 20
            )
            request = FetchRequest(
                max_wait_ms=0, topics=[FetchTopic(topic=TOPIC, partitions=[place])], max_bytes=1 << 20
            )
            response = (await send(request, version=11)).responses[0].partitions[0]
            assert response.error_code == 0
            before = len(found)
            for header in batch_headers(response.records or b""):
                found.update(
                    (each.offset, each.value) for each in decode_batch(response.records, header.position)
                )
            if len(found) == before:
                return found


@contextlib.asynccontextmanager
async def connected(broker):
    client = NetworkClient(Selector(), ManualMetadataUpdater(), SETTINGS, random.Random())
    node = Node(0, broker.host, broker.port)

    def send(request, version=None):
        versions = None if version is None else (version, version)
        return completed(client.request(node, request, versions=versions))

    try:
        yield send
    finally:
        await client.close()


@pytest.mark.timeout(60)
def test_nothing_acknowledged_is_lost(serve, tmp_path):
    stream = Stream()
    data_dir = tmp_path / "data"
    for round_ in range(ROUNDS):
        server = serve(data_dir, *SMALL_SEGMENTS)
        broker = server.wait_until_ready()
        if round_ == 0:
            asyncio.run(create_topic(broker))
        else:
            check(broker, stream, round_)
        asyncio.run(produce_until_killed(broker, server, stream))
        server.kill()
    server = serve(data_dir, *SMALL_SEGMENTS)
    check(server.wait_until_ready(), stream, ROUNDS)
    assert server.stop() == 0
    assert min(map(len, stream.acknowledged)) > ROUNDS


def check(broker, stream, rounds) -> None:
    for partition, acknowledged in enumerate(stream.acknowledged):
        found = asyncio.run(read_all(broker, partition))
        lost = {offset for offset, value in acknowledged.items() if found.get(offset) != value}
        assert not lost, f"after {rounds} kills: {sorted(lost)[:5]} of {len(acknowledged)} are lost"
        assert sorted(found) == list(range(len(found)))
