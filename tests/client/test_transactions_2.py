"""Transactions of version 2 (KIP-890): what goes to whom, and which epoch the next one has."""

import contextlib

import pytest
from fake_transactions import FakeTransactions

from barnabas.client import (
    AbortableTransactionError,
    AsyncProducer,
    ConsumerGroupMetadata,
    ProducerFencedError,
    TopicPartition,
)
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.end_txn import EndTxnResponse
from fake_cluster import hangup, produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
GROUP = ConsumerGroupMetadata("g", 3, "m", None)
WANTED = {
    ApiKey.ADD_PARTITIONS_TO_TXN: "add",
    ApiKey.ADD_OFFSETS_TO_TXN: "add-offsets",
    ApiKey.TXN_OFFSET_COMMIT: "offsets",
    ApiKey.PRODUCE: "produce",
    ApiKey.END_TXN: "end",
    ApiKey.INIT_PRODUCER_ID: "init",
}


@contextlib.asynccontextmanager
async def world(fake, version=2, **options):
    async with fake(1) as cluster:
        cluster.add_topic("t", partitions=4)
        coordinator = FakeTransactions(cluster, version)
        async with AsyncProducer(cluster.bootstrap, transactional_id="tx", **FAST, **options) as producer:
            await producer.init_transactions()
            yield cluster, coordinator, producer


def apis(cluster):
    return [WANTED[api] for api, _ in cluster.seen if api in WANTED]


async def one_transaction(producer, value="v", partition=0):
    async with producer.transaction():
        await producer.send("t", value, partition=partition)


def test_the_first_batch_adds_its_partition_and_each_end_brings_an_epoch(run, fake):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            for number in range(3):
                await one_transaction(producer, partition=number)
            assert coordinator.ended == [(True, [("t", number)], []) for number in range(3)]
            assert coordinator.epoch == 3
            assert apis(cluster) == ["init", *["produce", "end"] * 3]

    run(scenario())


def test_offsets_add_the_group_by_themselves(run, fake):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            async with producer.transaction():
                await producer.send_offsets({TopicPartition("t", 1): 5}, GROUP)
            assert coordinator.offsets == {("t", 1): 5}
            assert coordinator.ended == [(True, [], ["g"])]
            assert apis(cluster) == ["init", "offsets", "end"]

    run(scenario())


def test_an_end_without_an_answer_is_asked_for_again_with_its_own_epoch(run, fake):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):

            def carried_out_and_lost(request, node_id):
                coordinator._end_txn(request, node_id)
                return hangup(request, node_id)

            cluster.faults[ApiKey.END_TXN].append(carried_out_and_lost)
            await one_transaction(producer)
            await one_transaction(producer, partition=1)
            assert coordinator.ended == [(True, [("t", number)], []) for number in range(2)]
            assert coordinator.epoch == 2

    run(scenario())


def test_a_transaction_that_failed_is_followed_by_no_question_for_an_epoch(run, fake):
    async def scenario():
        async with world(fake) as (cluster, coordinator, producer):
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.INVALID_TXN_STATE))
            with pytest.raises(AbortableTransactionError):
                await one_transaction(producer)
            await one_transaction(producer)
            assert [committed for committed, *_ in coordinator.ended] == [False, True]
            assert apis(cluster) == ["init", "produce", "end", "produce", "end"]

    run(scenario())


def test_after_the_last_epoch_it_goes_on_under_another_producer_id(run, fake):
    async def scenario():
        async with world(fake) as (_, coordinator, producer):
            coordinator.epoch_max = 1
            for number in range(4):
                await one_transaction(producer, partition=number)
            assert [committed for committed, *_ in coordinator.ended] == [True] * 4
            assert (coordinator.producer_id, coordinator.epoch) == (79, 0)

    run(scenario())


def test_a_fenced_producer_ends(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, producer):
            fenced = EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
            cluster.faults[ApiKey.END_TXN].append(lambda *_: fenced)
            with pytest.raises(ProducerFencedError):
                await one_transaction(producer)

    run(scenario())


@pytest.mark.parametrize("version", [0, 1])
def test_below_version_2_it_asks_as_before(run, fake, version):
    async def scenario():
        async with fake(1) as cluster:
            cluster.add_topic("t", partitions=4)
            coordinator = FakeTransactions(cluster)
            if version:
                cluster.features = {"transaction.version": version}
            async with AsyncProducer(cluster.bootstrap, transactional_id="tx", **FAST) as producer:
                await producer.init_transactions()
                await one_transaction(producer)
                await one_transaction(producer)
            assert coordinator.epoch == 0
            assert apis(cluster) == ["init", *["add", "produce", "end"] * 2]

    run(scenario())
