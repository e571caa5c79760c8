"""Produce, as a client sees it and as the log has it."""

import pickle

import pytest

from barnabas.core.errors import ErrorCode, RecordValidationError
from barnabas.core.pending import Pending
from barnabas.log.config import LogConfig
from barnabas.network.errors import CloseConnection
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.records.batch import build_batch
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from broker_world import NOW_MS


def answer_of(response, topic=0, partition=0):
    return response.responses[topic].partition_responses[partition]


def code_of(response, topic=0, partition=0):
    return ErrorCode.of(answer_of(response, topic, partition).error_code)


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [1, -1])
def test_records_are_appended_and_committed(world, make_batch, version, acks):
    world.create()

    first = answer_of(world.produce(version=version, acks=acks, records=make_batch(3)))
    second = answer_of(world.produce(version=version, acks=acks))

    assert (first.index, first.error_code, first.base_offset) == (0, 0, 0)
    assert (second.error_code, second.base_offset) == (0, 3)
    assert world.partition().log.high_watermark == 4
    assert first.log_append_time_ms == -1
    assert first.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_old_versions_are_advertised_but_refused(world, version):
    world.create()

    assert code_of(world.produce(version=version)) is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert world.partition().log.log_end_offset == 0


def test_what_is_not_here_is_refused_with_no_offset_and_no_time(world):
    world.create()
    answer = answer_of(world.produce(partition=5))

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)


def test_acks_0_has_no_answer(world):
    world.create()

    assert world.produce(acks=0) is None
    assert world.partition().log.log_end_offset == 1


def test_acks_0_closes_the_connection_where_it_fails(world):
    world.create()

    with pytest.raises(CloseConnection) as closed:
        world.produce(partition=5, acks=0)

    assert closed.value.reason.endswith("with ack=0: orders-5 -> UNKNOWN_TOPIC_OR_PARTITION")


def test_acks_0_names_some_of_the_partitions_that_fail_and_counts_the_rest(world):
    """One such request with 200,000 unknown partitions wrote a line of 47.7 MB into the log."""
    world.create()
    partitions = [PartitionProduceData(index=index, records=b"") for index in range(1, 200_001)]
    request = ProduceRequest(
        acks=0, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=partitions)]
    )

    with pytest.raises(CloseConnection) as closed:
        world.send(request, 9)

    assert closed.value.reason.endswith("orders-10 -> UNKNOWN_TOPIC_OR_PARTITION, and 199990 more")
    assert len(closed.value.reason) < 1000


@pytest.mark.parametrize("acks", [2, -2, 100])
def test_other_acks_are_invalid(world, acks):
    world.create()

    assert code_of(world.produce(acks=acks)) is ErrorCode.INVALID_REQUIRED_ACKS
    assert world.partition().log.log_end_offset == 0


def corrupt(batch):
    return batch[:70] + bytes([batch[70] ^ 1]) + batch[71:]


def change(batch, position, value):
    return batch[:position] + bytes([value]) + batch[position + 1 :]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (corrupt, ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: change(batch, 16, 3), ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: change(batch, 16, 1), ErrorCode.INVALID_RECORD),
        (lambda batch: batch + batch, ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:-1], ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:10], ErrorCode.INVALID_RECORD),
        (lambda batch: b"", ErrorCode.INVALID_RECORD),
        (lambda batch: batch[:8] + bytes(4) + batch[12:], ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch[:8] + b"\xff" * 4 + batch[12:], ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch[:8] + b"\0\0\0\x0e" + batch[12:26], ErrorCode.CORRUPT_MESSAGE),
        (lambda batch: batch[:8] + b"\0\0\0\x30" + batch[12:60], ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_bad_records_are_refused_and_nothing_is_appended(world, make_batch, spoil, code):
    world.create()

    answer = answer_of(world.produce(records=spoil(make_batch())))

    assert answer.error_code == code
    assert answer.base_offset == -1
    assert world.partition().log.log_end_offset == 0


def test_zstd_needs_version_7(world, make_batch):
    world.create()
    records = make_batch(codec=Codec.ZSTD)

    assert code_of(world.produce(version=6, records=records)) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code_of(world.produce(version=7, records=records)) is ErrorCode.NONE


def test_too_large(world, make_batch):
    world.log_config = LogConfig(max_message_bytes=60)
    world.create()

    assert code_of(world.produce(records=make_batch())) is ErrorCode.MESSAGE_TOO_LARGE


def test_rejected_records_carry_a_message(world, make_batch):
    world.log_config = LogConfig(message_timestamp_before_max_ms=1000)
    world.create()

    answer = answer_of(world.produce(records=make_batch(timestamp=5)))

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert answer.log_start_offset == 0
    oldest, newest = NOW_MS - 1000, NOW_MS + world.log_config.message_timestamp_after_max_ms
    assert record_errors(answer) == {
        0: "Timestamp 5 of message with offset 0 is out of range. The timestamp should be within"
        f" [{oldest}, {newest}]"
    }


def record_errors(answer):
    return {each.batch_index: each.batch_index_error_message for each in answer.record_errors}


@pytest.mark.parametrize("version", [3, 7, 8, 11])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_the_records_of_a_batch_that_were_refused_are_named(world, version, codec):
    """KIP-467: only they need to be left out, the others can be sent again."""
    world.log_config = LogConfig(cleanup_policy=("compact",))
    world.create()
    records = [Record(index, NOW_MS, b"k" if index % 2 else None, b"v") for index in range(8)]
    answer = answer_of(world.produce(version=version, records=bytes(build_batch(records, codec=codec))))
    reason = "Compacted topic cannot accept message without key in topic partition orders-0"
    shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index in (0, 2, 4))

    assert answer.error_code == ErrorCode.INVALID_RECORD
    if version >= 8:
        assert record_errors(answer) == dict.fromkeys((0, 2, 4, 6), reason)
        assert answer.error_message == (
            "One or more records have been rejected due to 4 record errors in total, and only showing the"
            f" first three errors at most: [{shown}]"
        )
    assert world.partition().log.log_end_offset == 0


def test_one_late_record_makes_it_a_matter_of_time(world):
    world.log_config = LogConfig(cleanup_policy=("compact",), message_timestamp_before_max_ms=1000)
    world.create()
    records = [Record(0, NOW_MS, None, b"v"), Record(1, 5, b"k", b"v"), Record(2, NOW_MS, b"k", b"v")]
    answer = answer_of(world.produce(records=bytes(build_batch(records))))

    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert sorted(record_errors(answer)) == [0, 1]


def test_what_is_refused_comes_whole_from_another_process():
    error = RecordValidationError(ErrorCode.INVALID_RECORD, "refused", [(3, "why")])
    copy = pickle.loads(pickle.dumps(error))

    assert (copy.code, copy.message, copy.record_errors) == (error.code, "refused", [(3, "why")])


def test_log_append_time_is_told(world):
    world.log_config = LogConfig(message_timestamp_type="LogAppendTime")
    world.create()

    assert answer_of(world.produce()).log_append_time_ms == world.clock.time_ms()


def test_each_partition_has_its_own_answer(world, make_batch):
    world.create("a", 2)
    world.create("b")
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[PartitionProduceData(index=index, records=make_batch()) for index in indexes],
            )
            for topic, indexes in {"a": [1, 0, 9], "nowhere": [0], "b": [0]}.items()
        ],
    )
    response = world.send(request, 9)

    codes = {
        (topic.name, each.index): ErrorCode.of(each.error_code).name
        for topic in response.responses
        for each in topic.partition_responses
    }
    assert codes == {
        ("a", 1): "NONE",
        ("a", 0): "NONE",
        ("a", 9): "UNKNOWN_TOPIC_OR_PARTITION",
        ("nowhere", 0): "UNKNOWN_TOPIC_OR_PARTITION",
        ("b", 0): "NONE",
    }


def test_a_topic_that_is_named_without_a_partition_is_not_answered(world, make_batch):
    world.create("a")
    data = [PartitionProduceData(index=0, records=make_batch())]
    topics = {"empty": [], "a": data, "nowhere": []}
    response = world.send(
        ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=name, partition_data=of_it) for name, of_it in topics.items()],
        ),
        9,
    )

    assert [topic.name for topic in response.responses] == ["a"]


def test_idempotent_producers_are_checked(world, make_batch):
    world.create()

    def send(sequence, epoch=0):
        records = make_batch(producer_id=1, producer_epoch=epoch, base_sequence=sequence)
        return answer_of(world.produce(records=records))

    assert send(0).base_offset == 0
    assert send(1).base_offset == 1
    again = send(1)
    assert (again.error_code, again.base_offset) == (0, 1)
    assert send(5).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1).base_offset == 2
    assert send(2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert world.partition().log.log_end_offset == 3


def test_internal_topics_are_for_the_admin_client_only(world):
    world.create("__consumer_offsets")

    assert code_of(world.produce("__consumer_offsets")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert code_of(world.produce("__consumer_offsets", client_id="__admin_client")) is ErrorCode.NONE


def test_transactional_records_need_the_right_to_an_id(world, make_batch):
    world.create()
    records = make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=records)])

    def send(name):
        request = ProduceRequest(transactional_id=name, acks=1, timeout_ms=1, topic_data=[data])
        return code_of(world.send(request, 9))

    assert send(None) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert world.partition().log.log_end_offset == 0
    assert send("t") is ErrorCode.NONE
    assert world.partition().log.log_end_offset == 1


def test_the_wrong_broker_names_the_leader_from_version_10(world):
    world.create(leader=2, isr=(2, 1), epoch=3)

    response = world.produce(version=10)

    answer = answer_of(response)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 3)
    assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [
        (2, "127.0.0.1", 9092)
    ]
    assert answer_of(world.produce(version=9)).current_leader is None


@pytest.mark.parametrize("many", [1, 500])
def test_each_leader_is_named_once_however_many_partitions_are_elsewhere(world, make_batch, many):
    world.create(partitions=many, leader=2, isr=(2, 1), epoch=3)
    partitions = [PartitionProduceData(index=index, records=make_batch()) for index in range(many)]
    request = ProduceRequest(
        acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=partitions)]
    )
    response = world.send(request, 10)

    answers = response.responses[0].partition_responses
    assert {(each.error_code, each.current_leader.leader_id) for each in answers} == {
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    }
    assert [each.node_id for each in response.node_endpoints] == [2]


def test_acks_all_waits_for_the_isr(world, make_batch):
    world.create(isr=(1, 2))
    data = PartitionProduceData(index=0, records=make_batch())
    request = ProduceRequest(
        acks=-1, timeout_ms=500, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )
    answer = world.start(request, 9)
    assert answer() is None
    world.clock.advance(499)
    assert answer() is None
    world.clock.advance(1)

    assert code_of(answer()) is ErrorCode.REQUEST_TIMED_OUT
    assert world.partition().log.log_end_offset == 1
    assert world.replicas.produce_purgatory.size == 0


def test_acks_all_needs_min_insync_replicas(world):
    world.log_config = LogConfig(min_insync_replicas=2)
    world.create(isr=(1,), replicas=(1, 2))

    assert code_of(world.produce(acks=-1)) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert code_of(world.produce(acks=1)) is ErrorCode.NONE
    assert world.partition().log.high_watermark == 0, "below min.insync.replicas it stands still (KIP-966)"


def test_failed_appends_are_counted_without_those_that_are_expected_to_happen(world, make_batch):
    world.log_config = LogConfig(min_insync_replicas=2)
    world.create(isr=(1,), replicas=(1, 2))
    stats = world.replicas.topic_stats

    assert code_of(world.produce(records=corrupt(make_batch()))) is ErrorCode.CORRUPT_MESSAGE
    assert stats.total().failed_produces == 0
    world.produce(acks=-1)
    assert stats.of("orders").failed_produces == stats.total().failed_produces == 1


def test_flush_messages_1_answers_after_one_sync_for_all(world, make_batch):
    world.log_config = LogConfig(flush_messages=1)
    world.create()
    syncs = world.disk.syncs

    answers = []
    for _ in range(3):
        data = PartitionProduceData(index=0, records=make_batch())
        request = ProduceRequest(
            acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
        )
        answers.append(world.start(request, 9))
    assert [answer() for answer in answers] == [None] * 3
    world.clock.advance(0)

    assert [answer_of(answer()).base_offset for answer in answers] == [0, 1, 2]
    files_of_a_log = world.disk.syncs - syncs
    assert files_of_a_log <= 3, "the log and its indexes, once"


@pytest.mark.parametrize("acks", [1, -1])
def test_consumers_see_nothing_that_is_not_synced_where_flush_messages_asks_for_it(world, make_batch, acks):
    world.log_config = LogConfig(flush_messages=1)
    world.create()
    data = PartitionProduceData(index=0, records=make_batch())
    topic = TopicProduceData(name="orders", partition_data=[data])
    answer = world.start(ProduceRequest(acks=acks, timeout_ms=1, topic_data=[topic]), 9)

    assert answer() is None
    assert world.partition().log.high_watermark == 0
    world.clock.advance(0)
    assert code_of(answer()) is ErrorCode.NONE
    assert world.partition().log.high_watermark == 1


def test_a_failing_disk_is_a_storage_error(world):
    world.create()
    world.disk.fail("/data", "write")

    assert code_of(world.produce()) is ErrorCode.KAFKA_STORAGE_ERROR
    assert code_of(world.produce()) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_failing_sync_is_a_storage_error(world):
    world.log_config = LogConfig(flush_messages=1)
    world.create()
    world.disk.fail("/data", "sync")

    assert code_of(world.produce()) is ErrorCode.KAFKA_STORAGE_ERROR


def test_handler_answers_at_once_where_nothing_waits(world, make_batch):
    world.create()
    data = PartitionProduceData(index=0, records=make_batch())
    request = ProduceRequest(
        acks=-1, timeout_ms=1, topic_data=[TopicProduceData(name="orders", partition_data=[data])]
    )

    assert world.start(request, 9)() is not None
    assert not isinstance(world.replicas.appender.acknowledge([], -1, 1), Pending)


def test_appends_without_a_descriptor_are_refused_with_an_error_that_clients_try_again(world):
    world.create()
    world.disk.descriptors = 0
    world.logs._errors.give_back_descriptors(OSError())
    refused = code_of(world.produce())
    world.disk.descriptors = None

    assert (refused, refused.retriable) == (ErrorCode.KAFKA_STORAGE_ERROR, True)
    assert code_of(world.produce()) is ErrorCode.NONE
    assert world.partition().log.log_end_offset == 1


def _of(*topics, acks):
    return ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name=name,
                partition_data=[PartitionProduceData(index=index, records=data) for index, data in entries],
            )
            for name, entries in topics
        ],
    )


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("more", [0, 200])
def test_a_partition_that_is_named_twice_is_appended_to_once_with_what_was_named_last(
    world, make_batch, acks, more
):
    world.create(partitions=2)
    early, late = make_batch(2), make_batch(5)
    unknown = [
        (100 + index, early) for index in range(more)
    ]  # enough of them, and the request goes in slices

    twice = ("orders", [(0, early), (1, early), *unknown]), ("orders", [(0, early), (0, late)])
    response = world.send(_of(*twice, acks=acks), 9)

    assert [topic.name for topic in response.responses] == ["orders"]
    answers = response.responses[0].partition_responses
    assert sorted(answer.index for answer in answers) == [0, 1, *(index for index, _ in unknown)]
    codes = {answer.index: answer.error_code for answer in answers}
    assert (codes[0], codes[1]) == (0, 0)
    assert world.partition(partition=0).log.log_end_offset == 5
    assert world.partition(partition=1).log.log_end_offset == 2


def test_without_an_answer_too_a_partition_is_appended_to_once(world, make_batch):
    world.create()

    twice = ("orders", [(0, make_batch(2))]), ("orders", [(0, make_batch(3))])
    assert world.send(_of(*twice, acks=0), 9) is None

    assert world.partition().log.log_end_offset == 3
