"""How a coordinator's records get into its partition."""

import pytest
from life_rig import ME, OTHER, Life, commit_record

from barnabas.coordinator.runtime.journal import PartitionJournal
from barnabas.coordinator.settings import GroupSettings
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.records.batch import TimestampType
from barnabas.records.compression import Codec

TP = TopicPartition(GROUP_METADATA_TOPIC, 0)


def journal(life):
    return journal_of(TP, life)


def journal_of(tp, life):
    settings = GroupSettings.of(life.config)
    return PartitionJournal(
        tp,
        life.replicas.appender,
        life.clock.time_ms,
        codec=Codec(settings.offsets_compression_codec),
        required_acks=settings.offsets_commit_required_acks,
        timeout_ms=settings.offsets_commit_timeout_ms,
    )


def batches(life):
    return life.batches(next(name for name in "abcdefgh" if life.coordinator.partition_for(name) == 0))


def test_one_call_makes_one_batch_and_tells_its_first_offset(life):
    written = journal(life)

    offsets = [written.append([commit_record(each), commit_record(each)]).result() for each in range(2)]

    assert offsets == [0, 2]
    header, records = batches(life)[1]
    assert (header.count, header.producer_id, header.is_transactional) == (2, -1, False)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp for record in records] == [life.clock.now_ms] * 2


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_as_configured(codec):
    life = Life(offsets_topic_compression_codec=int(codec))

    journal(life).append([commit_record(1)])

    assert batches(life)[0][0].codec is codec


def test_batches_of_commits_are_numbered_as_kafka_numbers_them(life):
    life.elect()
    group = next(name for name in "abcdefgh" if life.coordinator.partition_for(name) == 0)

    life.commit(group)
    life.delete(group)

    assert [header.base_sequence for header, _ in batches(life)] == [0, -1]


def test_the_batch_of_a_transaction_names_its_producer(life):
    journal(life).append([commit_record(1)], producer=(77, 3), base_sequence=0)

    header = batches(life)[0][0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 0)
    assert header.is_transactional


def test_waits_for_the_replicas_but_not_for_ever():
    life = Life(offsets_commit_timeout_ms=700)
    life.lead(0, epoch=1, isr=(ME, OTHER))

    written = journal(life).append([commit_record(1)])
    life.clock.advance(699)
    assert not written.done
    life.clock.advance(1)

    assert written.error.code is ErrorCode.REQUEST_TIMED_OUT


def test_answers_when_the_replicas_have_it(life):
    life.lead(0, epoch=1, isr=(ME, OTHER))
    written = journal(life).append([commit_record(1)])

    life.lead(0, epoch=2, isr=(ME,))

    assert written.result() == 0


def test_a_leader_that_is_deposed_meanwhile_says_so(life):
    life.lead(0, epoch=1, isr=(ME, OTHER))
    written = journal(life).append([commit_record(1)])

    life.replicas.log_directory_failed([TP])

    assert written.error.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("acks", [0, 1])
def test_nobody_waits_where_so_configured(acks):
    life = Life(offsets_commit_required_acks=acks)
    life.lead(0, epoch=1, isr=(ME, OTHER))

    assert journal(life).append([commit_record(1)]).result() == 0


def test_the_call_may_ask_for_less(life):
    life.lead(0, epoch=1, isr=(ME, OTHER))

    assert journal(life).append([commit_record(1)], acks=0).result() == 0


def test_refused_where_too_few_are_in_sync():
    life = Life(log_config={"min_insync_replicas": 2})
    life.lead(0, epoch=1, isr=(ME, OTHER))
    life.replicas.partition(TP).isr_state = type(life.replicas.partition(TP).isr_state)(frozenset({ME}))

    with pytest.raises(KafkaError) as refused:
        journal(life).append([commit_record(1)])

    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert batches(life) == []


def test_refused_where_this_broker_does_not_lead(life):
    elsewhere = journal_of(TopicPartition(GROUP_METADATA_TOPIC, 40), life)

    with pytest.raises(KafkaError) as refused:
        elsewhere.append([commit_record(1)])

    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_too_large_for_the_topic():
    life = Life(log_config={"max_message_bytes": 50})

    with pytest.raises(KafkaError) as refused:
        journal(life).append([commit_record(1)])

    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
