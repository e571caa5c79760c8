"""Ids of producers: those that producers ask for, and the blocks that brokers do."""

import time
from typing import Final

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from parity.scenarios.batches import batch, from_producer
from parity.world import World

FETCHING_A_BLOCK: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
PATIENCE_S: Final = 10


def producer_id(world: World) -> int:
    """A new id, once the broker has a block of them: a genuine one asks for its first when it is asked."""
    deadline = time.monotonic() + PATIENCE_S
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while (made := world.prepare(request, 4)).error_code == FETCHING_A_BLOCK:
        assert time.monotonic() < deadline, made
        time.sleep(0.02)
    found: int = made.producer_id
    return found


def init_producer_id(world: World) -> None:
    """Ids for idempotent producers, and requests that make no sense."""
    producer_id(world)
    for version in range(6):
        world.ask("new", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), version)
    for what, (given_id, epoch) in {
        "had one": (5, 3),
        "id alone": (5, -1),
        "epoch alone": (-1, 3),
        "negative": (-7, -7),
    }.items():
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=given_id,
            producer_epoch=epoch,
        )
        world.ask(what, request, 3, 5)
    world.ask(
        "empty transactional id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    )
    world.ask("no time", InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))


def allocate_producer_ids(world: World) -> None:
    """Blocks, for brokers that are not who they say."""
    for what, (broker, epoch) in {
        "stale epoch": (0, 0),
        "no epoch": (0, -1),
        "epoch to come": (0, 1 << 40),
        "unknown broker": (9, 0),
        "negative broker": (-1, -1),
    }.items():
        world.ask(what, AllocateProducerIdsRequest(broker_id=broker, broker_epoch=epoch))


def describe_producers(world: World) -> None:
    """What partitions remember of producers:
    nothing, the last sequence number, the first of a newer epoch.
    """
    world.create("remembered", 2)
    known = producer_id(world)
    world.ask("of an empty partition", _describe("remembered", 0, 1))
    world.append("remembered", from_producer(known, 0, 0, b"a", b"b"), from_producer(known, 0, 2, b"c"))
    world.ask("of one producer", _describe("remembered", 0))
    world.append("remembered", from_producer(known, 3, 0, b"d"), batch(b"of none"))
    world.ask("in a newer epoch", _describe("remembered", 0, 0))
    for topic in ("remembered-nowhere", "__consumer_offsets", "a b", "", "..", "x" * 250):
        world.ask(f"of {topic[:30]!r}", _describe(topic, 0))
    world.ask("no partition of it", _describe("remembered", 9, -1))
    world.ask("no partitions", _describe("remembered"))
    world.ask("nothing", DescribeProducersRequest())


def _describe(topic: str, *partitions: int) -> DescribeProducersRequest:
    return DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(partitions))])
