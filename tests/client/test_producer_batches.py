"""Batches that are too large, leaders that an answer names, and what is counted of it all."""

import math
import random

import pytest

from barnabas.client import AsyncConsumer, AsyncProducer, DeliveryError
from barnabas.client.broker_delays import BrokerDelays
from barnabas.client.producer_metrics import NAMES_LOOKED_UP
from barnabas.client.sampled import Sampled
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch import LeaderIdAndEpoch as LeaderOfFetch
from barnabas.protocol.messages.fetch import NodeEndpoint as EndpointOfFetch
from barnabas.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from barnabas.records.batch import parse_header
from fake_cluster import HangUpError, hangup, produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}


def limited(cluster, limit, refusal=ErrorCode.MESSAGE_TOO_LARGE):
    """The broker takes no batch of more than this many bytes, as with ``max.message.bytes``."""
    store = cluster._store

    def checked(tp, batch):
        return (refusal, -1) if len(batch) > limit else store(tp, batch)

    cluster._store = checked


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("refusal", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
def test_a_batch_that_is_too_large_is_split_until_it_fits(run, fake, codec, idempotent, refusal):
    async def scenario():
        async with fake() as cluster:
            limited(cluster, 400, refusal)
            rng = random.Random(1)
            async with AsyncProducer(
                cluster.bootstrap, linger_ms=10_000, compression_type=codec, enable_idempotence=idempotent
            ) as producer:
                values = [b"%03d" % number + rng.randbytes(100) for number in range(20)]
                deliveries = [
                    await producer.send("t", value, timestamp_ms=1000 + number, headers={"h": value[:3]})
                    for number, value in enumerate(values)
                ]
                told = []
                deliveries[7].tell(lambda *outcome: told.append(outcome))
                await producer.flush()
                stored = [await delivery for delivery in deliveries]
                metrics = producer.metrics()["producer-metrics"]
            records = cluster.records("t")
            assert [record.value for record in records] == values
            assert [record.timestamp for record in records] == [1000 + number for number in range(20)]
            assert [record.headers for record in records] == [[("h", value[:3])] for value in values]
            assert [one.offset for one in stored] == list(range(20))
            assert told == [(None, stored[7])]
            assert metrics["batch-split-total"] >= 3
            assert metrics["buffer-available-bytes"] == metrics["buffer-total-bytes"]
            headers = [parse_header(batch) for batch in cluster.logs["t", 0]]
            if idempotent:
                assert [one.base_sequence for one in headers] == [one.base_offset for one in headers]

    run(scenario())


def test_of_a_split_batch_only_the_record_that_fits_nowhere_fails(run, fake):
    async def scenario():
        async with fake() as cluster:
            limited(cluster, 300)
            async with AsyncProducer(cluster.bootstrap, linger_ms=10_000, **FAST) as producer:
                sizes = [50, 50, 900, 50, 50]
                deliveries = [await producer.send("t", b"v" * size) for size in sizes]
                with pytest.raises(DeliveryError, match=r"larger than|too large"):
                    await producer.flush()
                assert all(delivery.done() for delivery in deliveries)
                failed = [type(delivery.exception()).__name__ for delivery in deliveries]
                assert failed == ["NoneType", "NoneType", "DeliveryError", "NoneType", "NoneType"]
                # What comes later goes on in order, under the next epoch.
                later = await producer.send("t", b"later")
                await producer.flush()
                assert (await later).offset == 4
            assert [len(record.value) for record in cluster.records("t")] == [50, 50, 50, 50, 5]

    run(scenario())


def test_a_flush_does_not_raise_for_pieces_whose_records_were_all_looked_at(run, fake):
    async def scenario():
        async with fake() as cluster:
            limited(cluster, 100)
            async with AsyncProducer(cluster.bootstrap, linger_ms=10_000, **FAST) as producer:
                deliveries = [await producer.send("t", b"v" * 200) for _ in range(3)]
                told = []
                for delivery in deliveries:
                    delivery.tell(lambda error, _stored: told.append(error.code))
                await producer.flush()
                assert told == [ErrorCode.MESSAGE_TOO_LARGE] * 3

    run(scenario())


def test_pieces_keep_their_order_through_a_lost_connection_and_before_newer_batches(run, fake):
    async def scenario():
        async with fake() as cluster:
            limited(cluster, 400)
            cluster.faults[ApiKey.PRODUCE] += [cluster._produce, hangup, hangup]
            async with AsyncProducer(
                cluster.bootstrap,
                batch_size=700,
                linger_ms=10_000,
                max_in_flight_requests_per_connection=1,
                **FAST,
            ) as producer:
                for number in range(60):
                    await producer.send("t", b"%03d" % number + b"." * 100)
                await producer.flush()
            values = [record.value[:3] for record in cluster.records("t")]
            assert values == [b"%03d" % number for number in range(60)]

    run(scenario())


def store_and_hang_up(cluster):
    """A fault: the request is served, and its answer lost."""

    def fault(request, node_id):
        cluster._produce(request, node_id)
        raise HangUpError

    return fault


def test_pieces_of_a_batch_that_is_stored_already_are_not_stored_again(run, fake):
    """Its answer was lost, and the topic takes less than it did: nobody can say what is there."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000, **FAST) as producer:
            refusal = produce_error(ErrorCode.MESSAGE_TOO_LARGE)
            cluster.faults[ApiKey.PRODUCE] += [store_and_hang_up(cluster), refusal]
            deliveries = [await producer.send("t", value) for value in ("a", "b")]
            with pytest.raises(DeliveryError):
                await producer.flush()
            lost = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert [delivery.exception().code for delivery in deliveries] == [lost] * 2
            assert [record.value for record in cluster.records("t")] == [b"a", b"b"]

            await producer.send("t", "c")
            await producer.flush()
            assert [record.value for record in cluster.records("t")] == [b"a", b"b", b"c"]

    run(scenario())


def test_a_batch_whose_answer_was_lost_is_split_where_it_was_not_stored(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000, **FAST) as producer:
            limited(cluster, 400)
            cluster.faults[ApiKey.PRODUCE].append(hangup)
            values = [b"%03d" % number + b"." * 100 for number in range(20)]
            for value in values:
                await producer.send("t", value)
            await producer.flush()
            assert [record.value for record in cluster.records("t")] == values

    run(scenario())


def test_of_a_batch_whose_answer_was_lost_what_fits_is_stored(run, fake):
    """The broker takes its first pieces, so it cannot have had the whole."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000, **FAST) as producer:
            limited(cluster, 400)
            cluster.faults[ApiKey.PRODUCE].append(hangup)
            values = [b"%d" % number + b"." * (500 if number == 4 else 100) for number in range(9)]
            deliveries = [await producer.send("t", value) for value in values]
            with pytest.raises(DeliveryError):
                await producer.flush()
            fits = values[:4] + values[5:]
            assert [record.value for record in cluster.records("t")] == fits
            failed = [delivery.exception() for delivery in deliveries]
            assert [number for number, error in enumerate(failed) if error] == [4]

    run(scenario())


def without_new_metadata(cluster):
    """From now on, metadata requests get no answer."""
    cluster.faults[ApiKey.METADATA].extend([lambda _request, _node: None] * 50)


def test_a_leader_that_a_refusal_names_is_asked_at_once(run, fake):
    """KIP-951: without metadata, and without a pause."""

    async def scenario():
        async with fake(2) as cluster:
            cluster.add_topic("t", 1)
            async with AsyncProducer(cluster.bootstrap, retry_backoff_ms=60_000) as producer:
                await producer.send_and_wait("t", "a")
                without_new_metadata(cluster)

                async def refuse(request, node_id):
                    cluster.leaders["t", 0], cluster.epochs["t", 0] = 2, 5
                    response = await cluster._handle(ApiKey.PRODUCE, request, node_id)
                    (answer,) = response.responses[0].partition_responses
                    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                    answer.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
                    port = cluster.ports[2]
                    response.node_endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=port)]
                    return response

                cluster.faults[ApiKey.PRODUCE].append(refuse)
                assert (await producer.send_and_wait("t", "b")).offset == 1

    run(scenario())


def test_a_consumer_follows_the_leader_that_a_refusal_names_at_once(run, fake):
    async def scenario():
        async with fake(2) as cluster:
            cluster.add_topic("t", 1)
            async with AsyncProducer(cluster.bootstrap) as producer:
                await producer.send_and_wait("t", "a")
            async with AsyncConsumer(cluster.bootstrap, retry_backoff_ms=60_000) as consumer:
                consumer.assign([("t", 0)])
                consumer.seek(("t", 0), 0)
                await consumer.position(("t", 0))
                await consumer.partitions_for("t")
                without_new_metadata(cluster)

                async def refuse(request, node_id):
                    cluster.leaders["t", 0], cluster.epochs["t", 0] = 2, 5
                    response = await cluster._handle(ApiKey.FETCH, request, node_id)
                    (answer,) = response.responses[0].partitions
                    answer.current_leader = LeaderOfFetch(leader_id=2, leader_epoch=5)
                    port = cluster.ports[2]
                    response.node_endpoints = [EndpointOfFetch(node_id=2, host="127.0.0.1", port=port)]
                    return response

                cluster.faults[ApiKey.FETCH].append(refuse)
                records = await consumer.poll(timeout_ms=20_000)
                assert [record.value for record in records] == [b"a"]
                assert {request[0] for request in cluster.seen[-1:]} == {ApiKey.FETCH}

    run(scenario())


def test_an_older_leader_or_one_that_nobody_knows_changes_nothing(run, fake):
    async def scenario():
        async with fake(1) as cluster, AsyncProducer(cluster.bootstrap) as producer:
            cluster.add_topic("t", 1)
            cluster.epochs["t", 0] = 3
            await producer.send_and_wait("t", "a")
            known, tp = producer._cluster, TopicPartition("t", 0)
            before = known.metadata
            for leader, epoch in ((1, 2), (1, 3), (9, 4), (-1, 5)):
                assert not known.leaders_changed(
                    {tp: LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)}, []
                )
            assert known.metadata is before
            assert known.leaders_changed({tp: LeaderIdAndEpoch(leader_id=1, leader_epoch=4)}, []) == {tp}

    run(scenario())


def without_answers_of(cluster, node):
    produce = cluster._produce
    cluster._produce = lambda request, node_id: None if node_id == node else produce(request, node_id)


def test_a_broker_that_takes_nothing_is_none_for_records_without_a_key(run, fake):
    async def scenario():
        async with fake(2) as cluster:
            cluster.add_topic("t", 2)
            without_answers_of(cluster, 2)
            producer = AsyncProducer(
                cluster.bootstrap,
                batch_size=100,
                max_in_flight_requests_per_connection=1,
                partitioner_availability_timeout_ms=1,
            )
            # One batch has no answer, and another one waits behind it.
            for _ in range(2):
                await producer.send("t", b"v" * 50, partition=1)
            queues = producer._accumulator._topics["t"].queues
            while (loads := producer._loads(queues))[1] is not None:
                await producer.send_and_wait("t", b"v" * 50, partition=0)
            await producer.abort()
        return loads

    assert run(scenario()) == [0, None]


def test_records_without_a_key_go_where_less_waits(run, fake):
    """KIP-794, from the queues as they are: 200 batches wait for one partition, and few for the other."""

    async def scenario(adaptive):
        async with fake(2) as cluster:
            cluster.add_topic("t", 2)
            producer = AsyncProducer(
                cluster.bootstrap,
                batch_size=100,
                linger_ms=10_000,
                partitioner_adaptive_partitioning_enable=adaptive,
            )
            cluster._produce = lambda _request, _node: None
            for _ in range(200):
                await producer.send("t", b"v" * 50, partition=1)
            for _ in range(100):
                await producer.send("t", b"v" * 50)
            waiting = [len(queue.waiting) for queue in producer._accumulator._topics["t"].queues]
            await producer.abort()
        return waiting[0]

    assert run(scenario(adaptive=True)) > run(scenario(adaptive=False))


def test_a_broker_that_keeps_records_waiting_is_slow_until_it_takes_them(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("barnabas.client.broker_delays.time.monotonic", lambda: now[0])
    delays, never = BrokerDelays(1000), BrokerDelays(0)
    for each in (delays, never):
        each.looked_at(1, keeps_waiting=True)
    now[0] = 100.9
    delays.looked_at(1, keeps_waiting=True)
    assert not delays.is_slow(1)
    now[0] = 101.1
    assert delays.is_slow(1)
    assert not never.is_slow(1)
    delays.looked_at(1, keeps_waiting=False)
    assert not delays.is_slow(1)


def test_rates_and_averages_are_those_of_the_last_minute_and_totals_are_of_all_time():
    now = [0.0]
    one = Sampled(lambda: now[0])
    assert math.isnan(one.average())
    assert math.isnan(one.most())
    one.record(10)
    one.record(20)
    assert (one.average(), one.most(), one.rate()) == (15, 20, 1)
    now[0] = 40.0
    one.record(90)
    assert (one.average(), one.most(), one.rate()) == (40, 90, 3)
    now[0] = 65.0
    assert (one.average(), one.most()) == (90, 90)
    now[0] = 200.0
    assert (one.total, one.count, one.rate()) == (120, 3, 0)
    assert math.isnan(one.average())


def test_metrics_have_kafkas_names(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=10_000) as producer:
            for _ in range(10):
                await producer.send("t", "v")
            await producer.flush()
            cluster.faults[ApiKey.PRODUCE].append(hangup)
            await producer.send("t", "v")
            await producer.flush()
            return producer.metrics()

    metrics = run(scenario())
    whole = metrics["producer-metrics"]
    assert (whole["record-send-total"], whole["record-retry-total"], whole["record-error-total"]) == (
        12,
        1,
        0,
    )
    assert whole["request-total"] == 3
    assert set(NAMES_LOOKED_UP) < set(whole), "they stand in docs/client-reference.md"
    assert whole["records-per-request-avg"] == 4
    assert whole["batch-size-max"] > whole["batch-size-avg"] > 61
    assert whole["request-latency-max"] >= whole["request-latency-avg"] > 0
    assert metrics["producer-topic-metrics.t"]["record-send-total"] == 12
    assert metrics["producer-topic-metrics.t"]["byte-total"] == whole["outgoing-byte-total"]
