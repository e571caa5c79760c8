"""The consumer: positions, resets, order, damage, transactions."""

import asyncio
import tracemalloc

import pytest
from fake_group import serve_group

from barnabas.client import (
    AsyncConsumer,
    ClientClosedError,
    ClientTimeoutError,
    NoOffsetError,
    TimestampType,
    TopicPartition,
)
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.fetch import AbortedTransaction, FetchResponse
from barnabas.records.batch import build_batch, wrap_section
from barnabas.records.compression import Codec, compress
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from barnabas.records.record import Record, encode_record
from fake_cluster import hangup

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "fetch_max_wait_ms": 10}
T0 = TopicPartition("t", 0)


def batch(*values, first_timestamp=1000, **options):
    records = [
        Record(index, first_timestamp + index, None, value.encode(), ()) for index, value in enumerate(values)
    ]
    return build_batch(records, **options)


def filled(cluster, count=10, per_batch=3):
    cluster.add_topic("t", 1)
    for start in range(0, count, per_batch):
        numbers = range(start, min(start + per_batch, count))
        cluster.append("t", 0, batch(*map(str, numbers), first_timestamp=1000 + start))


async def read(consumer, count, seconds=20):
    records = []
    async with asyncio.timeout(seconds):
        while len(records) < count:
            records += await consumer.poll(100)
    return records


def offsets(records):
    return [record.offset for record in records]


def test_a_poll_before_anything_was_chosen_says_so_once(run, fake, caplog):
    async def scenario():
        async with fake(1) as cluster, AsyncConsumer(cluster.bootstrap, **FAST) as consumer:
            for _ in range(3):
                assert await consumer.poll(timeout_ms=5) == []

    run(scenario())
    lines = [each.getMessage() for each in caplog.records if each.name == "barnabas.client.consumer"]
    assert lines == ['consumer.nothing_to_read advice="call subscribe or assign before poll"']


def scenario_with(body, *, nodes=1, **options):
    """Runs `body(cluster, consumer)` with t-0 assigned and ten records in it."""

    async def scenario(fake):
        async with fake(nodes) as cluster:
            filled(cluster)
            async with AsyncConsumer(cluster.bootstrap, **{**FAST, **options}) as consumer:
                consumer.assign([T0])
                await body(cluster, consumer)

    return scenario


def test_reads_everything_once_and_in_order(run, fake):
    async def body(cluster, consumer):
        records = await read(consumer, 10)

        assert offsets(records) == list(range(10))
        assert records[3] == ("t", 0, 3, 1003, TimestampType.CREATE_TIME, None, b"3", (), 0)
        assert await consumer.position(T0) == 10
        assert consumer.lag(T0) == 0
        consumer.seek(T0, 12)
        assert consumer.lag(T0) == 0, "behind the end nothing is left to read"

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_polls_hand_out_no_more_than_asked_for(run, fake):
    async def body(cluster, consumer):
        assert offsets(await consumer.poll(1000, 2)) == [0, 1]
        assert await consumer.position(T0) == 2
        assert offsets(await consumer.poll(1000, 5)) == [2, 3, 4, 5, 6]
        assert offsets(await consumer.poll(1000)) == [7, 8, 9]

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_what_has_arrived_is_not_asked_for_again(run, fake):
    async def body(cluster, consumer):
        cluster.add_topic("t", 2)
        cluster.append("t", 1, batch("other"))
        consumer.assign([T0, ("t", 1)])
        found = []
        while len(found) < 11:
            found += await consumer.poll(20, 1)
            for _ in range(20):  # answers come in between
                await asyncio.sleep(0)
        asked = [
            one.fetch_offset
            for request in cluster.requests(ApiKey.FETCH)
            for topic in request.topics
            for one in topic.partitions
            if one.partition == 1
        ]
        assert asked.count(0) == 1

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_seek_wins_over_what_was_fetched_ahead(run, fake):
    async def body(cluster, consumer):
        await consumer.poll(1000, 1)
        consumer.seek(T0, 7)
        assert offsets(await consumer.poll(1000)) == [7, 8, 9]
        consumer.seek_to_beginning(T0)
        assert offsets(await consumer.poll(1000, 1)) == [0]
        consumer.seek_to_end()
        assert await consumer.position(T0) == 10
        assert await consumer.poll(30) == []

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_begins_at_the_end_unless_configured_otherwise(run, fake):
    async def body(cluster, consumer):
        assert await consumer.position(T0) == 10
        cluster.append("t", 0, batch("new"))
        assert [record.value for record in await read(consumer, 1)] == [b"new"]

    run(scenario_with(body)(fake))


def test_without_a_reset_policy_a_missing_position_is_an_error(run, fake):
    async def body(cluster, consumer):
        with pytest.raises(NoOffsetError, match=r"t-0 \(no position\)"):
            await consumer.poll(10)
        consumer.seek(T0, 99)
        with pytest.raises(NoOffsetError, match="offset 99 is out of range"):
            await read(consumer, 1)

    run(scenario_with(body, auto_offset_reset="none")(fake))


def test_out_of_range_resets_as_the_policy_says(run, fake):
    async def body(cluster, consumer):
        cluster.starts[T0] = 4
        consumer.seek(T0, 2)
        records = await read(consumer, 6)
        assert offsets(records) == [4, 5, 6, 7, 8, 9]

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_paused_partitions_wait(run, fake):
    async def body(cluster, consumer):
        await consumer.poll(1000, 1)
        consumer.pause(T0)
        assert consumer.paused() == {T0}
        assert await consumer.poll(40) == []
        consumer.resume(T0)
        assert offsets(await read(consumer, 9))[0] == 1

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


@pytest.mark.parametrize("versions", [(4, 11), (4, 17)])
def test_a_moved_leader_is_asked_whether_its_log_diverges_where_it_can_say_so(run, fake, versions):
    async def body(cluster, consumer):
        cluster.versions[ApiKey.FETCH] = versions
        await read(consumer, 10)
        cluster.leaders[T0] = 2
        cluster.epochs[T0] += 1
        cluster.append("t", 0, batch("moved"))

        assert [record.value for record in await read(consumer, 1)] == [b"moved"]
        named = {
            one.last_fetched_epoch
            for request in cluster.requests(ApiKey.FETCH)
            for topic in request.topics
            for one in topic.partitions
        }
        assert named == ({-1} if versions == (4, 11) else {-1, 0})

    run(scenario_with(body, nodes=2, auto_offset_reset="earliest")(fake))


def test_a_moved_leader_is_followed(run, fake):
    async def body(cluster, consumer):
        await consumer.poll(1000, 3)
        cluster.leaders[T0] = 2
        cluster.epochs[T0] += 1
        cluster.append("t", 0, batch("moved"))
        records = await read(consumer, 8)
        assert records[-1].value == b"moved"

    run(scenario_with(body, nodes=2, auto_offset_reset="earliest")(fake))


def test_a_lost_session_and_a_lost_connection_are_survived(run, fake):
    async def body(cluster, consumer):
        def closed(request, node_id):
            raise ConnectionError

        lost = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
        cluster.faults[ApiKey.FETCH].extend([lambda request, node_id: lost, closed])
        assert offsets(await read(consumer, 10)) == list(range(10))

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_a_session_begins_again_after_its_connection_was_lost(run, fake):
    """The broker may have taken the request or not: going on would name only what has changed since."""

    async def body(cluster, consumer):
        def closed(request, node_id):
            raise ConnectionError

        begun = FetchResponse(session_id=9, responses=[])
        cluster.faults[ApiKey.FETCH].extend([lambda request, node_id: begun, closed])
        assert offsets(await read(consumer, 10)) == list(range(10))
        sessions = [(each.session_epoch, len(each.topics)) for each in cluster.requests(ApiKey.FETCH)[:3]]
        assert sessions == [(0, 1), (1, 0), (0, 1)]

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_damage_is_raised_after_the_records_before_it(run, fake):
    async def body(cluster, consumer):
        broken = bytearray(cluster.logs[T0][1])
        broken[-2] ^= 0xFF
        cluster.logs[T0][1] = bytes(broken)
        assert offsets(await consumer.poll(1000)) == [0, 1, 2]
        with pytest.raises(KafkaError, match="t-0 at offset 3 is invalid") as caught:
            await read(consumer, 1)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert await consumer.position(T0) == 3

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_and_records_out_of_the_ordinary(run, fake, codec):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            records = [
                Record(0, 5000, b"k", None, [("h", b"v"), ("n", None)]),
                Record(1, 4000, None, b"", ()),
                Record(2, 5000 + 10**10, b"x" * 20_000, b"y" * 300, ()),
            ]
            cluster.append("t", 0, build_batch(records, codec=codec))
            async with AsyncConsumer(cluster.bootstrap, auto_offset_reset="earliest", **FAST) as consumer:
                consumer.assign([T0])
                found = await read(consumer, 3)
            assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in found] == [
                (r.timestamp, r.key, r.value, list(r.headers)) for r in records
            ]

    run(scenario())


def test_a_small_batch_of_very_many_records_is_no_more_in_memory_than_what_is_asked_for(run, fake):
    """Anybody who may write can send it: all at once they took 300 bytes a record."""
    count = 300_000
    section = encode_record(0, 0, None, b"") * (count - 1) + encode_record(count - 1, 0, None, b"last")
    packed = wrap_section(
        compress(Codec.ZSTD, section), base_offset=0, leader_epoch=0, attributes=Codec.ZSTD,
        last_offset_delta=count - 1, base_timestamp=5, max_timestamp=5, producer_id=-1, producer_epoch=-1,
        base_sequence=-1, count=count,
    )  # fmt: skip
    assert len(packed) < 10_000

    async def scenario():
        async with fake(1) as cluster, AsyncConsumer(cluster.bootstrap, **FAST) as consumer:
            cluster.add_topic("t", 1)
            cluster.append("t", 0, packed)
            consumer.assign([T0])
            consumer.seek(T0, 0)
            tracemalloc.start()
            try:
                assert len(await read(consumer, 1)) == 500
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert held < 30_000_000
            rest = await consumer.poll(1000, count)
            assert (rest[-1].value, await consumer.position(T0)) == (b"last", count)

    run(scenario())


def test_damage_behind_many_records_of_a_batch_is_raised_in_its_place(run, fake):
    good, count = [encode_record(number, 0, None, b"v") for number in range(20_000)], 20_001
    packed = wrap_section(
        b"".join(good) + b"\x7f", base_offset=0, leader_epoch=0, attributes=0, last_offset_delta=count - 1,
        base_timestamp=5, max_timestamp=5, producer_id=-1, producer_epoch=-1, base_sequence=-1, count=count,
    )  # fmt: skip

    async def scenario():
        async with fake(1) as cluster, AsyncConsumer(cluster.bootstrap, **FAST) as consumer:
            cluster.add_topic("t", 1)
            cluster.append("t", 0, packed)
            consumer.assign([T0])
            consumer.seek(T0, 0)
            found = await read(consumer, 16_384)
            with pytest.raises(KafkaError, match="invalid record structure"):
                await consumer.poll(1000)
            assert offsets(found) == list(range(len(found)))
            assert await consumer.position(T0) == len(found) == 16_384

    run(scenario())


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_aborted_transactions_and_markers_are_not_handed_out(run, fake, level):
    async def scenario():
        async with fake() as cluster:
            cluster.add_topic("t", 1)
            ours = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}

            def marker(kind):
                ending = EndTransactionMarker(kind, 0)
                return build_marker(ending, timestamp=1, producer_id=7, producer_epoch=0)

            cluster.append("t", 0, batch("aborted", **ours))
            cluster.append("t", 0, batch("plain"))
            cluster.append("t", 0, marker(ControlType.ABORT))
            cluster.append("t", 0, batch("committed", **ours))
            cluster.append("t", 0, marker(ControlType.COMMIT))
            if level == "read_committed":
                cluster.aborted[T0] = [AbortedTransaction(producer_id=7, first_offset=0)]
            async with AsyncConsumer(
                cluster.bootstrap, auto_offset_reset="earliest", isolation_level=level, **FAST
            ) as consumer:
                consumer.assign([T0])
                found = [record.value for record in await read(consumer, 2)]
                found += [record.value for record in await consumer.poll(50)]
                assert await consumer.position(T0) == 5
            assert found == [b"aborted"] * (level == "read_uncommitted") + [b"plain", b"committed"]
            assert cluster.requests(ApiKey.FETCH)[0].isolation_level == (level == "read_committed")

    run(scenario())


def test_raw_batches_and_their_place(run, fake):
    async def body(cluster, consumer):
        (raw,) = await consumer.fetch_raw(1000)
        assert (raw.tp, raw.position, raw.high_watermark, raw.log_start_offset) == (T0, 0, 10, 0)
        assert bytes(raw.records) == b"".join(cluster.logs[T0])
        assert await consumer.position(T0) == 10
        assert await consumer.fetch_raw(20) == []

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_arrow_batches_equal_records(run, fake):
    pytest.importorskip("pyarrow")
    pytest.importorskip("numba")

    async def body(cluster, consumer):
        consumer.seek(T0, 4)
        (table,) = await consumer.poll_arrow(5000)
        assert table.column("offset").to_pylist() == [4, 5, 6, 7, 8, 9]
        assert table.column("value").to_pylist() == [b"4", b"5", b"6", b"7", b"8", b"9"]

    run(scenario_with(body, auto_offset_reset="earliest")(fake), seconds=50)


def test_offsets_of_times(run, fake):
    async def body(cluster, consumer):
        found = await consumer.offsets_for_times({T0: 1004})
        assert found[T0].offset == 4
        assert await consumer.offsets_for_times({T0: 10**12}) == {T0: None}
        assert await consumer.beginning_offsets([T0]) == {T0: 0}
        assert await consumer.end_offsets([("t", 0)]) == {T0: 10}
        assert await consumer.partitions_for("t") == [0]
        with pytest.raises(ClientTimeoutError, match="Topic missing not present in metadata in 50 ms"):
            await consumer.partitions_for("missing", timeout_ms=50)

    run(scenario_with(body)(fake))


def test_assignment_changes_keep_the_positions_of_what_stays(run, fake):
    async def body(cluster, consumer):
        await consumer.poll(1000, 3)
        cluster.add_topic("u", 1)
        consumer.assign([T0, ("u", 0)])
        assert consumer.assignment() == {T0, TopicPartition("u", 0)}
        assert await consumer.position(T0) == 3
        consumer.assign([])
        with pytest.raises(BarnabasError, match="No current assignment for partition t-0"):
            await consumer.position(T0)

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_the_first_poll_after_a_seek_finds_the_leader_by_itself(run, fake):
    async def body(cluster, consumer):
        consumer.seek(T0, 8)
        assert offsets(await consumer.poll(3000)) == [8, 9]

    run(scenario_with(body)(fake))


def test_what_arrives_for_a_paused_partition_waits_until_it_is_resumed(run, fake):
    async def body(cluster, consumer):
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def hold(request, node_id):
            asked.set()
            await go_on.wait()
            return await cluster._fetch(request, node_id)

        await consumer.position(T0)
        cluster.faults[ApiKey.FETCH].append(hold)
        await consumer.poll(0)
        await asked.wait()
        consumer.pause(T0)
        go_on.set()
        for _ in range(3):
            assert await consumer.poll(20) == []
        consumer.resume(T0)
        assert offsets(await read(consumer, 10)) == list(range(10))

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


def test_offsets_are_looked_up_at_a_broker_that_knows_the_oldest_version_alone(run, fake):
    async def body(cluster, consumer):
        cluster.versions[ApiKey.LIST_OFFSETS] = (1, 1)
        assert await consumer.beginning_offsets([T0]) == {T0: 0}
        assert await consumer.end_offsets([T0]) == {T0: 10}
        assert (await consumer.offsets_for_times({T0: 1004}))[T0].offset == 4

    run(scenario_with(body)(fake))


def test_offsets_are_looked_up_at_a_leader_that_moved(run, fake):
    async def body(cluster, consumer):
        assert await consumer.end_offsets([T0]) == {T0: 10}
        cluster.leaders["t", 0] = 2
        cluster.epochs["t", 0] += 1
        assert await consumer.end_offsets([T0]) == {T0: 10}
        cluster._leader_error = lambda tp, node_id: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        asked = len(cluster.requests(ApiKey.LIST_OFFSETS))
        with pytest.raises(KafkaError) as refused:
            await consumer.end_offsets([T0])
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(cluster.requests(ApiKey.LIST_OFFSETS)) == asked + 1

    run(scenario_with(body, nodes=2)(fake))


def test_a_seek_wins_over_what_is_committed(run, fake):
    async def scenario():
        async with fake() as cluster:
            group = serve_group(cluster)
            filled(cluster)
            group.offsets["t", 0] = (2, "", 0)
            asked, go_on = asyncio.Event(), asyncio.Event()

            async def hold(request, node_id):
                asked.set()
                await go_on.wait()
                return await cluster._handle(ApiKey.OFFSET_FETCH, request, node_id)

            cluster.faults[ApiKey.OFFSET_FETCH].append(hold)
            options = {**FAST, "group_id": "g", "enable_auto_commit": False}
            async with AsyncConsumer(cluster.bootstrap, **options) as consumer:
                consumer.assign([T0])
                reading = asyncio.ensure_future(read(consumer, 1))
                await asked.wait()
                consumer.seek(T0, 7)
                go_on.set()
                assert offsets(await reading)[0] == 7
                consumer.assign([])
                consumer.assign([T0])
                assert offsets(await read(consumer, 1))[0] == 2

    run(scenario())


def test_an_answer_from_where_the_consumer_is_no_longer_moves_nothing(run, fake):
    async def body(cluster, consumer):
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def hold(request, node_id):
            asked.set()
            await go_on.wait()
            return await cluster._fetch(request, node_id)

        cluster.faults[ApiKey.FETCH].append(hold)
        consumer.seek(T0, 999)  # out of range
        reading = asyncio.ensure_future(read(consumer, 2))
        await asked.wait()
        consumer.seek(T0, 5)
        go_on.set()
        assert offsets(await reading)[:2] == [5, 6]

    run(scenario_with(body, auto_offset_reset="earliest")(fake))


# --- replicas that are nearer than the leader (KIP-392)


def near(body, **options):
    """Broker 1 leads t-0; `cluster.fetched_from` says whom the consumer asked, and broker 2 serves too."""

    async def with_follower(cluster, consumer):
        cluster.fetched_from = []
        cluster.follower_error = ErrorCode.NONE
        fetch = cluster._fetch

        async def serve(request, node_id):
            cluster.fetched_from.append((node_id, request.rack_id))
            if node_id == 1:
                response = await fetch(request, 1)
                for one in response.responses[0].partitions:
                    if one.error_code == 0:
                        one.preferred_read_replica, one.records = 2, b""
                return response
            response = await fetch(request, 1)
            if cluster.follower_error:
                for one in response.responses[0].partitions:
                    one.error_code, one.records = cluster.follower_error, b""
            return response

        cluster._fetch = serve
        await body(cluster, consumer)

    return scenario_with(with_follower, nodes=2, auto_offset_reset="earliest", client_rack="near", **options)


def test_a_consumer_reads_from_the_replica_that_the_leader_names(run, fake):
    async def body(cluster, consumer):
        assert offsets(await read(consumer, 10)) == list(range(10))
        assert cluster.fetched_from[0] == (1, "near")
        assert {node for node, _ in cluster.fetched_from[1:]} == {2}

    run(near(body)(fake))


def test_the_leader_is_asked_again_after_the_age_of_metadata(run, fake):
    async def body(cluster, consumer):
        await read(consumer, 10)
        await consumer.poll(300)
        assert [node for node, _ in cluster.fetched_from].count(1) > 1

    run(near(body, metadata_max_age_ms=50)(fake))


@pytest.mark.parametrize(
    "error", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE]
)
def test_a_consumer_goes_back_to_the_leader_when_the_replica_refuses(run, fake, error):
    async def body(cluster, consumer):
        cluster.follower_error = error
        async with asyncio.timeout(20):
            while [node for node, _ in cluster.fetched_from].count(1) < 2:
                await consumer.poll(20)
        cluster.follower_error = ErrorCode.NONE
        assert offsets(await read(consumer, 10)) == list(range(10)), "and nothing was reset"

    run(near(body)(fake))


def test_a_consumer_goes_back_to_the_leader_when_the_replica_hangs_up(run, fake):
    async def body(cluster, consumer):
        cluster.faults[ApiKey.FETCH] += [None, hangup]
        assert offsets(await read(consumer, 10)) == list(range(10))
        nodes = [node for node, _ in cluster.fetched_from]
        assert nodes[:2] == [1, 1]

    run(near(body)(fake))


def test_forbidden_topics_are_an_error_of_poll(run, fake):
    async def body(cluster, consumer):
        consumer.seek(T0, 0)
        cluster._leader_error = lambda tp, node_id: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(KafkaError) as caught:
            await read(consumer, 1)
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario_with(body)(fake))


def test_closed_is_closed(run, fake):
    async def body(cluster, consumer):
        await consumer.close()
        with pytest.raises(ClientClosedError):
            await consumer.poll(1)

    run(scenario_with(body)(fake))
