"""A peer on a bare socket: polite when it asks, and able not to be."""

import socket
import struct
import time
from typing import Self

from barnabas.core.chunks import materialize
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

TIMEOUT_S = 10

VERSIONS = {
    ApiKey.PRODUCE: 8,
    ApiKey.FETCH: 11,
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.CREATE_TOPICS: 5,
    ApiKey.METADATA: 9,
    ApiKey.API_VERSIONS: 2,
}


def batch(*values: bytes) -> bytes:
    now = int(time.time() * 1000)
    return build_batch([Record(offset, now, None, value, []) for offset, value in enumerate(values)])


def produce(topic: str, records: bytes, acks: int = 1, partition: int = 0) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)]
    )


def fetch(topic: str, offset: int = 0, max_bytes: int = 1 << 20) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def frame_of(request, version: int | None = None, correlation_id: int = 7) -> bytes:
    """The whole frame, its length included."""
    chosen = VERSIONS[request.api] if version is None else version
    return materialize(encode_request(RequestHeader(request.api, chosen, correlation_id, "fuzz"), request))


class WirePeer:
    """One connection to a broker."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def response(self) -> bytes | None:
        """The next response without its length; None when the broker closed the connection instead."""
        try:
            head = self._exactly(4)
            return head and self._exactly(struct.unpack(">i", head)[0])
        except ConnectionError:
            return None

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(min(size - len(data), 1 << 20))
            if not piece:
                return None
            data += piece
        return bytes(data)

    def ask(self, request, version: int | None = None):
        """The decoded response to a request."""
        chosen = VERSIONS[request.api] if version is None else version
        self.send(frame_of(request, chosen))
        frame = self.response()
        assert frame is not None, "the broker closed the connection"
        return decode_response(request.api, chosen, frame)[1]

    def create(self, topic: str, partitions: int = 1) -> None:
        created = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        response = self.ask(CreateTopicsRequest(topics=[created], timeout_ms=5000))
        assert response.topics[0].error_code == 0, response.topics[0].error_message

    def produce(self, topic: str, records: bytes):
        """What the broker says about one partition's records."""
        return self.ask(produce(topic, records)).responses[0].partition_responses[0]

    def end_offset(self, topic: str) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
        )
        return self.ask(request).topics[0].partitions[0].offset
