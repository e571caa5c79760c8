"""A cluster to test clients against: real sockets and real bytes, logs in memory, faults on request.

`faults[api]` is a queue of functions: each takes one request (and the node id) and returns a response, None
for no answer at all, or raises `HangUpError` to close the connection. Without one the request is served.
A fault may be a coroutine function, and then holds up the requests of its connection that come after.
"""

import asyncio
import contextlib
from collections import defaultdict, deque

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.network.listening import stop_listening
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from barnabas.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeResponse
from barnabas.protocol.registry import REQUESTS
from barnabas.records.batch import batch_headers, decode_batch, parse_header, stamp

VERSIONS = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 17),
    ApiKey.LIST_OFFSETS: (1, 9),
    ApiKey.METADATA: (0, 12),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
}
REMEMBERED = 5
"""Batches of a producer that a broker recognises (``ProducerStateEntry.NUM_BATCHES_TO_RETAIN``)."""


class HangUpError(Exception):
    """Close the connection instead of answering."""


class FakeCluster:
    """Brokers 1..n; topics have ids made of their names, or those in `ids`."""

    def __init__(self, nodes=1):
        self.node_ids = list(range(1, nodes + 1))
        self.ports = {}
        self.controller = 1
        self.topics = {}
        self.ids = {}
        self.leaders = {}
        self.epochs = defaultdict(int)
        self.logs = defaultdict(list)
        self.starts = defaultdict(int)
        self.hidden = set()
        self.versions = dict(VERSIONS)
        self.features = {}
        """The levels that all brokers have finalized."""
        self.faults = defaultdict(deque)
        self.seen = []
        self.producers = {}
        self.next_producer_id = 4000
        self.aborted = defaultdict(list)
        self._servers = []
        self._tasks = set()

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.ports[1]}"

    def add_topic(self, name, partitions=1):
        self.topics[name] = partitions
        for number in range(partitions):
            self.leaders[name, number] = self.node_ids[number % len(self.node_ids)]

    def topic_id(self, name):
        return self.ids.get(name, name.encode().ljust(16, b".")[:16])

    def records(self, topic, partition=0):
        """Every record that is in the log, in order."""
        return [record for batch in self.logs[topic, partition] for record in decode_batch(batch)]

    def end(self, tp):
        log = self.logs[tp]
        return parse_header(log[-1]).next_offset if log else self.starts[tp]

    def append(self, topic, partition, batch):
        """Appends as a broker does: stamps offset and epoch."""
        tp = (topic, partition)
        batch = bytearray(batch)
        base = self.end(tp)
        stamp(batch, parse_header(batch), base, self.epochs[tp])
        self.logs[tp].append(bytes(batch))
        return base

    def requests(self, api):
        return [request for key, request in self.seen if key is api]

    async def start(self):
        for node_id in self.node_ids:

            async def serve(reader, writer, node_id=node_id):
                self._tasks.add(asyncio.current_task())
                try:
                    await self._serve(node_id, reader, writer)
                finally:
                    self._tasks.discard(asyncio.current_task())

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self.ports[node_id] = server.sockets[0].getsockname()[1]
            self._servers.append(server)
        return self

    async def stop(self):
        for server in self._servers:
            await stop_listening(server)
        await asyncio.sleep(0)  # whoever came last is in the tasks a turn later
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop_connections(self):
        """Closes what is open now."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, node_id, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                header, offset = decode_request_header(frame)
                api = ApiKey(header.api_key)
                request, _ = REQUESTS[api].decode(frame, header.api_version, offset)
                self.seen.append((api, request))
                fault = self.faults[api].popleft() if self.faults[api] else None
                response = fault(request, node_id) if fault else await self._handle(api, request, node_id)
                if asyncio.iscoroutine(response):
                    response = await response
                if response is not None:
                    chunks = encode_response(header.correlation_id, response, header.api_version)
                    writer.write(b"".join(bytes(chunk) for chunk in chunks))
                    await writer.drain()
        except (HangUpError, asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await writer.wait_closed()

    async def _handle(self, api, request, node_id):
        method = getattr(self, f"_{api.name.lower()}")
        outcome = method(request, node_id)
        return await outcome if asyncio.iscoroutine(outcome) else outcome

    def _api_versions(self, request, node_id):
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=key, min_version=low, max_version=high)
                for key, (low, high) in self.versions.items()
            ],
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, level in self.features.items()
            ],
            finalized_features_epoch=len(self.features) - 1,
        )

    def _sasl_handshake(self, request, node_id):
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)

    def _metadata(self, request, node_id):
        names = list(self.topics) if request.topics is None else [one.name for one in request.topics]
        for name in names:
            if name not in self.topics and request.topics and request.allow_auto_topic_creation:
                self.add_topic(name)
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=one, host="127.0.0.1", port=port)
                for one, port in self.ports.items()
                if one not in self.hidden
            ],
            cluster_id="fake",
            controller_id=self.controller,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name):
        if name not in self.topics:
            return MetadataResponseTopic(
                name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=[]
            )
        return MetadataResponseTopic(
            name=name,
            topic_id=self.topic_id(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=self.leaders[name, number],
                    leader_epoch=self.epochs[name, number],
                    replica_nodes=[self.leaders[name, number]],
                    isr_nodes=[self.leaders[name, number]],
                    offline_replicas=[],
                )
                for number in range(self.topics[name])
            ],
        )

    def _leader_error(self, tp, node_id):
        if tp not in self.leaders:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if self.leaders[tp] == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _init_producer_id(self, request, node_id):
        self.next_producer_id += 1
        return InitProducerIdResponse(producer_id=self.next_producer_id, producer_epoch=0)

    def _produce(self, request, node_id):
        names = {self.topic_id(name): name for name in self.topics}
        response = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        self._produce_one(topic.name or names.get(topic.topic_id), one, node_id)
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )
        return response if request.acks else None

    def _produce_one(self, topic, data, node_id):
        tp = (topic, data.index)
        error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._leader_error(tp, node_id)
        base = -1
        if error is ErrorCode.NONE:
            error, base = self._store(tp, bytes(data.records))
        return PartitionProduceResponse(index=data.index, error_code=error, base_offset=base)

    def _store(self, tp, batch):
        """Kafka's sequence check, with its memory of the last five batches."""
        header = parse_header(batch)
        if header.producer_id < 0:
            return ErrorCode.NONE, self.append(*tp, batch)
        known = self.producers.setdefault((tp, header.producer_id), {"epoch": -1, "next": 0, "stored": {}})
        if header.producer_epoch < known["epoch"]:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > known["epoch"]:
            known.update(epoch=header.producer_epoch, next=0, stored={})
        sequences = header.base_sequence, header.count
        if sequences in known["stored"]:
            return ErrorCode.NONE, known["stored"][sequences]
        if header.base_sequence != known["next"]:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = self.append(*tp, batch)
        known["stored"][sequences] = base
        known["next"] += header.count
        if len(known["stored"]) > REMEMBERED:
            del known["stored"][min(known["stored"])]
        return ErrorCode.NONE, base

    async def _fetch(self, request, node_id):
        topics = []
        names = {self.topic_id(name): name for name in self.topics}
        for topic in request.topics:
            name = topic.topic or names.get(topic.topic_id)  # None: one that was made anew
            data = [self._fetch_one(name, one, node_id) for one in topic.partitions]
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=data))
        if not any(len(one.records or b"") or one.error_code for topic in topics for one in topic.partitions):
            await asyncio.sleep(min(request.max_wait_ms, 20) / 1000)
        return FetchResponse(session_id=0, responses=topics)

    def _fetch_one(self, name, asked, node_id):
        tp = (name, asked.partition)
        error = self._leader_error(tp, node_id)
        if error is ErrorCode.NONE and not self.starts[tp] <= asked.fetch_offset <= self.end(tp):
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        records = b""
        if error is ErrorCode.NONE:
            for batch in self.logs[tp]:
                wanted = next(batch_headers(batch)).next_offset > asked.fetch_offset
                if wanted and (not records or len(records) + len(batch) <= asked.partition_max_bytes):
                    records += batch
        return PartitionData(
            partition_index=asked.partition,
            error_code=error,
            high_watermark=self.end(tp),
            last_stable_offset=self.end(tp),
            log_start_offset=self.starts[tp],
            aborted_transactions=self.aborted[tp],
            records=records,
        )

    def _list_offsets(self, request, node_id):
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[self._list_one(topic.name, one, node_id) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _list_one(self, name, asked, node_id):
        tp = TopicPartition(name, asked.partition_index)
        error = self._leader_error(tp, node_id)
        offset, timestamp = -1, -1
        if error is ErrorCode.NONE and asked.timestamp in {-1, -2}:
            offset = self.end(tp) if asked.timestamp == -1 else self.starts[tp]
        elif error is ErrorCode.NONE:
            later = [one for one in self.records(*tp) if one.timestamp >= asked.timestamp]
            offset, timestamp = (later[0].offset, later[0].timestamp) if later else (-1, -1)
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=error, offset=offset, timestamp=timestamp
        )

    def _create_topics(self, request, node_id):
        results = []
        for topic in request.topics:
            error = ErrorCode.TOPIC_ALREADY_EXISTS if topic.name in self.topics else ErrorCode.NONE
            if node_id != self.controller:
                error = ErrorCode.NOT_CONTROLLER
            count = len(topic.assignments) or max(topic.num_partitions, 1)
            if error is ErrorCode.NONE and not request.validate_only:
                self.add_topic(topic.name, count)
            message = f"Topic '{topic.name}' already exists." if error else None
            results.append(
                CreatableTopicResult(
                    name=topic.name,
                    topic_id=self.topic_id(topic.name),
                    error_code=error,
                    error_message=message,
                    num_partitions=count,
                    replication_factor=1,
                    configs=[],
                )
            )
        return CreateTopicsResponse(topics=results)

    def _delete_topics(self, request, node_id):
        results = []
        for name in [one.name for one in request.topics] or request.topic_names:
            known = self.topics.pop(name, None)
            error = ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if node_id != self.controller:
                error = ErrorCode.NOT_CONTROLLER
            results.append(DeletableTopicResult(name=name, error_code=error))
        return DeleteTopicsResponse(responses=results)

    def _describe_configs(self, request, node_id):
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=0,
                    error_message="",
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                    configs=[
                        DescribeConfigsResourceResult(
                            name="retention.ms",
                            value="1000",
                            config_source=1,
                            synonyms=[],
                            documentation=None,
                        ),
                        DescribeConfigsResourceResult(
                            name="min.insync.replicas",
                            value="1",
                            config_source=5,
                            synonyms=[],
                            documentation=None,
                        ),
                        DescribeConfigsResourceResult(
                            name="answered.by",
                            value=str(node_id),
                            config_source=5,
                            synonyms=[],
                            documentation=None,
                        ),
                    ],
                )
                for one in request.resources
            ]
        )


def produce_error(code, message=None):
    """A fault: every partition of a produce request is refused with this code."""

    def fault(request, node_id):
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        PartitionProduceResponse(
                            index=one.index, error_code=code, base_offset=-1, error_message=message
                        )
                        for one in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    return fault


def hangup(request, node_id):
    """A fault: the connection is closed before the request has an effect."""
    raise HangUpError
