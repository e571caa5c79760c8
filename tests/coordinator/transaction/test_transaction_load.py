"""What a coordinator finds that another one wrote, and goes on with."""

import pytest
from transaction_rig import ID, ORDERS, PAYMENTS, TIMEOUT_MS, Rig, outcome

from barnabas.coordinator.runtime.decoding import RECORD_PIECE_LENGTH
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.transaction.bulk import decode_ids
from barnabas.coordinator.transaction.state_machine import REPLICATED_TIMEOUT_MS
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import partitions_in
from barnabas.core.pending import Pending
from barnabas.protocol.coordinator.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

S, E = TransactionState, ErrorCode
PRODUCER = (77, 4)


def record(state, *, transactional_id=ID, partitions=(ORDERS, PAYMENTS), version=0, **fields):
    given = {
        "producer_id": PRODUCER[0],
        "producer_epoch": PRODUCER[1],
        "transaction_timeout_ms": 60_000,
        "transaction_status": state,
        "transaction_last_update_timestamp_ms": 500,
        "transaction_start_timestamp_ms": 400,
        "transaction_partitions": [
            PartitionsSchema(topic=tp.topic, partition_ids=[tp.partition]) for tp in partitions
        ],
        **fields,
    }
    key = TransactionLogKey(transactional_id=transactional_id)
    return CoordinatorRecord(key, TransactionLogValue(**given), version)


def tombstone(transactional_id=ID):
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


@pytest.fixture
def rig():
    return Rig()


def elect(rig, *records, epoch=7):
    rig.coordinator.resigned(0, epoch - 1)
    rig.loads.records = records
    rig.coordinator.elected(0, epoch)
    return rig


@pytest.mark.parametrize("version", [0, 1])
def test_an_id_as_it_was_written(rig, version):
    metadata = elect(rig, record(S.ONGOING, version=version)).metadata()

    assert (metadata.producer, metadata.timeout_ms, metadata.state) == (PRODUCER, 60_000, S.ONGOING)
    assert (metadata.start_ms, metadata.last_update_ms) == (400, 500)
    assert list(partitions_in(metadata.partitions)) == [ORDERS, PAYMENTS]
    assert rig.end(PRODUCER) is None


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("partitions", [None, []])
def test_an_id_without_a_transaction_is_read_by_hand_as_by_its_schema(rig, state, partitions):
    """A million of them come in a big load: they do not go through the schema, as Kafka 4.4 writes them."""
    found = []
    for epoch, (version, client, previous) in enumerate(
        [(0, 0, -1), (1, 0, -1), (1, 2, -1), (1, 2, 77), (1, 0, 76)], 7
    ):
        written = record(
            state,
            version=version,
            transaction_partitions=partitions,
            client_transaction_version=client,
            previous_producer_id=previous,
        )
        (piece,) = decode_ids([written.encode()], 0, {})
        assert (len(piece) == RECORD_PIECE_LENGTH) is (version == 1 and previous < 0)
        metadata = elect(rig, written, epoch=epoch).metadata()
        assert (metadata.client_version, metadata.previous_producer_id) == (client, previous)
        others = set(metadata.__slots__) - {"client_version", "previous_producer_id"}
        found.append({name: getattr(metadata, name) for name in others})

    assert all(each == found[0] for each in found)
    assert found[0]["transactional_id"] == ID


def test_the_last_record_of_an_id_counts(rig):
    elect(
        rig,
        record(S.ONGOING),
        record(S.ONGOING, transactional_id="gone"),
        record(S.EMPTY, partitions=(), transaction_partitions=None),
        tombstone("gone"),
        tombstone("never there"),
    )

    assert rig.listed() == [ID]
    assert (rig.state(), list(partitions_in(rig.metadata().partitions))) == ("Empty", [])


def test_what_it_wrote_itself_it_reads_again(rig):
    producer = rig.ongoing(ORDERS, PAYMENTS)
    written = [records[0] for records in rig.journal.written]
    elect(rig, *written)

    assert (rig.metadata().producer, rig.state()) == (producer, "Ongoing")
    assert list(partitions_in(rig.metadata().partitions)) == [ORDERS, PAYMENTS]


@pytest.mark.parametrize(
    ("state", "committed", "complete"),
    [(S.PREPARE_COMMIT, True, "CompleteCommit"), (S.PREPARE_ABORT, False, "CompleteAbort")],
)
def test_the_markers_of_a_decided_end_are_sent_again(rig, state, committed, complete):
    elect(rig, record(state), record(S.ONGOING, transactional_id="open"))
    rig.turn()

    ((_, (marker,), _),) = rig.channel.sent
    assert (marker.producer, marker.committed, marker.coordinator_epoch) == (PRODUCER, committed, 7)
    assert list(partitions_in(marker.partitions)) == [ORDERS, PAYMENTS]
    rig.channel.answer()
    assert (rig.state(), rig.state("open")) == (complete, "Ongoing")


def test_but_not_before_the_replicas_have_the_decision(rig):
    rig.journal.whole = Pending()
    elect(rig, record(S.PREPARE_COMMIT))
    rig.turn(1000)

    assert rig.channel.sent == []
    # Meanwhile it is as if the markers were on their way.
    assert rig.end(PRODUCER) is E.CONCURRENT_TRANSACTIONS
    assert rig.end(PRODUCER, committed=False) is E.CONCURRENT_TRANSACTIONS
    assert rig.init() is E.CONCURRENT_TRANSACTIONS
    not_yet, rig.journal.whole = rig.journal.whole, Pending()
    not_yet.fail(KafkaError(E.REQUEST_TIMED_OUT))
    rig.turn(REPLICATED_TIMEOUT_MS)
    assert rig.channel.sent == []
    rig.journal.whole.complete(None)
    rig.turn()
    assert len(rig.channel.sent) == 1


def test_a_partition_that_is_not_in_the_metadata_waits_until_they_are_as_new_as_the_election(rig):
    rig.channel.is_new = False
    rig.channel.leaders[ORDERS] = None
    elect(rig, record(S.PREPARE_COMMIT))
    rig.turn()
    rig.channel.answer()  # of the other partition
    rig.turn(1000)

    assert (rig.state(), rig.coordinator.markers.unknown_destination_queue_size) == ("PrepareCommit", 1)
    rig.channel.is_new = True
    rig.coordinator.metadata_changed({"orders"})
    assert rig.state() == "CompleteCommit"


def test_a_coordinator_that_resigns_before_sends_none(rig):
    rig.journal.whole = Pending()
    elect(rig, record(S.PREPARE_COMMIT))
    rig.coordinator.resigned(0, 8)
    rig.journal.whole.complete(None)
    rig.turn()

    assert rig.channel.sent == []


def test_a_decided_end_whose_partitions_are_all_done(rig):
    elect(rig, record(S.PREPARE_COMMIT, partitions=()))

    assert rig.state() == "CompleteCommit"


# --- what cannot be read

STATE_THAT_THERE_IS_NOT = record(99)
LATER_VERSION = (record(S.ONGOING).encode()[0], b"\x00\x63" + bytes(30))
SHORT = (record(S.ONGOING).encode()[0], record(S.ONGOING).encode()[1][:-3])
WITHOUT_PARTITIONS = record(S.EMPTY, partitions=()).encode()
# The number of topics stands behind version, producer id, epoch, time-out and state.
MORE_TOPICS_THAN_THERE_ARE = (
    WITHOUT_PARTITIONS[0],
    WITHOUT_PARTITIONS[1][:17] + (1).to_bytes(4) + WITHOUT_PARTITIONS[1][21:],
)


@pytest.mark.parametrize(
    "unreadable", [STATE_THAT_THERE_IS_NOT, LATER_VERSION, SHORT, MORE_TOPICS_THAN_THERE_ARE]
)
def test_an_id_whose_last_record_cannot_be_read_has_no_coordinator(rig, unreadable, caplog):
    """The record before it must not count: the transaction may be committed, the producer be fenced."""
    elect(rig, record(S.ONGOING), unreadable, record(S.ONGOING, transactional_id="readable"))

    assert rig.listed() == ["readable"]
    for refused in (rig.init(), rig.add(PRODUCER), rig.end(PRODUCER), rig.verify(PRODUCER)):
        assert refused is E.NOT_COORDINATOR
    assert outcome(rig.metadata) is E.NOT_COORDINATOR
    assert "load.record_unreadable" in caplog.text
    assert f"load.transactional_id_unreadable transactional_id={ID} partition=0" in caplog.text
    assert rig.end(PRODUCER, transactional_id="readable") is None


def test_a_transaction_with_an_unreadable_record_is_not_ended_by_time(rig):
    elect(rig, record(S.ONGOING), STATE_THAT_THERE_IS_NOT)
    rig.turn(10 * TIMEOUT_MS)

    assert rig.channel.sent == []
    assert rig.journal.written == []


@pytest.mark.parametrize(("later", "found"), [(record(S.ONGOING), [ID]), (tombstone(), [])])
def test_a_later_record_of_the_id_says_all_of_it(rig, later, found, caplog):
    elect(rig, STATE_THAT_THERE_IS_NOT, later)

    assert rig.listed() == found
    assert isinstance(rig.init(), tuple) or rig.state() == "PrepareAbort"
    assert "load.transactional_id_unreadable" not in caplog.text


def test_the_next_coordinator_may_read_what_this_one_could_not(rig):
    elect(rig, STATE_THAT_THERE_IS_NOT)
    elect(rig, record(S.ONGOING), epoch=9)

    assert rig.end(PRODUCER) is None


@pytest.mark.parametrize("unreadable", ["a batch", (b"\x00\x00\x00\x09ab", None), (b"\x00", b"")])
def test_what_may_be_of_any_id_fails_the_load(rig, unreadable, caplog):
    elect(rig, record(S.ONGOING), unreadable)

    assert rig.end(PRODUCER) is rig.init(transactional_id="new") is E.NOT_COORDINATOR
    assert "load.failed" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("value", [b"\x00\x00", record(S.EMPTY, partitions=()).encode()[1]])
def test_a_record_of_a_later_type_is_no_ids(rig, caplog, value):
    """Nor is one whose value has the form of an id's."""
    elect(rig, record(S.ONGOING), (b"\x00\x63\x00\x05later", value))

    assert rig.listed() == [ID]
    assert rig.end(PRODUCER) is None
    assert "load.unknown_records" in caplog.text


def test_how_many_ids_were_given_up_is_told(rig, caplog):
    caplog.set_level("INFO")
    elect(rig, record(S.ONGOING), record(S.EMPTY, transactional_id="other", partitions=()))
    rig.coordinator.resigned(0, 8)

    assert "transactions.unload.finished partition=0 ids=2" in caplog.text


def test_a_later_election_ends_what_the_earlier_one_began(rig):
    producer = rig.ongoing()
    rig.end(producer)
    rig.turn()
    elect(rig, *(records[0] for records in rig.journal.written))
    rig.turn()

    # The first request is of the earlier coordinator epoch: its answer does not count.
    rig.channel.answer()
    assert rig.state() == "PrepareCommit"
    rig.turn()
    ((_, (marker,), _),) = rig.channel.sent
    assert marker.coordinator_epoch == 7
    rig.channel.answer()
    assert rig.state() == "CompleteCommit"


def test_ids_are_of_no_use_while_they_are_loaded():
    rig = Rig()
    rig.coordinator.resigned(0, 6)
    waiting = []
    rig.loads.load = lambda replay, log: waiting.append(replay) or _Load(replay)
    rig.coordinator.elected(0, 7)

    assert rig.init() is E.COORDINATOR_LOAD_IN_PROGRESS
    assert rig.add(PRODUCER) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert rig.end(PRODUCER) is E.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(KafkaError) as refused:
        rig.listed()
    assert refused.value.code is E.COORDINATOR_LOAD_IN_PROGRESS


class _Load:
    def __init__(self, replay):
        self.replay, self.done, self.cancelled = replay, Pending(), False
