"""A ledger of what a producer was given, beside what the brokers have, for any sizes, limits and faults.

With idempotence each record is there once, at the offset that its delivery tells, or its delivery has failed;
those of a partition are in the order in which they were sent. Only a record that fits into no batch fails.
"""

import asyncio
import contextlib
import random

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from barnabas.client import AsyncProducer
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from fake_cluster import FakeCluster, HangUpError, hangup, produce_error

FAST = {"retry_backoff_ms": 2, "retry_backoff_max_ms": 10}
BUFFER_BYTES = 400_000
PARTITIONS = 3


def refuse_later(request, node_id):
    """A fault: nothing is stored, but the code tells that it may be."""
    return produce_error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)(request, node_id)


class Broker(FakeCluster):
    """Takes no batch that is larger than `limit`, and tells `largest`, the most that was on its way."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.add_topic("t", PARTITIONS)

    def _store(self, tp, batch):
        # As Kafka does: the size comes before the sequence.
        return (ErrorCode.MESSAGE_TOO_LARGE, -1) if len(batch) > self.limit else super()._store(tp, batch)

    def lose_answer(self, request, node_id):
        self._produce(request, node_id)
        raise HangUpError

    async def answer_slowly(self, request, node_id):
        await asyncio.sleep(0.002)
        return self._produce(request, node_id)

    def plan(self, faults):
        """What becomes of the produce requests, one after the other."""
        named = {
            "serve": self._produce,
            "slow": self.answer_slowly,
            "lost": self.lose_answer,
            "cut": hangup,
            "moved": produce_error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
            "perhaps": refuse_later,
        }
        self.faults[ApiKey.PRODUCE].extend(named[one] for one in faults)


RECORDS = st.lists(
    st.tuples(
        st.integers(1, 400),
        st.sampled_from([0, 10, 100, 1000, 5000, 30_000, 300_000]),
        st.integers(0, PARTITIONS - 1),
    ),
    min_size=1,
    max_size=6,
).filter(lambda groups: sum(count * size for count, size, _ in groups) < 2_000_000)
"""Groups of records: how many, how large, to which partition."""

LIMITS = st.sampled_from([1000, 5000, 16_000, 16_500, 40_000, 100_000, 255_000, 1_000_000])
FAULTS = st.lists(st.sampled_from(["serve", "slow", "lost", "cut", "moved", "perhaps"]), max_size=8)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    groups=RECORDS,
    limit=LIMITS,
    faults=FAULTS,
    codec=st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    in_flight=st.sampled_from([1, 2, 5]),
    how=st.sampled_from(["flush", "close", "flush twice"]),
)
@example(groups=[(400, 1000, 0)], limit=40_000, faults=["cut"], codec="none", in_flight=1, how="flush")
@example(groups=[(9, 30_000, 0)], limit=5000, faults=["lost"], codec="none", in_flight=5, how="close")
def test_each_record_is_there_once_and_in_its_place_or_has_failed(
    run, groups, limit, faults, codec, in_flight, how
):
    async def scenario():
        broker = await Broker(limit).start()
        try:
            broker.plan(faults)
            sent = await send_all(broker, groups, codec, in_flight, how)
        finally:
            await broker.stop()
        check(broker, sent, limit, faults)

    run(scenario(), seconds=60)


async def send_all(broker, groups, codec, in_flight, how):
    """All records with their deliveries, by partition."""
    source = random.Random(1)
    producer = AsyncProducer(
        broker.bootstrap,
        compression_type=codec,
        buffer_memory=BUFFER_BYTES,
        max_in_flight_requests_per_connection=in_flight,
        **FAST,
    )
    sent = {number: [] for number in range(PARTITIONS)}
    number = 0
    for count, size, partition in groups:
        for _ in range(count):
            value = b"%06d" % number + source.randbytes(size)
            sent[partition].append((value, await producer.send("t", value, partition=partition)))
            number += 1
            assert producer._accumulator.waiting_bytes <= BUFFER_BYTES + 310_000
        if how == "flush twice":
            # What it raises is found in the deliveries.
            with contextlib.suppress(Exception):
                await producer.flush()
    with contextlib.suppress(Exception):
        await (producer.close() if how == "close" else producer.flush())
    assert (producer.held_records, producer._accumulator.waiting_bytes) == (0, 0)
    await producer.abort()
    return sent


def check(broker, sent, limit, faults):
    for partition, records in sent.items():
        stored = [record.value for record in broker.records("t", partition)]
        failed = {value: delivery.exception(0) for value, delivery in records if delivery.exception(0)}
        known = [value for value, _ in records]
        # Once, and in order: a record of which it is not known whether it is there may be.
        assert stored == [value for value in known if value in set(stored)]
        assert [value for value in known if value not in failed and value not in set(stored)] == []
        for value, delivery in records:
            if value not in failed and (offset := delivery.result(0).offset) >= 0:
                assert stored[offset] == value
        may_be_too_large = {value for value in known if len(value) + 100 > limit}
        # A first record that fits nowhere, of a batch whose answer was lost, leaves it open whether the
        # broker refuses what comes behind it because it has it.
        if not faults:
            assert set(failed) <= may_be_too_large, set(failed.values())
        assert not failed or may_be_too_large
