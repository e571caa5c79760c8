"""Encode and decode beside kafka-python 3 (compiled Python) and kio (a core in Rust): ``python -m
bench.protocol``.

Every message is built once here, encoded, and given to the others as bytes, so that all three work on
the same content. Times are the best of several rounds, taken in turn, in microseconds for one message.
The budget: the sum over all rows at most 0.5 of kafka-python's and at most 1.0 of kio's.
"""

import gc
import importlib
import io
import time
from collections.abc import Callable
from typing import NamedTuple

from kio.serial import entity_reader, entity_writer

from barnabas.core.chunks import materialize
from barnabas.protocol.message import Message
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from barnabas.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

ROUNDS = 7
ROUND_SECONDS = 0.02


class Case(NamedTuple):
    title: str
    message: Message
    version: int


def _produce(size: int) -> list[Message]:
    data = [PartitionProduceData(index=0, records=bytes(size))]
    request = ProduceRequest(
        acks=1, timeout_ms=30000, topic_data=[TopicProduceData(name="flights", partition_data=data)]
    )
    done = [PartitionProduceResponse(index=0, base_offset=123456789, log_start_offset=0)]
    response = ProduceResponse(responses=[TopicProduceResponse(name="flights", partition_responses=done)])
    return [request, response]


def _fetch(size: int) -> list[Message]:
    wanted = [
        FetchPartition(partition=i, fetch_offset=1 << 33, partition_max_bytes=1 << 20) for i in range(6)
    ]
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 25,
        topics=[FetchTopic(topic="flights", partitions=wanted)],
    )
    read = [
        PartitionData(
            partition_index=i,
            high_watermark=1 << 33,
            last_stable_offset=1 << 33,
            log_start_offset=0,
            records=bytes(size),
        )
        for i in range(6)
    ]
    return [request, FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=read)])]


def _metadata(topics: int) -> list[Message]:
    brokers = [MetadataResponseBroker(node_id=i, host=f"broker-{i}.example.org", port=9092) for i in range(3)]
    named = [
        MetadataResponseTopic(
            name=f"topic-{t}",
            topic_id=t.to_bytes(16, "big"),
            partitions=[
                MetadataResponsePartition(
                    partition_index=p,
                    leader_id=p % 3,
                    leader_epoch=7,
                    replica_nodes=[0, 1, 2],
                    isr_nodes=[0, 1, 2],
                )
                for p in range(6)
            ],
        )
        for t in range(topics)
    ]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{t}") for t in range(topics)])
    return [
        request,
        MetadataResponse(brokers=brokers, cluster_id="abcdefghijklmnopqrstuv", controller_id=1, topics=named),
    ]


def _api_versions() -> list[Message]:
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version="1.0")
    return [request, ApiVersionsResponse(api_keys=[ApiVersion(api_key=k, max_version=9) for k in range(62)])]


def cases() -> list[Case]:
    """The messages of the budget; each in the version that current clients use."""
    listed = [("1 KB", m, 9) for m in _produce(1000)] + [("1 KB x 6", m, 12) for m in _fetch(1000)]
    listed += [("1 MB", m, 9) for m in _produce(1 << 20)[:1]] + [
        ("1 MB x 6", m, 12) for m in _fetch(1 << 20)[1:]
    ]
    listed += [("100 topics", m, 12) for m in _metadata(100)] + [("", m, 3) for m in _api_versions()]
    return [Case(f"{type(m).__name__} v{v} {note}".strip(), m, v) for note, m, v in listed]


def ours(case: Case, data: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    message, version, cls = case.message, case.version, type(case.message)
    return lambda: message.encode(version), lambda: cls.decode(data, version)


def kafka_python(case: Case, data: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    name, version = type(case.message).__name__, case.version
    home = {"Produce": "producer", "Fetch": "consumer"}.get(
        name.removesuffix("Request").removesuffix("Response"), "metadata"
    )
    cls = getattr(importlib.import_module(f"kafka.protocol.{home}"), name)
    message = cls.decode(data, version=version)
    message._header = None  # noqa: SLF001 - its encoder asks for what its decoder leaves unset
    return lambda: message.encode(version=version), lambda: cls.decode(data, version=version)


def kio(case: Case, data: bytes) -> tuple[Callable[[], object], Callable[[], object]]:
    name = type(case.message).__name__
    kind = "request" if name.endswith("Request") else "response"
    api = case.message.api.name.lower()
    cls = getattr(importlib.import_module(f"kio.schema.{api}.v{case.version}.{kind}"), name)
    read, write = entity_reader(cls), entity_writer(cls)
    message = read(data, 0)[0]
    return lambda: write(io.BytesIO(), message), lambda: read(data, 0)


def best(functions: list[Callable[[], object]]) -> list[float]:
    """The best time of each function in microseconds, measured in turn so that all see the same machine."""
    times = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            times[i] = min(times[i], _round(function))
    return times


def _round(function: Callable[[], object]) -> float:
    count, start = 0, time.perf_counter()
    deadline = start + ROUND_SECONDS
    while True:
        for _ in range(8):
            function()
        count += 8
        now = time.perf_counter()
        if now >= deadline:
            return (now - start) / count * 1e6


def main() -> None:
    gc.disable()
    print(f"{'us for one message':38} {'barnabas':>10} {'kafka-python':>13} {'kio':>10}")
    totals = [0.0, 0.0, 0.0]
    for case in cases():
        data = materialize(case.message.encode(case.version))
        codecs = [library(case, data) for library in (ours, kafka_python, kio)]
        for index, verb in enumerate(("encode", "decode")):
            times = best([pair[index] for pair in codecs])
            totals = [total + one for total, one in zip(totals, times, strict=True)]
            print(f"{verb + ' ' + case.title:38} {times[0]:10.2f} {times[1]:13.2f} {times[2]:10.2f}")
    print(f"{'sum':38} {totals[0]:10.2f} {totals[1]:13.2f} {totals[2]:10.2f}")
    print(
        f"ratio to kafka-python {totals[0] / totals[1]:.3f} (budget 0.5), to kio {totals[0] / totals[2]:.3f} "
        "(budget 1.0)"
    )


if __name__ == "__main__":
    main()
