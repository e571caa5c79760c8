"""DescribeProducers: what a partition remembers of its producers, and who may not be asked."""

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from broker_world import ME, OTHER

WRITTEN_MS = 1_600_000_000_000


def describe(world, topic, *partitions):
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=list(partitions or (0,)))]
    )
    [answer] = world.send(request, 0).topics
    assert answer.name == topic
    return answer.partitions


def code(partition):
    return ErrorCode.of(partition.error_code)


def write(world, producer_id, epoch, sequence, count):
    records = [Record(number, WRITTEN_MS + number, None, b"v", []) for number in range(count)]
    data = build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    [answer] = world.produce(records=data).responses[0].partition_responses
    assert answer.error_code == 0


def test_the_last_sequence_and_time_of_each_producer(world):
    world.create()
    write(world, 5, 0, 0, 3)
    write(world, 6, 2, 0, 1)
    write(world, 5, 0, 3, 2)

    [partition] = describe(world, "orders")
    assert code(partition) is ErrorCode.NONE
    assert {
        each.producer_id: (each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in partition.active_producers
    } == {5: (0, 4, WRITTEN_MS + 1), 6: (2, 0, WRITTEN_MS)}
    assert {
        (each.coordinator_epoch, each.current_txn_start_offset) for each in partition.active_producers
    } == {(-1, -1)}


def test_a_follower_answers_too(world):
    world.create(isr=(ME, OTHER))
    write(world, 5, 0, 0, 1)
    world.create(leader=OTHER, isr=(ME, OTHER), epoch=1)

    [partition] = describe(world, "orders")
    assert [each.producer_id for each in partition.active_producers] == [5]


def test_each_partition_is_refused_with_kafkas_code(make_world):
    class NotSecret:
        def authorize(self, request, operation, resource, name, count=None, **_logs):
            return operation is not Operation.READ or name != "secret"

    world = make_world(authorizer=NotSecret())
    for name in ("orders", "secret"):
        world.create(name)
    world.update_metadata(
        {"elsewhere": [UpdateMetadataPartitionState(leader=OTHER, isr=[OTHER], replicas=[OTHER])]}
    )

    for topic, expected in {
        "secret": (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED.message),
        "nowhere": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message),
        "..": (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: '..' is not allowed"),
        "elsewhere": (ErrorCode.NOT_LEADER_OR_FOLLOWER, None),
    }.items():
        [partition] = describe(world, topic)
        assert (code(partition), partition.error_message) == expected
    here, gone, negative = describe(world, "orders", 0, 7, -1)
    assert [code(each) for each in (here, gone, negative)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert gone.error_message is None
