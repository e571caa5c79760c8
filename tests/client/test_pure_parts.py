"""The parts without a network: hashing, batches, queues, sessions, decoding."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.admin import Admin, AsyncAdmin
from barnabas.client import AsyncConsumer, AsyncProducer, Consumer, Producer
from barnabas.client.accumulator import RecordAccumulator
from barnabas.client.batch_builder import BatchBuilder
from barnabas.client.completed_fetch import CompletedFetch
from barnabas.client.config import CONSUMER_CONFIG, bootstrap_addresses, client_config
from barnabas.client.errors import RecordTooLargeError
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.partition_queue import NO_IDENTITY, PartitionQueue, ProducerIdentity
from barnabas.client.partitioner import StickyPartitioner, key_hash, murmur2
from barnabas.client.producer_batch import ProducerBatch
from barnabas.client.record_decoder import decode_consumer_records
from barnabas.core.errors import ConfigError, ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.protocol.fetch_session import FetchSessionHandler, FetchTarget
from barnabas.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.records.batch import (
    HEADER_SIZE,
    SEQUENCE_MAX,
    build_batch,
    decode_batch,
    has_valid_crc,
    parse_header,
)
from barnabas.records.compression import Codec
from barnabas.records.record import Record

TP = TopicPartition("t", 0)
IDENTITY = ProducerIdentity(9, 0)

small_bytes = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), small_bytes), max_size=3)
records = st.lists(
    st.tuples(st.integers(0, 2**45), small_bytes, small_bytes, headers), min_size=1, max_size=30
)


@pytest.mark.parametrize(
    ("text", "hash_value"),
    [  # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_java(text, hash_value):
    assert murmur2(text) == hash_value
    assert key_hash(text) == hash_value & 0x7FFFFFFF


def test_the_sticky_partition_changes_after_a_batch_of_bytes():
    sticky = StickyPartitioner(1000, source=random.Random(1))
    chosen = []
    for number in range(40):
        chosen.append(sticky.choose(range(50)))
        sticky.produced(100, batch_is_full=number % 10 == 9)

    assert all(len(set(chosen[start : start + 10])) == 1 for start in range(0, 40, 10))
    assert len(set(chosen)) > 1
    assert sticky.choose([3]) == 3
    assert sticky.choose([5]) == 5, "the other one has lost its leader"


def test_a_sticky_partition_is_left_at_the_end_of_a_batch_or_after_two():
    sticky = StickyPartitioner(1000, source=random.Random(1))
    first = sticky.choose(range(50))
    sticky.produced(1500, batch_is_full=False)
    assert sticky.choose(range(50)) == first, "a batch would be left half empty"
    sticky.produced(500, batch_is_full=False)
    assert sticky.partition < 0


def drawn(loads, count=4000):
    """How often each partition is chosen where this much waits for each of them."""
    sticky = StickyPartitioner(1, lambda numbers: [loads[one] for one in numbers], random.Random(1))
    found = dict.fromkeys(range(len(loads)), 0)
    for _ in range(count):
        found[sticky.choose(range(len(loads)))] += 1
        sticky.produced(2, batch_is_full=True)
    return found


def test_the_more_waits_for_a_partition_the_less_it_gets():
    """KIP-794: the weights of queues of 0, 3 and 1 batches are 4, 1 and 3."""
    found = drawn([0, 3, 1])
    assert [round(8 * count / 4000) for count in found.values()] == [4, 1, 3]


def test_a_partition_whose_broker_takes_nothing_is_left_out_unless_none_takes_any():
    assert drawn([0, None, 0])[1] == 0
    assert min(drawn([None, None]).values()) > 0


def test_the_choice_among_many_partitions_looks_at_a_sample():
    asked = []

    def loads(numbers):
        asked.append(len(numbers))
        return [0] * len(numbers)

    StickyPartitioner(1, loads, random.Random(1)).choose(range(10_000))
    assert asked == [64]


@given(records, st.sampled_from(list(Codec)))
def test_a_built_batch_is_one_that_decodes_to_its_records(given_records, codec):
    builder = BatchBuilder(codec)
    for timestamp, key, value, pairs in given_records:
        assert builder.append(timestamp, key, value, pairs, 10**9)
    data = builder.encode(7, 3, 11)
    header = parse_header(data)

    assert has_valid_crc(data, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.max_timestamp == max(one[0] for one in given_records)
    found = [(one.timestamp, one.key, one.value, list(one.headers)) for one in decode_batch(data)]
    assert found == [tuple(one) for one in given_records]
    assert builder.encode(7, 4, 0)[61:] == data[61:]


def decoded(batch, header, start, *, check_crc):
    runs = decode_consumer_records(batch, header, TP, start, check_crc=check_crc)
    return [record for run, _ in runs for record in run]


@given(records, st.sampled_from([Codec.NONE, Codec.LZ4]), st.integers(0, 40))
def test_the_quick_decoder_agrees_with_the_careful_one(given_records, codec, start):
    batch = build_batch(
        [Record(index, *one) for index, one in enumerate(given_records)], codec=codec, leader_epoch=5
    )
    found = decoded(batch, parse_header(batch), start, check_crc=True)

    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers), r.leader_epoch) for r in found] == [
        (r.offset, r.timestamp, r.key, r.value, list(r.headers), 5)
        for r in decode_batch(batch)
        if r.offset >= start
    ]


@given(st.data())
def test_a_damaged_section_is_refused_whatever_byte_is_wrong(data):
    batch = bytearray(build_batch([Record(i, 1000, b"key", b"v" * 70, ()) for i in range(5)]))
    place = data.draw(st.integers(61, len(batch) - 1))
    batch[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != batch[place]))
    header = parse_header(batch)

    with pytest.raises(
        KafkaError, match="checksum", check=lambda error: error.code is ErrorCode.CORRUPT_MESSAGE
    ):
        decoded(batch, header, 0, check_crc=True)
    codes = set()
    try:
        decoded(batch, header, 0, check_crc=False)
    except KafkaError as error:  # nothing else may come out of it
        codes.add(error.code)
    assert codes <= {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


def test_a_batch_refuses_what_would_make_it_too_large_but_for_its_first_record():
    builder = BatchBuilder()
    assert builder.append(0, None, b"x" * 500, (), 100)
    assert not builder.append(0, None, b"x", (), 100)
    assert (builder.count, decode_batch(builder.encode(-1, -1, -1))[0].value) == (1, b"x" * 500)


def queue_with(count):
    queue = PartitionQueue(TP)
    for _ in range(count):
        batch = ProducerBatch(TP, Codec.NONE, 0.0)
        batch.builder.append(0, None, b"x", (), 100)
        queue.add(batch)
    return queue


def test_a_retry_keeps_place_and_sequence_and_waits_until_nothing_is_in_flight():
    queue = queue_with(3)
    first, second = queue.take(IDENTITY), queue.take(IDENTITY)
    assert not queue.is_first_unacknowledged(second)
    assert queue.is_first_unacknowledged(first)
    queue.retry(first, retry_at=5.0)

    assert queue.due_at(0.0, 1) is None
    assert not queue.is_first_unacknowledged(second)
    queue.retry(second, retry_at=3.0)
    assert [batch.number for batch in queue.waiting] == [0, 1, 2]
    assert queue.due_at(0.0, 1) == 5.0
    assert queue.take(IDENTITY) is first
    assert [first.base_sequence, second.base_sequence] == [0, 1]
    assert queue.due_at(0.0, 1) is None
    queue.finished(first)
    assert queue.due_at(0.0, 1) == 3.0


def test_giving_up_takes_a_new_epoch_once_all_that_was_sent_has_its_outcome():
    queue = queue_with(4)
    first, second = queue.take(IDENTITY), queue.take(IDENTITY)
    queue.give_up(first)
    assert queue.due_at(0.0, 1) is None
    queue.retry(second, retry_at=0.0)
    assert queue.take(IDENTITY) is second
    assert (second.base_sequence, queue.identity) == (1, IDENTITY), "the broker may have it"
    queue.finished(second)
    third = queue.take(IDENTITY)
    assert (third.base_sequence, queue.identity) == (0, ProducerIdentity(9, 1))
    assert queue.take(IDENTITY).base_sequence == 1


def test_a_broker_that_lost_what_came_before_gets_all_that_wait_under_a_new_epoch():
    queue = queue_with(4)
    first, second = queue.take(IDENTITY), queue.take(IDENTITY)
    queue.give_up(first)
    queue.restart()
    assert queue.due_at(0.0, 1) is None
    queue.retry(second, retry_at=0.0)
    assert queue.take(IDENTITY) is second
    assert (second.base_sequence, queue.identity) == (0, ProducerIdentity(9, 1))
    assert queue.take(IDENTITY).base_sequence == 1


def test_giving_up_a_later_batch_leaves_an_older_one_of_unknown_outcome_its_sequence():
    queue = queue_with(4)
    first, second = queue.take(IDENTITY), queue.take(IDENTITY)
    queue.retry(first, retry_at=0.0)  # the broker may have it
    queue.give_up(second)
    assert queue.take(IDENTITY) is first
    assert (first.base_sequence, queue.identity) == (0, IDENTITY)
    assert queue.due_at(0.0, 1) is None, "what comes next gets a new epoch, and waits for that"
    queue.finished(first)
    third = queue.take(IDENTITY)
    assert (third.number, third.base_sequence, queue.identity) == (2, 0, ProducerIdentity(9, 1))
    assert queue.take(IDENTITY).base_sequence == 1


def test_an_older_batch_that_fails_behind_a_later_one_restarts_once():
    queue = queue_with(3)
    first, second = queue.take(IDENTITY), queue.take(IDENTITY)
    queue.retry(first, retry_at=0.0)
    queue.give_up(second)
    queue.take(IDENTITY)
    queue.give_up(first)
    third = queue.take(IDENTITY)
    assert (third.base_sequence, queue.identity) == (0, ProducerIdentity(9, 1))


def test_sequences_wrap_and_are_left_out_without_an_identity():
    queue = queue_with(3)
    queue._next_sequence = SEQUENCE_MAX
    assert [queue.take(IDENTITY).base_sequence for _ in range(3)] == [SEQUENCE_MAX, 0, 1]
    assert queue_with(1).take(NO_IDENTITY).base_sequence == -1


def accumulator(**options):
    woken = []
    made = RecordAccumulator(
        **{
            "batch_bytes": 500,
            "buffer_bytes": 10_000,
            "request_bytes_max": 5_000,
            "codec": Codec.NONE,
            "monotonic": lambda: 100.0,
            "on_work": lambda _full: woken.append(1),
            **options,
        }
    )
    made.set_topic("t", 2, range(2))
    return made, woken


def test_a_lone_record_lingers_and_a_full_batch_does_not():
    made, woken = accumulator()
    made.try_append("t", b"x" * 100, None, 0, 1, ())
    ((due, queue),) = made.due(5.0)
    assert (due, len(woken)) == (105.0, 1)
    for _ in range(5):
        made.try_append("t", b"x" * 100, None, 0, 1, ())
    assert made.due(5.0)[0][0] == 0.0
    batch = made.take(queue, IDENTITY)
    made.finished(queue, batch)
    assert made.waiting_bytes == sum(one.size_bytes for _, one in made.waiting())


def test_a_batch_that_is_full_to_the_byte_wakes_the_sender():
    made, woken = accumulator()
    alone, _ = accumulator()
    alone.try_append("t", b"x" * 100, None, 0, 1, ())
    ((_, measure),) = alone.waiting()
    made.batch_bytes = 2 * measure.size_bytes - HEADER_SIZE
    made.try_append("t", b"x" * 100, None, 0, 1, ())
    assert len(woken) == 1
    made.try_append("t", b"x" * 100, None, 0, 1, ())
    ((_, batch),) = made.waiting()
    assert (batch.size_bytes, len(woken)) == (made.batch_bytes, 2)
    assert made.due(5.0)[0][0] == 0.0


def test_the_largest_record_is_as_large_as_max_request_size_says():
    size = accumulator_with_one(b"x" * 1000).size_bytes
    assert accumulator_with_one(b"x" * 1000, request_bytes_max=size).size_bytes == size
    with pytest.raises(
        RecordTooLargeError, match=f"A record of {size} bytes is larger than max.request.size"
    ):
        accumulator_with_one(b"x" * 1000, request_bytes_max=size - 1)


def test_a_buffer_that_is_full_to_the_byte_takes_nothing():
    size = accumulator_with_one(b"x" * 100).size_bytes
    made, _ = accumulator(buffer_bytes=size)
    made.try_append("t", b"x" * 100, None, 0, 1, ())
    assert not made.has_room
    assert made.try_append("t", b"y", None, 0, 1, ()) is None


def test_a_key_keeps_its_partition_when_others_lose_their_leaders():
    made, _ = accumulator()
    made.set_topic("t", 5, [1])
    for number in range(20):
        made.try_append("t", b"x", b"%d" % number, None, 1, ())
    assert {queue.tp.partition for queue, _ in made.waiting()} == {
        key_hash(b"%d" % number) % 5 for number in range(20)
    }


def accumulator_with_one(value, **options):
    made, _ = accumulator(**options)
    made.try_append("t", value, None, 0, 1, ())
    ((_, batch),) = made.waiting()
    return batch


def test_a_batch_that_was_sent_once_takes_no_more_records():
    made, _ = accumulator()
    made.try_append("t", b"x", None, 0, 1, ())
    ((_, queue),) = made.due(0.0)
    batch = made.take(queue, IDENTITY)
    made.retry(queue, batch, 0.0)
    made.try_append("t", b"y", None, 0, 1, ())
    assert [one.count for one in queue.waiting] == [1, 1]


def test_what_is_in_flight_is_not_finished_with_what_came_before():
    made, _ = accumulator()
    for _ in range(2):
        made.try_append("t", b"x" * 400, None, 0, 1, ())
    ((_, queue),) = made.due(0.0)
    first, second = made.take(queue, IDENTITY), made.take(queue, IDENTITY)
    made.finished(queue, first)
    assert made.unfinished() == [(queue, second)]
    made.give_up(queue, second)
    assert (made.unfinished(), made.waiting_bytes) == ([], 0)


def test_a_full_buffer_takes_nothing_and_lets_no_batch_linger():
    made, _ = accumulator(buffer_bytes=600)
    while made.try_append("t", b"x" * 100, None, 0, 1, ()) is not None:
        pass
    assert not made.has_room
    assert [due for due, _ in made.due(5.0)] == [0.0]
    assert made.try_append("unknown", b"x", None, None, 1, ()) is None


def test_new_partitions_join_a_topic():
    made, _ = accumulator()
    made.set_topic("t", 4, [3])
    made.try_append("t", b"x", None, None, 1, ())
    assert [queue.tp.partition for _, queue in made.due(0.0)] == [3]


def target(offset, topic_id=b"i" * 16):
    return FetchTarget(topic_id, offset, 0, 1000)


def test_a_session_names_only_what_changed():
    session, other = FetchSessionHandler(), TopicPartition("t", 1)
    plan = session.plan({TP: target(0), other: target(0)})
    assert (plan.session_id, plan.epoch, len(plan.named)) == (0, 0, 2)
    session.answered(ErrorCode.NONE, 42)
    plan = session.plan({TP: target(5), other: target(0)})
    assert (plan.session_id, plan.epoch, set(plan.named), plan.forgotten) == (42, 1, {TP}, {})
    session.answered(ErrorCode.NONE, 42)
    plan = session.plan({TP: target(5, b"j" * 16)})
    assert (plan.epoch, set(plan.named), plan.forgotten) == (
        2,
        {TP},
        {TP: b"i" * 16, other: b"i" * 16},
    )


@pytest.mark.parametrize(
    ("happen", "session_id"),
    [
        (lambda s: s.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), 0),
        (lambda s: s.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0), 42),
        (lambda s: s.failed(), 42),
    ],
)
def test_a_session_in_doubt_begins_again_with_everything(happen, session_id):
    session = FetchSessionHandler()
    session.plan({TP: target(0)})
    session.answered(ErrorCode.NONE, 42)
    session.plan({TP: target(0)})
    happen(session)
    plan = session.plan({TP: target(0)})
    assert (plan.session_id, plan.epoch, set(plan.named)) == (session_id, 0, {TP})


def test_session_epochs_wrap_to_one():
    session = FetchSessionHandler()
    session.plan({})
    session.answered(ErrorCode.NONE, 42)
    session._epoch = 2**31 - 1
    session.answered(ErrorCode.NONE, 42)
    assert session.plan({}).epoch == 1


def test_a_cut_off_batch_waits_for_the_next_fetch():
    whole = build_batch([Record(i, 0, None, b"v", ()) for i in range(3)])
    cut = build_batch([Record(3, 0, None, b"v" * 100, ())])[:-5]
    fetch = CompletedFetch(TP, 1, memoryview(whole + cut), [], check_crcs=True)
    assert [record.offset for record in fetch.take(10)] == [1, 2]
    assert (fetch.next_offset, fetch.take(10)) == (3, [])


def test_the_old_record_format_is_named():
    old = bytearray(build_batch([Record(0, 0, None, b"v", ())]))
    old[16] = 1
    with pytest.raises(
        KafkaError,
        match="old format 1",
        check=lambda error: error.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ):
        CompletedFetch(TP, 0, memoryview(old), [], check_crcs=True).take(1)


def metadata_answer(leader, epoch, topic_id=b"i" * 16, error=0):
    partition = MetadataResponsePartition(
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1],
        isr_nodes=[1],
        offline_replicas=[],
    )
    topic = MetadataResponseTopic(
        name="t", topic_id=topic_id, error_code=error, partitions=[] if error else [partition]
    )
    broker = MetadataResponseBroker(node_id=leader, host="h", port=1)
    return MetadataResponse(brokers=[broker], topics=[topic])


def test_a_leader_epoch_never_goes_back_unless_the_topic_is_another_one():
    seen = ClusterMetadata().updated(metadata_answer(1, 5), complete=False)
    assert seen.updated(metadata_answer(2, 4), complete=False).partition(TP).leader_epoch == 5
    assert seen.updated(metadata_answer(2, 6), complete=False).leader(TP) == 2
    assert seen.updated(metadata_answer(2, 5), complete=False).leader(TP) == 2, (
        "of the same epoch: the newer one"
    )
    assert seen.updated(metadata_answer(2, -1), complete=False).leader(TP) == 2, (
        "a broker that tells no epochs"
    )
    assert seen.updated(metadata_answer(2, 0, b"j" * 16), complete=False).leader(TP) == 2


def test_a_topic_that_is_gone_leaves_its_error():
    seen = ClusterMetadata().updated(metadata_answer(1, 5), complete=False)
    gone = seen.updated(metadata_answer(1, 5, error=3), complete=False)
    assert (gone.leader(TP), gone.errors) == (-1, {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


def test_addresses():
    assert bootstrap_addresses(["a:1", "PLAINTEXT://[::1]:9092"]) == [("a", 1), ("::1", 9092)]
    for wrong in ("a", "a:", ":1", "a:99999"):
        with pytest.raises(ConfigError, match="expected host:port"):
            bootstrap_addresses([wrong])


def test_options_are_keywords_or_keys_of_kafka():
    config = client_config(CONSUMER_CONFIG, {"bootstrap_servers": "a:1,b:2", "fetch.min.bytes": "7"})
    assert (config["bootstrap.servers"], config["fetch.min.bytes"]) == (["a:1", "b:2"], 7)


@pytest.mark.parametrize("client", [AsyncProducer, AsyncConsumer, Producer, Consumer, AsyncAdmin, Admin])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"security_protocol": "KERBEROS"}, "security.protocol='KERBEROS' asks for security"),
        ({"sasl.login.class": "x"}, "sasl.login.class asks for security"),
        ({"sasl_mechanism": "PLAIN"}, "sasl.mechanism asks for security"),
        ({"ssl_cafile": "PLAINTEXT"}, "Unknown configuration ssl.cafile: write ssl_truststore_location"),
        ({"bootstrap_servers": "SASL_SSL://h:9093"}, "security.protocol='SASL_SSL' asks for security"),
    ],
)
def test_a_client_that_is_asked_for_security_does_not_begin(client, options, words):
    with pytest.raises(ConfigError) as refused:
        client(**{"bootstrap_servers": "127.0.0.1:1", **options})
    assert str(refused.value).startswith(words)


def test_plaintext_may_be_asked_for_by_name():
    made = client_config(CONSUMER_CONFIG, {"bootstrap_servers": "h:1", "security_protocol": "PLAINTEXT"})
    assert made["security.protocol"] == "PLAINTEXT"
    assert bootstrap_addresses(["PLAINTEXT://h:1", "h:2"]) == [("h", 1), ("h", 2)]
