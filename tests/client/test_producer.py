"""The producer against a cluster that fails in every way a cluster fails."""

import asyncio
import socket
import time
from types import SimpleNamespace

import pytest

from barnabas.client import (
    AsyncProducer,
    ClientClosedError,
    ClientTimeoutError,
    DeliveryError,
    InvalidRecordError,
    RecordTooLargeError,
)
from barnabas.core.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import ProduceResponse
from barnabas.records.batch import parse_header
from barnabas.records.record import encode_record
from fake_cluster import hangup, produce_error

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}


def values(cluster, topic="t", partition=0):
    return [record.value for record in cluster.records(topic, partition)]


def sequences_are_unbroken(cluster):
    """Whether each batch of t-0 follows the one before it:
    a producer that had to number again would not show.
    """
    headers = [parse_header(batch) for batch in cluster.logs["t", 0]]
    expected = 0
    for header in headers:
        if (header.producer_epoch, header.base_sequence) != (0, expected):
            return False
        expected += header.count
    return bool(headers)


async def sent(delivery):
    """Until its batch was sent once."""
    for _ in range(1000):
        await asyncio.sleep(0.001)
        if "attempts=1" in repr(delivery):
            return


def test_a_record_is_stored_with_key_headers_and_time(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            stored = await producer.send_and_wait(
                "t", "värde", key=b"k", timestamp_ms=123, headers=[("h", b"1"), ("n", None)]
            )

            assert tuple(stored) == ("t", 0, 0, 123)
            (record,) = cluster.records("t")
            assert (record.key, record.value, record.timestamp) == (b"k", "värde".encode(), 123)
            assert list(record.headers) == [("h", b"1"), ("n", None)]

    run(scenario())


def test_encoded_records_go_the_way_of_all_others(run, fake):
    """Through a lost connection, in order, once; and a record behind them joins their batch."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, linger_ms=20, **FAST) as producer:
            assert producer.try_send_section("t", 0, b"", 0) is None  # the topic is not known yet
            await producer.partitions_for("t")
            cluster.faults[ApiKey.PRODUCE].append(hangup)
            sections = [
                b"".join(encode_record(n, 0, None, b"%d" % (base + n), ()) for n in range(3))
                for base in (0, 3)
            ]
            deliveries = [producer.try_send_section("t", 0, section, 3) for section in sections]
            single = await producer.send("t", b"6", partition=0)
            await producer.flush()

            assert values(cluster) == [b"%d" % number for number in range(7)]
            assert [(await one).offset for one in (*deliveries, single)] == [2, 5, 6]
            assert sequences_are_unbroken(cluster)

    run(scenario())


def test_topics_go_by_id_to_the_one_that_has_it_now(run, fake):
    """A topic that was made anew under its name gets what is sent after the metadata says so."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await (await producer.send("t", b"1"))
            cluster.ids["t"] = b"made anew".ljust(16, b".")
            await (await producer.send("t", b"2"))

            [first, refused, *again] = cluster.requests(ApiKey.PRODUCE)
            assert {topic.name for request in (first, refused, *again) for topic in request.topic_data} == {
                ""
            }
            assert refused.topic_data[0].topic_id == first.topic_data[0].topic_id
            assert again[-1].topic_data[0].topic_id == cluster.ids["t"]
            assert values(cluster) == [b"1", b"2"]

    run(scenario())


def test_an_answer_counts_for_the_topic_that_was_asked_though_it_has_another_id_by_now(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:

            def made_anew_meanwhile(request, node_id):
                answer = cluster._produce(request, node_id)
                cluster.ids["t"] = b"made anew".ljust(16, b".")
                of_t = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
                producer._cluster.update(cluster._metadata(of_t, node_id), complete=False)
                return answer

            await producer.partitions_for("t")
            cluster.faults[ApiKey.PRODUCE].append(made_anew_meanwhile)
            assert (await (await producer.send("t", b"1"))).offset == 0
            assert len(cluster.requests(ApiKey.PRODUCE)) == 1

    run(scenario())


def test_topics_without_an_id_go_by_name(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.ids["t"] = bytes(16)
            await (await producer.send("t", b"1"))

            [request] = cluster.requests(ApiKey.PRODUCE)
            assert [topic.name for topic in request.topic_data] == ["t"]

    run(scenario())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_filled_and_compressed(run, fake, codec):
    async def scenario():
        async with fake() as cluster:
            async with AsyncProducer(
                cluster.bootstrap, linger_ms=50, batch_size=4000, compression_type=codec
            ) as producer:
                deliveries = [await producer.send("t", b"x" * 100) for _ in range(200)]
            assert [(await one).offset for one in deliveries] == list(range(200))
            assert values(cluster) == [b"x" * 100] * 200
            assert len(cluster.logs["t", 0]) < 10
            assert sequences_are_unbroken(cluster)
            assert all(parse_header(batch).codec.name.lower() == codec for batch in cluster.logs["t", 0])

    run(scenario())


def test_a_lost_connection_neither_loses_nor_doubles_nor_reorders(run, fake):
    async def scenario():
        async with fake() as cluster:

            def stored_but_unanswered(request, node_id):
                cluster._produce(request, node_id)
                raise ConnectionError

            cluster.faults[ApiKey.PRODUCE].extend(
                [stored_but_unanswered, hangup, None, stored_but_unanswered]
            )
            async with AsyncProducer(cluster.bootstrap, batch_size=300, **FAST) as producer:
                for number in range(50):
                    await producer.send("t", str(number))
            assert values(cluster) == [str(number).encode() for number in range(50)]
            assert sequences_are_unbroken(cluster)

    run(scenario())


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
)
def test_retriable_codes_are_retried_in_order(run, fake, code):
    async def scenario():
        async with fake() as cluster:
            cluster.faults[ApiKey.PRODUCE].extend([produce_error(code), None, produce_error(code)])
            async with AsyncProducer(cluster.bootstrap, batch_size=200, **FAST) as producer:
                for number in range(30):
                    await producer.send("t", str(number))
            assert values(cluster) == [str(number).encode() for number in range(30)]
            assert sequences_are_unbroken(cluster)

    run(scenario())


def test_a_moved_leader_is_found(run, fake):
    async def scenario():
        async with fake(2) as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.add_topic("t", 1)
            await producer.send_and_wait("t", "before")
            cluster.leaders["t", 0] = 2
            cluster.epochs["t", 0] += 1
            stored = await producer.send_and_wait("t", "after")

            assert stored.offset == 1
            assert values(cluster) == [b"before", b"after"]

    run(scenario())


def test_nothing_overtakes_a_batch_whose_answer_an_earlier_leader_owes(run, fake):
    """The next leader had it, and took so many newer ones that it did not recognise it:
    it was stored twice.
    """

    async def scenario():
        async with (
            fake(2) as cluster,
            AsyncProducer(cluster.bootstrap, batch_size=1, **FAST) as producer,
        ):
            cluster.add_topic("t", 1)
            cluster.add_topic("other", 2)
            cluster.add_topic("new", 2)
            await producer.send_and_wait("other", "x", partition=1)
            stored, go_on = asyncio.Event(), asyncio.Event()

            async def store_and_end(request, node_id):
                cluster._produce(request, node_id)
                stored.set()
                await go_on.wait()
                raise ConnectionError

            cluster.faults[ApiKey.PRODUCE].append(store_and_end)
            deliveries = [await producer.send("t", "0")]
            await stored.wait()
            cluster.leaders["t", 0] = 2
            cluster.epochs["t", 0] += 1
            # A new topic: metadata is asked for, of the broker that owes nothing.
            await producer.send_and_wait("new", "x", partition=1)
            deliveries += [await producer.send("t", str(number)) for number in range(1, 10)]
            for _ in range(10):  # whatever goes to this broker before has its answer before
                await producer.send_and_wait("new", "x", partition=1)
            go_on.set()
            async with asyncio.timeout(15):
                assert [(await one).offset for one in deliveries] == list(range(10))

            assert values(cluster) == [b"%d" % number for number in range(10)]
            assert sequences_are_unbroken(cluster)

    run(scenario())


def test_a_refused_batch_fails_alone_and_the_next_goes_under_a_new_epoch(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await producer.send_and_wait("t", "first")
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.MESSAGE_TOO_LARGE, "too big"))
            with pytest.raises(DeliveryError, match=r"too big \(producing to t-0\)") as caught:
                await producer.send_and_wait("t", "refused")
            assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await producer.send_and_wait("t", "last")

            assert values(cluster) == [b"first", b"last"]
            epochs = [parse_header(batch).producer_epoch for batch in cluster.logs["t", 0]]
            assert epochs == [0, 1]

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        # Refused for itself, and refused because the broker does not have (or does not yet know of) what came
        # before.
        (ErrorCode.MESSAGE_TOO_LARGE, [b"older"]),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, [b"older", b"later"]),
        (ErrorCode.UNKNOWN_PRODUCER_ID, [b"older", b"later"]),
    ],
)
def test_an_older_batch_of_unknown_outcome_is_never_renumbered(run, fake, answer, kept):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await producer.send_and_wait("t", "warm")
            stored, go_on = asyncio.Event(), asyncio.Event()

            async def store_and_say_that_time_was_over(request, node_id):
                cluster._produce(request, node_id)
                stored.set()
                await go_on.wait()
                return produce_error(ErrorCode.REQUEST_TIMED_OUT)(request, node_id)

            cluster.faults[ApiKey.PRODUCE].extend([store_and_say_that_time_was_over, produce_error(answer)])
            older = await producer.send("t", "older")
            await stored.wait()
            later = await producer.send("t", "later")
            outcomes = asyncio.gather(older, later, return_exceptions=True)
            await sent(later)
            go_on.set()
            before, after = await outcomes
            assert before.offset == 1
            assert getattr(after, "offset", None) == (2 if len(kept) == 2 else None)
            assert getattr(after, "code", answer) is answer
            await producer.send_and_wait("t", "last")
            assert values(cluster) == [b"warm", *kept, b"last"]

    run(scenario())


def test_a_broker_that_forgot_the_sequence_gets_a_new_epoch(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await producer.send_and_wait("t", "one")
            cluster.producers.clear()
            await producer.send_and_wait("t", "two")
            assert values(cluster) == [b"one", b"two"]

    run(scenario())


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_the_first_batch_of_all_may_meet_a_broker_that_knows_another_sequence(run, fake, code):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(code))
            stored = await producer.send_and_wait("t", "one")
            assert (stored.offset, values(cluster)) == (0, [b"one"])

    run(scenario())


def test_a_broker_has_no_more_requests_than_may_be_in_flight(run, fake, monkeypatch):
    # An answer lets the next request go: without it nothing would for 30 seconds.
    monkeypatch.setattr("barnabas.client.sender._EXPIRY_S", 30.0)

    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, max_in_flight_requests_per_connection=2, **FAST) as producer,
        ):
            cluster.add_topic("t", 5)
            await producer.send_and_wait("t", "warm", partition=0)
            go_on = asyncio.Event()

            async def hold(request, node_id):
                await go_on.wait()
                return cluster._produce(request, node_id)

            cluster.faults[ApiKey.PRODUCE].append(hold)
            deliveries = []
            for number in range(5):
                deliveries.append(await producer.send("t", "x", partition=number))
                for _ in range(10):  # each goes in a request of its own, while there may be one
                    await asyncio.sleep(0)
            assert ["attempts=1" in repr(one) for one in deliveries] == [True, True, False, False, False]
            go_on.set()
            async with asyncio.timeout(15):
                assert [(await one).partition for one in deliveries] == list(range(5))

    run(scenario())


def test_batches_do_not_wait_side_by_side_for_a_connection(run, fake):
    """Each would have its own time-out: a newer batch would go first when an older one's had just passed."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            await producer.send_and_wait("t", "warm")
            held, go_on = asyncio.Event(), asyncio.Event()

            async def hold(request, node_id):
                held.set()
                await go_on.wait()
                return cluster._api_versions(request, node_id)

            cluster.faults[ApiKey.API_VERSIONS].append(hold)
            # The client asks for metadata at once, and that waits for the new connection.
            cluster.drop_connections()
            await held.wait()
            deliveries = []
            for number in range(3):
                deliveries.append(await producer.send("t", str(number)))
                for _ in range(10):
                    await asyncio.sleep(0)
            assert sum("attempts=0" in repr(one) for one in deliveries) >= 2
            go_on.set()
            async with asyncio.timeout(15):
                assert [(await one).offset for one in deliveries] == [1, 2, 3]

    run(scenario())


def test_no_request_is_larger_than_max_request_size(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(cluster.bootstrap, linger_ms=10_000, max_request_size=1000, **FAST) as producer,
        ):
            cluster.add_topic("t", 10)
            for number in range(10):
                await producer.send("t", b"x" * 300, partition=number)
            await producer.flush()
            sizes = [
                sum(len(one.records) for topic in request.topic_data for one in topic.partition_data)
                for request in cluster.requests(ApiKey.PRODUCE)
            ]
            assert sum(sizes) > 3000
            assert max(sizes) <= 1000
            assert len(sizes) == 5, "two fit"

    run(scenario())


def test_a_record_that_finds_no_leader_ends_with_its_time(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, delivery_timeout_ms=200, metadata_max_age_ms=20, **FAST
            ) as producer,
        ):
            cluster.add_topic("t", 2)
            await producer.send_and_wait("t", "warm", partition=0)
            cluster.leaders["t", 0] = -1
            cluster.epochs["t", 0] += 1
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            with pytest.raises(ClientTimeoutError, match=r"delivery.timeout.ms \(200\) has passed"):
                await producer.send_and_wait("t", "sent once", partition=0)
            with pytest.raises(ClientTimeoutError, match=r"delivery.timeout.ms \(200\) has passed"):
                await producer.send_and_wait("t", "never sent", partition=0)

    run(scenario())


@pytest.mark.parametrize("acks", ["all", 0])
def test_records_wait_for_a_leader_that_comes_back_elsewhere(run, fake, acks):
    async def scenario():
        async with fake(2) as cluster, AsyncProducer(cluster.bootstrap, acks=acks, **FAST) as producer:
            cluster.add_topic("t", 2)
            with socket.socket() as nobody:
                nobody.bind(("127.0.0.1", 0))
                cluster.ports[2], port = nobody.getsockname()[1], cluster.ports[2]
                delivery = await producer.send("t", "x", partition=1)
                await sent(delivery)
                for _ in range(100):
                    await asyncio.sleep(0)
                assert not delivery.done(), "nobody listens there"
                cluster.ports[2] = port
                await delivery
            for _ in range(10_000):  # the answer to acks=0 comes before the record
                await asyncio.sleep(0)
                if values(cluster, partition=1):
                    break
            assert values(cluster, partition=1) == [b"x"]

    run(scenario())


def test_what_fails_when_its_time_is_over_is_not_sent_again(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, linger_ms=0, delivery_timeout_ms=200, request_timeout_ms=200, **FAST
            ) as producer,
        ):
            await producer.send_and_wait("t", "warm")
            cluster.faults[ApiKey.PRODUCE].append(lambda request, node_id: None)
            with pytest.raises(ClientTimeoutError, match=r"has passed since .*; the last failure: "):
                await producer.send_and_wait("t", "unanswered")
            assert len(cluster.requests(ApiKey.PRODUCE)) == 2

    run(scenario())


def test_a_duplicate_counts_as_stored(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
            assert (await producer.send_and_wait("t", "x")).offset == -1

    run(scenario())


def test_delivery_ends_with_its_time(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, delivery_timeout_ms=200, request_timeout_ms=100, **FAST
            ) as producer,
        ):
            await producer.send_and_wait("t", "warm")
            cluster.faults[ApiKey.PRODUCE].extend([produce_error(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000)
            with pytest.raises(ClientTimeoutError, match=r"delivery.timeout.ms \(200\) has passed"):
                await producer.send_and_wait("t", "late")
            cluster.faults[ApiKey.PRODUCE].clear()

    run(scenario())


def test_flush_raises_what_was_not_looked_at_and_nothing_twice(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            await producer.send("t", "x")
            with pytest.raises(
                DeliveryError, check=lambda error: error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            ):
                await producer.flush()
            await producer.flush()

    run(scenario())


def test_what_a_caller_has_seen_by_the_time_of_the_close_is_not_raised_again(run, fake):
    """It was waited for after it had failed, as by one who waits for one record after another."""

    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap) as producer:
            cluster.faults[ApiKey.PRODUCE].append(produce_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            failed = await producer.send("t", "x")
            while not failed.done():  # noqa: ASYNC110 - a callback would count as a look at it
                await asyncio.sleep(0)
            with pytest.raises(DeliveryError):
                await failed

    run(scenario())


def test_acks_0_wants_no_answer_and_acks_1_is_not_idempotent(run, fake):
    async def scenario():
        async with fake() as cluster:
            for acks in (0, 1):
                async with AsyncProducer(cluster.bootstrap, acks=acks) as producer:
                    assert (await producer.send_and_wait("t", str(acks))).offset == (-1 if acks == 0 else 1)
                    await asyncio.sleep(0.02)
            assert cluster.requests(ApiKey.INIT_PRODUCER_ID) == []
            assert values(cluster) == [b"0", b"1"]

    run(scenario())


def test_records_without_a_key_stick_and_keys_stay_together(run, fake):
    async def scenario():
        async with fake(2) as cluster:
            cluster.add_topic("t", 6)
            async with AsyncProducer(cluster.bootstrap, batch_size=1000) as producer:
                keyed = {
                    (await producer.send_and_wait("t", "v", key=f"k{number % 5}")).partition
                    for number in range(50)
                }
                first = [(await producer.send_and_wait("t", "v")).partition for _ in range(5)]
                explicit = await producer.send_and_wait("t", "v", partition=5)
            assert len(keyed) <= 5
            assert len(set(first)) == 1
            assert explicit.partition == 5

    run(scenario())


def test_a_full_buffer_pushes_back(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, buffer_memory=2000, batch_size=500, max_block_ms=1500, **FAST
            ) as producer,
        ):
            for _ in range(100):
                await producer.send("t", b"x" * 100)
            cluster.faults[ApiKey.PRODUCE].extend([lambda request, node: None] * 50)

            async def send_many():
                for _ in range(100):
                    await producer.send("t", b"x" * 100)

            with pytest.raises(ClientTimeoutError, match="No room in the buffer of 2000 bytes"):
                await send_many()
            await producer.abort()

    run(scenario())


def test_a_full_buffer_does_not_linger(run, fake):
    async def scenario():
        async with (
            fake() as cluster,
            AsyncProducer(
                cluster.bootstrap, buffer_memory=2000, linger_ms=100_000, max_block_ms=10_000, **FAST
            ) as producer,
        ):
            cluster.add_topic("t", 10)
            for number in range(30):
                await producer.send("t", b"x" * 300, partition=number % 10)

    run(scenario())


def test_misuse_is_named(run, fake):
    async def scenario():
        async with fake() as cluster:
            producer = AsyncProducer(cluster.bootstrap, max_request_size=1000)
            async with producer:
                with pytest.raises(
                    RecordTooLargeError, match=r"1\d\d\d bytes is larger than max.request.size"
                ):
                    await producer.send("t", b"x" * 1100)
                with pytest.raises(TypeError, match="value must be bytes, str or None, not int"):
                    await producer.send("t", 5)
                with pytest.raises(BarnabasError, match="Invalid partition 9 for topic t"):
                    await producer.send("t", b"x", partition=9)
            with pytest.raises(ClientClosedError):
                await producer.send("t", b"x")

    run(scenario())


def test_no_broker_there_is_one_clear_error(run):
    async def scenario():
        with pytest.raises(ClientTimeoutError, match=r"No broker of 127.0.0.1:1 answered in 100 ms"):
            async with AsyncProducer("127.0.0.1:1", max_block_ms=100, **FAST):
                pass

    run(scenario())


def test_an_answer_that_leaves_out_a_partition_is_no_answer(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.faults[ApiKey.PRODUCE].append(lambda request, node: ProduceResponse(responses=[]))
            await producer.send_and_wait("t", "x")
            assert values(cluster) == [b"x"]

    run(scenario())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"acks": "some"}, "Invalid value some for configuration acks"),
        ({"acks": 1, "enable_idempotence": True}, "Must set acks to all"),
        (
            {"max_in_flight_requests_per_connection": 6, "enable_idempotence": True},
            "Must set max.in.flight.requests.per.connection",
        ),
        ({"liger_ms": 5}, "Unknown configuration liger.ms; did you mean linger.ms?"),
        ({"compression_type": "rar"}, "Invalid value rar for configuration compression.type"),
        ({"bootstrap_servers": "nowhere"}, "Invalid value nowhere for configuration bootstrap.servers"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ConfigError) as caught:
        AsyncProducer(**{"bootstrap_servers": "127.0.0.1:9092", **options})
    assert message in str(caught.value)


def records_a_batch(cluster):
    """How many records each batch had that was sent, in the order of the requests."""
    return [
        parse_header(partition.records).count
        for request in cluster.requests(ApiKey.PRODUCE)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]


@pytest.mark.parametrize(
    ("step_s", "options", "batches"),
    [
        # What comes within a millisecond goes together, although nothing lingers.
        (0.0, {}, [100]),
        # A batch that waits for a millisecond gets its turn.
        (0.0004, {}, [4]),
        # So does a batch that is full: of ten records of 100 bytes and what surrounds them.
        (0.0, {"batch_size": 1200}, [10]),
    ],
)
def test_records_that_come_while_the_loop_wakes_share_a_batch(
    run, fake, monkeypatch, step_s, options, batches
):
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now, time_ns=time.time_ns)
    monkeypatch.setattr("barnabas.client.producer.time", clock)

    async def scenario():
        nonlocal now
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST, **options) as producer:
            await producer.send_and_wait("t", b"first")
            for _ in range(100):
                await producer.send("t", b"x" * 100)
                now += step_s
            await producer.flush()
            return records_a_batch(cluster)[1:]

    # Further batches wait for the answers to the first ones.
    assert run(scenario())[: len(batches)] == batches


def test_a_topic_that_was_made_again_has_the_partitions_that_it_has_now(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.add_topic("t", 6)
            await producer.send("t", b"x", partition=5)
            await producer.flush()
            await made_again(cluster, producer, partitions=2)

            keys = [b"%d" % number for number in range(50)]
            for key in keys:
                await producer.send("t", b"x", key=key)
            await producer.flush()
            assert len(values(cluster) + values(cluster, partition=1)) == len(keys)
            with pytest.raises(InvalidRecordError, match="partitions 0 to 1"):
                await producer.send("t", b"x", partition=5)

    run(scenario())


async def made_again(cluster, producer, partitions):
    """The topic is deleted and made again, and the producer knows."""
    cluster.leaders.clear()
    cluster.logs.clear()
    cluster.producers.clear()
    cluster.ids["t"] = b"made again".ljust(16, b".")
    cluster.add_topic("t", partitions)
    await producer._cluster.refresh()


def test_an_answer_that_lags_behind_takes_no_partitions_away(run, fake):
    async def scenario():
        async with fake() as cluster, AsyncProducer(cluster.bootstrap, **FAST) as producer:
            cluster.add_topic("t", 2)
            await producer.send("t", b"x", partition=1)
            cluster.topics["t"] = 1
            await producer._cluster.refresh()
            cluster.topics["t"] = 2
            await producer.send("t", b"x", partition=1)
            await producer.flush()
            assert values(cluster, partition=1) == [b"x", b"x"]

    run(scenario())
