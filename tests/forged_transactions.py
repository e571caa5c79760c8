"""Open transactions that no coordinator knows: a batch that says of itself that it belongs to one.

The leader takes it where ``transaction.partition.verification.enable`` is false, as every broker did before
Kafka 3.6. So such transactions came into being: a batch that was late met a partition that had its marker.
"""

import asyncio

from barnabas.client.cluster import Cluster
from barnabas.client.config import ADMIN_CONFIG, client_config
from barnabas.client.retries import Deadline
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

UNVERIFIED = "transaction.partition.verification.enable=false"
LONG_AGO_MS = 1_600_000_000_000
SECONDS = 30


def leave_open(
    bootstrap: str, tp: TopicPartition, producer_id: int, *, epoch: int = 0, timestamp_ms: int = LONG_AGO_MS
) -> int:
    """Opens a transaction of this producer in a partition; the offset of its only record."""
    return asyncio.run(_leave_open(bootstrap, tp, producer_id, epoch, timestamp_ms))


async def _leave_open(
    bootstrap: str, tp: TopicPartition, producer_id: int, epoch: int, timestamp_ms: int
) -> int:
    batch = build_batch(
        [Record(0, timestamp_ms, None, b"left open")],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0,
        transactional=True,
    )
    partition = PartitionProduceData(index=tp.partition, records=bytes(batch))
    request = ProduceRequest(
        transactional_id="nobody-knows-me",
        acks=-1,
        timeout_ms=SECONDS * 1000,
        topic_data=[TopicProduceData(name=tp.topic, partition_data=[partition])],
    )
    options = {"bootstrap_servers": bootstrap, "client_id": "forger"}
    cluster = Cluster(client_config(ADMIN_CONFIG, options), in_flight_max=1)
    try:
        await cluster.topic(tp.topic, Deadline(SECONDS * 1000))
        response = await cluster.send(cluster.metadata.leader(tp), request, ProduceResponse, versions=(3, 11))
    finally:
        await cluster.close()
    [answer] = response.responses[0].partition_responses
    assert not answer.error_code, ErrorCode.of(answer.error_code)
    return answer.base_offset
