"""Transactions over the wire: a whole broker, from InitProducerId to what consumers of committed records may
read.
"""

import pytest

from barnabas.broker.authorizer import Operation, Resource
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import GROUP_METADATA_TOPIC, NO_LEADER, TRANSACTION_STATE_TOPIC
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.end_txn import EndTxnRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.messages.update_metadata import UpdateMetadataPartitionState
from barnabas.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from barnabas.records.batch import batch_headers, decode_records_of
from broker_world import ME, OTHER

E = ErrorCode
ID = "copier"


class Denying:
    """Allows what is not denied; notes what was asked."""

    def __init__(self):
        self.denied = set()
        self.asked = []

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        self.asked.append((operation.name, resource.name, name))
        return (operation, resource, name) not in self.denied


@pytest.fixture
def authorizer():
    return Denying()


@pytest.fixture
def world(make_world, authorizer):
    """It leads all there is."""
    world = make_world(authorizer=authorizer)
    world.create(GROUP_METADATA_TOPIC, 50)
    world.create(TRANSACTION_STATE_TOPIC, 50)
    world.create("orders", 2)
    return world


def init(world, version=5, **fields):
    answer = world.send(
        InitProducerIdRequest(**{"transactional_id": ID, "transaction_timeout_ms": 60_000, **fields}), version
    )
    return E.of(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)


def topics(*partitions, topic="orders"):
    return [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions or (0,)))]


def add(world, producer, added=None, version=3):
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics() if added is None else added,
    )
    return codes(world.send(request, version).results_by_topic_v3_and_below)


def add_by_broker(world, *transactions, version=4):
    answer = world.send(
        AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=name,
                    producer_id=producer[0],
                    producer_epoch=producer[1],
                    verify_only=verify,
                    topics=topics(),
                )
                for name, producer, verify in transactions
            ]
        ),
        version,
    )
    if answer.error_code:
        return E.of(answer.error_code)
    return {
        each.transactional_id: codes(each.topic_results)["orders", 0]
        for each in answer.results_by_transaction
    }


def codes(results):
    return {
        (topic.name, each.partition_index): E.of(each.partition_error_code)
        for topic in results
        for each in topic.results_by_partition
    }


def end(world, producer, *, committed=True, version=4):
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=committed
    )
    code = E.of(world.send(request, version).error_code)
    world.clock.advance()
    return code


def produce(world, make_batch, producer, partition=0, *, name=ID, sequence=0):
    records = make_batch(
        producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence, transactional=True
    )
    data = PartitionProduceData(index=partition, records=records)
    request = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name="orders", partition_data=[data])],
    )
    return E.of(world.send(request, 9).responses[0].partition_responses[0].error_code)


def commit_offset(world, producer, offset, *, topic="source", version=3, **fields):
    request = TxnOffsetCommitRequest(
        **{"transactional_id": ID, "group_id": "g", **fields},
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata=""
                    )
                ],
            )
        ],
    )
    return E.of(world.send(request, version).topics[0].partitions[0].error_code)


def add_offsets(world, producer, version=3, group_id="g"):
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], group_id=group_id
    )
    return E.of(world.send(request, version).error_code)


def fetched_offset(world, *, require_stable=False):
    group = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="source", partition_indexes=[0])]
    )
    answer = world.send(OffsetFetchRequest(groups=[group], require_stable=require_stable), 8)
    (partition,) = answer.groups[0].topics[0].partitions
    return E.of(partition.error_code) if partition.error_code else partition.committed_offset


def read(world, isolation_level=1, partition=0):
    """(values, last stable offset) of a fetch from the beginning."""
    asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=[FetchTopic(topic="orders", partitions=[asked])],
    )
    (found,) = world.send(request, 12).responses[0].partitions
    return found


def markers_in(world, topic="orders", partition=0):
    """(producer, committed, coordinator epoch) of each marker in a partition."""
    log = world.partition(topic, partition).log
    data = log.read(0, 1 << 20).records.read()
    return [
        (
            (header.producer_id, header.producer_epoch),
            record.key[3] == 1,
            int.from_bytes(record.value[2:], "big"),
        )
        for header in batch_headers(data)
        if header.is_control
        for record in decode_records_of(data, header)
    ]


# --- one transaction after the other


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_from_its_beginning_to_its_end(world, make_batch, committed):
    producer = init(world)
    assert add(world, producer, topics(0, 1)) == {("orders", 0): E.NONE, ("orders", 1): E.NONE}
    assert produce(world, make_batch, producer) is E.NONE
    assert (read(world).last_stable_offset, read(world).high_watermark) == (0, 1)

    assert end(world, producer, committed=committed) is E.NONE

    assert [markers_in(world, partition=each) for each in (0, 1)] == [[(producer, committed, 0)]] * 2
    found = read(world)
    assert found.last_stable_offset == 2
    assert [each.producer_id for each in found.aborted_transactions or []] == [producer[0]] * (not committed)
    (described,) = described_of(world, ID)
    assert described.transaction_state == ("CompleteCommit" if committed else "CompleteAbort")
    # The producer goes on with the same epoch.
    assert add(world, producer) == {("orders", 0): E.NONE}
    assert produce(world, make_batch, producer, sequence=1) is E.NONE


def described_of(world, *names):
    return world.send(DescribeTransactionsRequest(transactional_ids=list(names)), 0).transaction_states


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_are_valid_with_the_marker_of_their_transaction(world, committed):
    world.create("source")
    producer = init(world)
    assert add_offsets(world, producer) is E.NONE
    assert commit_offset(world, producer, 7) is E.NONE
    assert fetched_offset(world) == -1
    assert fetched_offset(world, require_stable=True) is E.UNSTABLE_OFFSET_COMMIT

    end(world, producer, committed=committed)

    partition = world.coordinator.partition_for("g")
    assert markers_in(world, GROUP_METADATA_TOPIC, partition) == [(producer, committed, 0)]
    assert fetched_offset(world, require_stable=True) == (7 if committed else -1)


def replicate(world, topic):
    """The follower fetches all that the leader has."""
    asked = FetchPartition(
        partition=0,
        fetch_offset=world.partition(topic).log.log_end_offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=OTHER,
        max_wait_ms=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    assert world.send(request, 12).responses[0].partitions[0].error_code == 0


@pytest.fixture
def replicated(make_world):
    """``__transaction_state`` has a replica elsewhere, which fetches when a test says so."""
    world = make_world()
    world.create("orders")
    world.create(TRANSACTION_STATE_TOPIC, 1, isr=(ME, OTHER))
    world.transaction_coordinator.partition_count = 1
    return world


def begun(world, make_batch):
    """A transaction that has written a record; its producer."""
    request = InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    beginning = world.start(request, 5)
    replicate(world, TRANSACTION_STATE_TOPIC)
    producer = beginning().producer_id, beginning().producer_epoch
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=topics(),
    )
    adding = world.start(request, 3)
    assert adding() is None
    replicate(world, TRANSACTION_STATE_TOPIC)
    assert codes(adding().results_by_topic_v3_and_below) == {("orders", 0): E.NONE}
    assert produce(world, make_batch, producer) is E.NONE
    return producer


def ending(world, producer):
    request = EndTxnRequest(
        transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    return world.start(request, 4)


def test_markers_wait_for_the_replicas_of_the_decision(replicated, make_batch):
    """A decision that this broker alone has is none: the next coordinator may decide otherwise."""
    world = replicated
    producer = begun(world, make_batch)
    answer = ending(world, producer)
    world.clock.advance(30_000)
    assert (answer(), markers_in(world)) == (None, [])
    replicate(world, TRANSACTION_STATE_TOPIC)

    assert answer().error_code == 0
    world.clock.advance()
    assert markers_in(world) == [(producer, True, 0)]


def test_a_decision_is_given_up_after_the_time_of_the_transaction(replicated, make_batch):
    world = replicated
    answer = ending(world, begun(world, make_batch))
    world.clock.advance(59_999)
    assert answer() is None
    world.clock.advance(1)

    assert E.of(answer().error_code) is E.COORDINATOR_NOT_AVAILABLE
    assert markers_in(world) == []
    assert described_of(world, ID)[0].transaction_state == "Ongoing"


def test_a_new_leader_sends_no_marker_of_a_decision_that_it_alone_has(replicated, make_batch):
    world = replicated
    producer = begun(world, make_batch)
    answer = ending(world, producer)
    partition = world.partition(TRANSACTION_STATE_TOPIC)
    # It loses the partition and gets it back, with the decision still in no other log.
    world.create(TRANSACTION_STATE_TOPIC, 1, leader=OTHER, isr=(ME, OTHER), epoch=1)
    assert E.of(answer().error_code) is E.NOT_COORDINATOR
    world.create(TRANSACTION_STATE_TOPIC, 1, leader=ME, isr=(ME, OTHER), epoch=2)
    world.clock.advance(10)

    assert partition.log.high_watermark < partition.log.log_end_offset
    assert described_of(world, ID)[0].transaction_state == "PrepareCommit"
    assert markers_in(world) == []
    replicate(world, TRANSACTION_STATE_TOPIC)
    world.clock.advance()
    assert markers_in(world) == [(producer, True, 2)]


def test_a_partition_that_the_first_metadata_do_not_name_yet_gets_its_marker(replicated, make_batch):
    """Simulation, seed 7: a controller that begins names the brokers first, has partitions led, and names
    them last. A broker that was killed between decision and markers took all for deleted meanwhile.
    """
    world = replicated
    producer = begun(world, make_batch)
    answer = ending(world, producer)
    world.create(TRANSACTION_STATE_TOPIC, 1, leader=OTHER, isr=(ME, OTHER), epoch=1)
    assert E.of(answer().error_code) is E.NOT_COORDINATOR
    world.delete("orders")  # of the metadata alone: as a broker knows it that has just been started
    world.create(TRANSACTION_STATE_TOPIC, 1, isr=(ME, OTHER), epoch=2, metadata=False)
    replicate(world, TRANSACTION_STATE_TOPIC)
    world.clock.advance(1_000)
    assert described_of(world, ID)[0].transaction_state == "PrepareCommit"
    assert markers_in(world) == []
    world.create("orders", epoch=1)
    world.create(TRANSACTION_STATE_TOPIC, 1, isr=(ME, OTHER), epoch=2)
    world.clock.advance(1_000)

    assert markers_in(world) == [(producer, True, 2)]


def test_a_transaction_that_nobody_ends_is_aborted(world, make_batch):
    producer = init(world)
    add(world, producer)
    produce(world, make_batch, producer)
    world.clock.advance(80_000)

    assert markers_in(world) == [((producer[0], producer[1] + 1), False, 0)]
    assert end(world, producer) is E.PRODUCER_FENCED
    assert produce(world, make_batch, producer, sequence=1) is E.INVALID_PRODUCER_EPOCH


# --- codes


@pytest.mark.parametrize(
    ("ask", "since"),
    [
        (lambda world, producer, version: add(world, producer, version=version)["orders", 0], 2),
        (lambda world, producer, version: end(world, producer, version=version), 2),
        (add_offsets, 2),
    ],
    ids=["add", "end", "offsets"],
)
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_who_was_fenced_is_told_in_the_words_of_its_time(world, ask, since, version):
    producer_id, epoch = init(world)
    init(world)

    fenced = E.PRODUCER_FENCED if version >= since else E.INVALID_PRODUCER_EPOCH
    assert ask(world, (producer_id, epoch), version) is fenced


@pytest.mark.parametrize("version", [3, 4, 5])
def test_who_begins_again_too_late_too(world, version):
    producer_id, epoch = init(world)
    init(world)

    asked = {"producer_id": producer_id, "producer_epoch": epoch}
    assert init(world, version, **asked) is (E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH)
    assert init(world, version, **asked | {"producer_epoch": epoch + 1}) == (producer_id, epoch + 2)
    assert init(world, version, producer_id=producer_id) is E.INVALID_REQUEST
    assert init(world, version, producer_epoch=0) is E.INVALID_REQUEST


def test_what_is_asked_of_the_wrong_broker(make_world):
    world = make_world()
    world.create("orders")

    assert init(world) is E.NOT_COORDINATOR
    assert add(world, (1, 0)) == {("orders", 0): E.NOT_COORDINATOR}
    assert end(world, (1, 0)) is E.NOT_COORDINATOR
    assert described_of(world, ID)[0].error_code == E.NOT_COORDINATOR


# --- AddPartitionsToTxn


def test_all_partitions_are_added_or_none(world, authorizer):
    producer = init(world)
    world.create("secret")
    authorizer.denied = {(Operation.WRITE, Resource.TOPIC, "secret")}
    added = [*topics(0, 9), *topics(topic="secret"), *topics(topic="nowhere")]

    assert add(world, producer, added) == {
        ("orders", 0): E.OPERATION_NOT_ATTEMPTED,
        ("orders", 9): E.UNKNOWN_TOPIC_OR_PARTITION,
        ("secret", 0): E.TOPIC_AUTHORIZATION_FAILED,
        ("nowhere", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert described_of(world, ID)[0].transaction_state == "Empty"


def test_clients_add_no_internal_topics(world):
    producer = init(world)

    refused = add(world, producer, [*topics(), *topics(topic=GROUP_METADATA_TOPIC)])
    assert refused == {
        ("orders", 0): E.OPERATION_NOT_ATTEMPTED,
        (GROUP_METADATA_TOPIC, 0): E.TOPIC_AUTHORIZATION_FAILED,
    }


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_ask_for_several_transactions(world, version):
    producer = init(world)
    assert add_by_broker(world, (ID, producer, True), version=version) == {ID: E.TRANSACTION_ABORTABLE}
    assert add_by_broker(world, (ID, producer, False), version=version) == {ID: E.NONE}

    assert add_by_broker(
        world, (ID, producer, True), ("no", producer, True), ("", producer, False), version=version
    ) == {ID: E.NONE, "no": E.INVALID_PRODUCER_ID_MAPPING, "": E.INVALID_REQUEST}


# --- WriteTxnMarkers


def write_markers(world, *markers, version=1):
    """{(producer id, topic, partition): code}."""
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=committed,
                coordinator_epoch=coordinator_epoch,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
            )
            for producer_id, epoch, committed, coordinator_epoch, topic, partition in markers
        ]
    )
    answer = world.send(request, version)
    return {
        (marker.producer_id, topic.name, each.partition_index): E.of(each.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for each in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1])
def test_markers_of_other_coordinators(world, make_batch, version):
    produce(world, make_batch, (8, 2))

    assert write_markers(
        world,
        (8, 2, True, 4, "orders", 0),
        (9, 0, False, 4, "orders", 1),
        (9, 0, False, 4, "orders", 7),
        (9, 0, False, 4, "nowhere", 0),
        version=version,
    ) == {
        (8, "orders", 0): E.NONE,
        (9, "orders", 1): E.NONE,
        (9, "orders", 7): E.UNKNOWN_TOPIC_OR_PARTITION,
        (9, "nowhere", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert markers_in(world) == [((8, 2), True, 4)]
    assert markers_in(world, partition=1) == [((9, 0), False, 4)]
    assert read(world).last_stable_offset == 2


def test_markers_from_the_past(world, make_batch):
    produce(world, make_batch, (8, 2))
    write_markers(world, (8, 2, True, 4, "orders", 0))

    assert write_markers(world, (8, 2, False, 3, "orders", 0)) == {
        (8, "orders", 0): E.TRANSACTION_COORDINATOR_FENCED
    }
    assert write_markers(world, (8, 1, False, 5, "orders", 0)) == {(8, "orders", 0): E.INVALID_PRODUCER_EPOCH}
    assert len(markers_in(world)) == 1


def test_a_marker_that_names_a_partition_twice_is_written_once(world, make_batch):
    produce(world, make_batch, (8, 2))
    topic = WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 0])
    strange = WritableTxnMarkerTopic(name="nowhere", partition_indexes=[7, 7])
    marker = WritableTxnMarker(
        producer_id=8,
        producer_epoch=2,
        transaction_result=True,
        coordinator_epoch=4,
        topics=[topic, topic, strange],
    )
    (answer,) = world.send(WriteTxnMarkersRequest(markers=[marker]), 1).markers

    assert {
        (topic.name, each.partition_index, E.of(each.error_code))
        for topic in answer.topics
        for each in topic.partitions
    } == {("orders", 0, E.NONE), ("nowhere", 7, E.UNKNOWN_TOPIC_OR_PARTITION)}
    assert markers_in(world) == [((8, 2), True, 4)]


@pytest.mark.parametrize("nobody", [(-1, 0), (7, -1)])
def test_a_marker_of_nobody_fails_where_it_would_be_written(world, nobody):
    """As in Kafka 3.9.2: then the whole request, with what was written before it."""
    assert write_markers(world, (*nobody, True, 0, "orders", 9), (8, 0, True, 0, "orders", 1)) == {
        (nobody[0], "orders", 9): E.UNKNOWN_TOPIC_OR_PARTITION,
        (8, "orders", 1): E.NONE,
    }
    assert write_markers(world, (9, 0, True, 0, "orders", 1), (*nobody, True, 0, "orders", 0)) == {
        (9, "orders", 1): E.UNKNOWN_SERVER_ERROR,
        (nobody[0], "orders", 0): E.UNKNOWN_SERVER_ERROR,
    }
    assert [world.partition("orders", each).log.log_end_offset for each in range(2)] == [0, 2]


def test_a_follower_writes_no_markers(world):
    world.create("elsewhere", leader=OTHER, isr=(ME, OTHER))

    assert write_markers(world, (8, 2, True, 4, "elsewhere", 0)) == {
        (8, "elsewhere", 0): E.NOT_LEADER_OR_FOLLOWER
    }


def test_no_markers_no_answers(world):
    assert write_markers(world) == {}


def test_a_thousand_markers_in_one_request(world):
    asked = [(producer_id, 0, True, 1, "orders", 0) for producer_id in range(1000)]
    found = world.start(
        WriteTxnMarkersRequest(
            markers=[
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    transaction_result=committed,
                    coordinator_epoch=coordinator,
                    topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
                )
                for producer_id, epoch, committed, coordinator, topic, partition in asked
            ]
        ),
        1,
    )
    while found() is None:
        world.clock.advance()

    assert len(found().markers) == len(markers_in(world)) == 1000


def test_markers_that_too_few_replicas_have(make_world):
    world = make_world()
    world.create("orders", isr=(ME, OTHER))
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=8,
                producer_epoch=0,
                transaction_result=True,
                coordinator_epoch=0,
                topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0])],
            )
        ]
    )
    answer = world.start(request, 1)
    world.clock.advance(29_999)

    assert answer() is None
    world.clock.advance(1)
    assert answer().markers[0].topics[0].partitions[0].error_code == E.REQUEST_TIMED_OUT


# --- TxnOffsetCommit


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_while_their_partition_is_loaded(world, version):
    world.create("source")
    producer = init(world)
    partition = world.coordinator.partition_for("g")
    world.coordinator._runtime._unload(partition)
    world.coordinator._runtime.loading[partition] = None

    told = E.COORDINATOR_LOAD_IN_PROGRESS if version >= 2 else E.COORDINATOR_NOT_AVAILABLE
    assert commit_offset(world, producer, 7, version=version) is told


def test_offsets_that_a_client_may_not_commit(world, authorizer):
    world.create("source")
    producer = init(world)
    assert commit_offset(world, producer, 7, topic="nowhere") is E.UNKNOWN_TOPIC_OR_PARTITION
    for denied, told in (
        ((Operation.READ, Resource.TOPIC, "source"), E.TOPIC_AUTHORIZATION_FAILED),
        ((Operation.READ, Resource.GROUP, "g"), E.GROUP_AUTHORIZATION_FAILED),
        ((Operation.WRITE, Resource.TRANSACTIONAL_ID, ID), E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ):
        authorizer.denied.add(denied)
        assert commit_offset(world, producer, 7) is told


def test_a_member_of_an_earlier_generation_commits_nothing(world):
    world.create("source")
    producer = init(world)

    assert commit_offset(world, producer, 7, generation_id=3, member_id="gone") is E.UNKNOWN_MEMBER_ID


# --- rights, in the order in which Kafka asks


def test_the_right_to_an_id_comes_first(world, authorizer, make_batch):
    producer = init(world)
    authorizer.denied = {(Operation.WRITE, Resource.TRANSACTIONAL_ID, ID)}
    authorizer.asked.clear()

    assert init(world) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert add(world, producer) == {("orders", 0): E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert end(world, producer) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert add_offsets(world, producer) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert commit_offset(world, producer, 7) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert set(authorizer.asked) == {("WRITE", "TRANSACTIONAL_ID", ID)}
    assert produce(world, make_batch, producer) is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_then_that_to_the_group(world, authorizer):
    producer = init(world)
    authorizer.denied = {(Operation.READ, Resource.GROUP, "g")}
    authorizer.asked.clear()

    assert add_offsets(world, producer) is E.GROUP_AUTHORIZATION_FAILED
    assert authorizer.asked == [("WRITE", "TRANSACTIONAL_ID", ID), ("READ", "GROUP", "g")]


def test_who_may_write_markers(world, authorizer):
    cluster = Resource.CLUSTER, "kafka-cluster"
    marker = (8, 0, True, 0, "orders", 0)
    authorizer.denied = {(Operation.ALTER, *cluster)}
    assert write_markers(world, marker) == {(8, "orders", 0): E.NONE}
    authorizer.denied = {(Operation.CLUSTER_ACTION, *cluster)}
    assert write_markers(world, marker) == {(8, "orders", 0): E.NONE}
    authorizer.denied = {(Operation.ALTER, *cluster), (Operation.CLUSTER_ACTION, *cluster)}
    authorizer.asked.clear()

    assert write_markers(world, marker) == {(8, "orders", 0): E.CLUSTER_AUTHORIZATION_FAILED}
    assert authorizer.asked == [
        ("ALTER", "CLUSTER", "kafka-cluster"),
        ("CLUSTER_ACTION", "CLUSTER", "kafka-cluster"),
    ]
    assert len(markers_in(world)) == 2


def test_only_brokers_ask_for_several_transactions(world, authorizer):
    authorizer.denied = {(Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")}

    assert add_by_broker(world, (ID, (1, 0), True)) is E.CLUSTER_AUTHORIZATION_FAILED


def test_what_is_described_and_listed_is_what_the_client_may_see(world, authorizer):
    world.create("secret")
    producer = init(world)
    add(world, producer, [*topics(1, 0), *topics(topic="secret")])
    init(world, transactional_id="hidden")
    authorizer.denied = {
        (Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "hidden"),
        (Operation.DESCRIBE, Resource.TOPIC, "secret"),
    }

    seen, hidden, unknown = described_of(world, ID, "hidden", "unknown")
    assert (seen.error_code, seen.transaction_state, seen.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (seen.producer_id, seen.producer_epoch) == producer
    assert seen.transaction_start_time_ms == world.clock.time_ms()
    assert [(each.topic, each.partitions) for each in seen.topics] == [("orders", [1, 0])]
    assert hidden.error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert unknown.error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    listed = world.send(ListTransactionsRequest(state_filters=["Ongoing", "Empty", "Odd"]), 1)
    assert listed.unknown_state_filters == ["Odd"]
    assert [(each.transactional_id, each.transaction_state) for each in listed.transaction_states] == [
        (ID, "Ongoing")
    ]
    assert "secret" in world.transaction_coordinator.describe(ID).partitions


def test_markers_wait_for_partitions_without_a_leader_and_for_those_of_a_dead_broker(world):
    producer = init(world)
    state = UpdateMetadataPartitionState

    def led_by(*leaders, epoch):
        states = [
            state(
                partition_index=i,
                controller_epoch=1,
                leader=leader,
                leader_epoch=epoch,
                isr=[ME],
                replicas=[ME],
            )
            for i, leader in enumerate(leaders)
        ]
        world.update_metadata({"orders": states})

    add(world, producer, topics(0, 1))
    led_by(NO_LEADER, 99, epoch=1)
    assert end(world, producer) is E.NONE
    world.clock.advance(500)
    assert described_of(world, ID)[0].transaction_state == "PrepareCommit"
    led_by(ME, 99, epoch=2)
    world.clock.advance(500)
    assert [each.partitions for each in described_of(world, ID)[0].topics] == [[1]]
    led_by(ME, ME, epoch=3)
    world.clock.advance(500)

    assert described_of(world, ID)[0].transaction_state == "CompleteCommit"
