"""What a coordinator knows of a partition that others wrote, and how it comes to know it."""

import logging

import pytest
from life_rig import Later, Life, SlowClock, Turns, code, commit_bytes, group_bytes

from barnabas.coordinator.runtime import loading
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.log.producers import AppendOrigin
from barnabas.protocol.coordinator.group_metadata import GroupMetadataValue
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest
from barnabas.records.compression import Codec
from barnabas.records.control import ControlType, EndTransactionMarker, build_marker
from handled import handled

PRODUCER = (77, 0)


def marker(kind, producer=PRODUCER):
    return build_marker(
        EndTransactionMarker(kind, 0), timestamp=1, producer_id=producer[0], producer_epoch=producer[1]
    )


@pytest.fixture
def big(monkeypatch):
    """Every partition that holds anything counts as a big one."""
    monkeypatch.setattr(loading, "IN_PLACE_BYTES_MAX", 0)


# --- what is in the records


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version(life, version):
    life.write(commit_bytes(42, version=version, metadata="note"))

    assert life.elect().fetched() == {("orders", 0): 42}


def test_a_commit_of_kafka_before_0_9(life):
    key, _ = commit_bytes(0)
    value = b"\0\0" + (42).to_bytes(8, "big") + b"\0\0" + (1000).to_bytes(8, "big")
    life.write((b"\0\0" + key[2:], value))

    assert life.elect().fetched() == {("orders", 0): 42}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_version_behind_the_first_kind_of_key(life, version):
    key, value = commit_bytes(42, version=version, metadata="note")
    life.write((b"\0\0" + key[2:], value))

    assert life.elect().fetched() == {("orders", 0): 42}


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_groups_of_every_version(life, version):
    life.write(group_bytes(version=version, members=["m-1", "m-2"]))

    described = life.elect().described("g")[0]

    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert [each.member_id for each in described.members] == ["m-1", "m-2"]


def test_the_later_record_wins(life):
    life.write(commit_bytes(1), commit_bytes(2), commit_bytes(8, partition=1))
    life.write(commit_bytes(3))

    assert life.elect().fetched() == {("orders", 0): 3, ("orders", 1): 8}


def test_tombstones_take_back(life):
    life.write(commit_bytes(1), commit_bytes(2, partition=1), group_bytes(), group_bytes("h"))
    life.write(commit_bytes(None), group_bytes("h", tombstone=True))

    life.elect()

    assert life.fetched() == {("orders", 1): 2}
    assert life.states() == {"g": "Empty"}


def test_a_group_that_was_taken_back_but_has_offsets_is_a_simple_one(life):
    life.write(group_bytes(), commit_bytes(5))
    life.write(group_bytes(tombstone=True))

    life.elect()

    assert life.states() == {"g": "Empty"}
    assert life.described("g")[0].protocol_type == ""
    assert life.fetched() == {("orders", 0): 5}


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches(life, codec):
    life.write(*[commit_bytes(each, partition=each) for each in range(50)], codec=codec)

    assert life.elect().fetched() == {("orders", each): each for each in range(50)}


def test_long_names_and_metadata(life):
    life.write(commit_bytes(7, topic="t" * 200, metadata="m" * 4000))

    assert life.elect().fetched() == {("t" * 200, 0): 7}


# --- transactions


def test_what_a_transaction_committed_counts_from_its_marker(life):
    life.write(commit_bytes(1))
    life.write(commit_bytes(9), producer=PRODUCER)
    life.append(marker(ControlType.COMMIT))

    assert life.elect().fetched() == {("orders", 0): 9}


def test_what_a_transaction_aborted_never_was(life):
    life.write(commit_bytes(1))
    life.write(commit_bytes(9), producer=PRODUCER)
    life.append(marker(ControlType.ABORT))

    assert life.elect().fetched() == {("orders", 0): 1}


def test_a_plain_commit_after_one_of_a_transaction_stays(life):
    life.write(commit_bytes(9), producer=PRODUCER)
    life.write(commit_bytes(10))
    life.append(marker(ControlType.COMMIT))

    assert life.elect().fetched() == {("orders", 0): 10}


def test_an_open_transaction_ends_after_the_load(life):
    life.write(commit_bytes(9), producer=PRODUCER)
    life.elect()
    before = life.fetched()

    partition = life.coordinator.partition_for("g")
    life.coordinator.complete_transaction(PRODUCER[0], {partition: 2**40}, committed=True)

    assert before == {}
    assert life.fetched() == {("orders", 0): 9}


def test_the_marker_of_one_producer_says_nothing_of_another(life):
    life.write(commit_bytes(9), producer=PRODUCER)
    life.write(commit_bytes(5, partition=1), producer=(88, 0))
    life.append(marker(ControlType.COMMIT, (88, 0)))

    assert life.elect().fetched()["orders", 1] == 5
    assert life.fetched().get(("orders", 0), -1) == -1


# --- what cannot be read


def test_unknown_types_pass_with_one_warning(life, caplog):
    unknown = (b"\x00\x63whatever", b"\x00\x00value")
    life.write(unknown, commit_bytes(1), unknown)
    life.write(unknown)

    with caplog.at_level(logging.WARNING):
        life.elect()

    assert life.fetched() == {("orders", 0): 1}
    assert [record.message for record in caplog.records if "unknown_records" in record.message] == [
        f"load.unknown_records partition={life.coordinator.partition_for('g')} type=99"
    ]


def test_records_of_the_consumer_protocol_pass_where_it_is_off(life, caplog):
    life.write((b"\x00\x03\x00\x01g", b"\x00\x00\x00\x00\x00\x05\x00"))

    with caplog.at_level(logging.WARNING):
        life.elect()

    assert life.states() == {}
    assert "type=3" in caplog.text


@pytest.mark.parametrize(
    "damaged",
    [
        (b"\x00\x01\x00", b"\x00\x03"),
        (b"\x00", b""),
        (commit_bytes(1)[0], b"\x00\x03short"),
        (commit_bytes(1)[0], b"\x00\x63" + bytes(30)),
        (commit_bytes(1)[0], commit_bytes(1)[1][:14] + b"\x7f\xff" + bytes(8)),
        (group_bytes()[0], b"\x00\x03\x00"),
        group_bytes("twins", members=["m", "m"]),
    ],
    ids=["key", "type", "value", "version", "metadata", "group", "members"],
)
def test_a_damaged_record_costs_only_itself(life, caplog, damaged):
    life.write(commit_bytes(1, partition=1), damaged, commit_bytes(2, partition=2))

    with caplog.at_level(logging.ERROR):
        life.elect()

    assert life.fetched() == {("orders", 1): 1, ("orders", 2): 2}
    assert "load.record_unreadable" in caplog.text


@pytest.mark.parametrize("key", [b"", b"\x00\x01", b"\x00\x00\x00\x01"])
def test_a_key_too_short_to_name_a_group_is_not_taken_for_another_groups(life, key):
    life.write(commit_bytes(1), commit_bytes(2, partition=1), group_bytes("h"), (key, None), (key, None))

    assert life.elect().fetched() == {("orders", 0): 1, ("orders", 1): 2}


@pytest.mark.parametrize("leader", [None, "stranger"])
def test_a_group_whose_leader_is_no_member_finds_another(life, leader):
    key, value = group_bytes(members=["m-1", "m-2"])
    stored = GroupMetadataValue.from_bytes(value)
    stored.leader = leader
    life.write((key, stored.to_bytes(3)))
    life.elect()

    answer = life.join(member_id="m-1", version=9)
    life.clock.advance(20_000)

    assert answer.result().leader == "m-1"


def test_a_damaged_batch_costs_only_itself(life, caplog):
    life.write(commit_bytes(1))
    life.write(commit_bytes(2, partition=1), codec=Codec.GZIP)
    log = life.log(life.coordinator.partition_for("g"))
    batch = bytearray(log.active.file.pread(log.size, 0))
    batch[-10:] = bytes(10)
    log.active.file.pwrite(batch, 0)
    life.write(commit_bytes(3, partition=2))

    with caplog.at_level(logging.ERROR):
        life.elect()

    assert life.fetched() == {("orders", 0): 1, ("orders", 2): 3}
    assert "load.batch_unreadable" in caplog.text


# --- how it is read


def test_a_big_partition_is_taken_apart_elsewhere(big):
    child = Later()
    life = Life(offload=child, offsets_load_buffer_size=300)
    for each in range(40):
        life.write(commit_bytes(each, partition=each), group_bytes(members=["m"]))

    life.elect()
    assert life.coordinator.loading == [life.coordinator.partition_for("g")]
    child.work()
    life.clock.advance()

    assert life.fetched() == {("orders", each): each for each in range(40)}
    assert life.states() == {"g": "Stable"}
    assert child.runs > 10


def test_a_batch_larger_than_the_buffer_is_read_whole(big):
    life = Life(offsets_load_buffer_size=10)
    life.write(*[commit_bytes(each, partition=each) for each in range(1200)])

    assert len(life.elect().fetched()) == 1200


def test_several_segments(big):
    life = Life(log_config={"segment_bytes": 2000})
    for each in range(100):
        life.write(commit_bytes(each, partition=each))
    assert len(life.log(life.coordinator.partition_for("g")).segments) > 3

    assert len(life.elect().fetched()) == 100


def test_what_the_child_cannot_read_is_read_here(big, caplog):
    child = Later()
    life = Life(offload=child, offsets_load_buffer_size=300)
    for each in range(40):
        life.write(commit_bytes(each, partition=each))
    life.elect()
    outcome, work = child.waiting.pop(0)
    outcome.complete(work())

    child.die()
    life.clock.advance()

    assert life.fetched() == {("orders", each): each for each in range(40)}
    assert "load.child_failed" in caplog.text


def test_others_have_their_turn_while_a_partition_is_loaded():
    life = Life(clock=SlowClock())
    for each in range(8):
        life.write(
            *[commit_bytes(place, group=f"g{each}", partition=place) for place in range(500)], group="g"
        )
    turns = []
    life.coordinator.elected(life.coordinator.partition_for("g"), 0)
    while life.coordinator.loading:
        turns.append(len(turns))
        life.clock.advance(1)

    assert len(turns) >= 8


def test_many_small_partitions_have_a_turn_each():
    """One LeaderAndIsr may bring fifty; together they would hold the loop for long."""
    clock = Turns()
    life = Life(clock=clock, offsets_topic_num_partitions=5)
    names = {life.coordinator.partition_for(name): name for name in "abcdefghij"}
    for name in names.values():
        life.write(commit_bytes(1, group=name), group=name)
    assert len(names) == 5

    for partition in names:
        life.coordinator.elected(partition, 0)
    left = [len(life.coordinator.loading)]
    while left[-1]:
        clock.turn()
        left.append(len(life.coordinator.loading))

    assert left == [5, 4, 3, 2, 1, 0]


def test_the_collector_is_told_during_a_big_load(big):
    life = Life()
    for _ in range(45):
        life.write(*[commit_bytes(place, partition=place) for place in range(1000)])

    life.elect()

    assert life.settled == 2


def test_one_partition_after_the_other(big):
    child = Later()
    life = Life(offload=child)
    groups = {life.coordinator.partition_for(name): name for name in ("a", "b", "c", "d")}
    for group in groups.values():
        life.write(commit_bytes(1, group=group), group=group)
    assert len(groups) == 2

    life.elect()

    assert len(child.waiting) == 1
    outcome, work = child.waiting.pop()
    outcome.complete(work())
    life.clock.advance()
    assert len(life.coordinator.loading) == 1
    child.work()
    assert life.coordinator.loading == []


# --- meanwhile


@pytest.fixture
def loading_life(big):
    life = Life(offload=Later())
    life.write(commit_bytes(4), group_bytes(members=["m"]))
    return life.elect()


def test_who_asks_during_a_load_is_told_to_wait(loading_life):
    life = loading_life
    loading_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert code(life.join) is loading_code
    assert code(life.commit) is loading_code
    assert code(life.fetched) is loading_code
    assert life.described("g")[0].error_code == loading_code
    assert life.delete("g")[0].error_code == loading_code
    assert life.listed().error_code == loading_code


def test_heartbeats_are_good_and_syncs_begin_anew_during_a_load(loading_life):
    coordinator = loading_life.coordinator

    beat = handled(coordinator, HeartbeatRequest(group_id="g", member_id="m", generation_id=3))

    assert beat.error_code == ErrorCode.NONE
    sync = SyncGroupRequest(group_id="g", member_id="m", generation_id=3)
    assert code(handled, coordinator, sync, 3) is ErrorCode.REBALANCE_IN_PROGRESS


def test_lists_what_is_known_while_another_partition_is_loaded(loading_life):
    other = next(
        name
        for name in ("a", "b", "c", "d")
        if loading_life.coordinator.partition_for(name) != loading_life.coordinator.partition_for("g")
    )
    loading_life.commit(other)

    listed = loading_life.listed()

    assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [each.group_id for each in listed.groups] == [other]


def test_resigning_drops_a_load(loading_life):
    life = loading_life
    partition = life.coordinator.partition_for("g")

    life.coordinator.resigned(partition, 1)
    life.offload.work()
    life.clock.advance()

    assert code(life.fetched) is ErrorCode.NOT_COORDINATOR
    assert life.coordinator.loading == []


def test_elected_again_during_a_load(loading_life):
    life = loading_life
    partition = life.coordinator.partition_for("g")

    life.coordinator.resigned(partition, 1)
    life.coordinator.elected(partition, 2)
    life.offload.work()
    life.clock.advance()
    life.offload.work()

    assert life.fetched() == {("orders", 0): 4}


def test_loaded_members_have_their_session_from_the_load_on(loading_life):
    life = loading_life
    life.clock.advance(60_000)
    life.offload.work()

    life.clock.advance(9_000)
    assert life.states() == {"g": "Stable"}
    life.clock.advance(1_001)
    assert life.states() == {"g": "Empty"}


def test_a_partition_that_cannot_be_read_is_not_served(caplog):
    """To answer that nothing was ever committed would send every member to where it never was."""
    life = Life()
    life.write(commit_bytes(1))
    life.disk.fail("/data", "read")

    life.elect()

    assert life.coordinator.loading == []
    assert code(life.fetched) is ErrorCode.NOT_COORDINATOR
    assert "load.failed" in caplog.text

    life.disk.heal()
    assert life.elect(1).fetched() == {("orders", 0): 1}


def test_appends_of_a_coordinator_are_trusted_those_of_a_client_are_not(life):
    """The records of a coordinator are not walked, though the topic is compacted; a client's are."""
    from barnabas.records.batch import build_batch
    from barnabas.records.record import Record

    log = life.log(0)
    batch = build_batch([Record(0, 1, None, b"v")])
    with pytest.raises(KafkaError) as refused:
        log.append(bytearray(batch), 0, 1)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    log.append(bytearray(batch), 0, 1, origin=AppendOrigin.COORDINATOR)


# --- a marker that another coordinator has written meanwhile


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_a_marker_that_comes_while_the_last_stretch_is_replayed_is_read_too(big, kind):
    child = Later()
    life = Life(offload=child, clock=SlowTurns())
    life.write(commit_bytes(42), producer=PRODUCER)
    for number in range(40):
        life.write(commit_bytes(0, group=f"other-{number}"))
    life.coordinator.elected(life.coordinator.partition_for("g"), 0)
    life.clock.turn()
    outcome, work = child.waiting.pop()
    outcome.complete(work())
    assert (life.coordinator.loading, child.waiting) == ([life.coordinator.partition_for("g")], [])
    life.append(marker(kind))
    complete(life, kind)
    while life.coordinator.loading:
        life.clock.turn()

    assert life.fetched() == ({("orders", 0): 42} if kind is ControlType.COMMIT else {})


def test_a_marker_that_comes_when_all_is_read_is_applied_too():
    life = Life(clock=SlowTurns())
    life.write(*[commit_bytes(0, group=f"other-{number}") for number in range(40)])
    life.write(commit_bytes(42), producer=PRODUCER)
    partition = life.coordinator.partition_for("g")
    life.coordinator.elected(partition, 0)
    load = life.coordinator._runtime.loading[partition]
    while not load.done.done:
        life.clock.turn()
    assert life.coordinator.loading == [partition], "the groups are being put in their places"
    life.append(marker(ControlType.COMMIT))
    complete(life, ControlType.COMMIT)
    while life.coordinator.loading:
        life.clock.turn()

    assert life.fetched() == {("orders", 0): 42}


def complete(life, kind):
    """What the handler of WriteTxnMarkers does when the replicas have the marker."""
    markers = {life.coordinator.partition_for("g"): 2**40}
    life.coordinator.complete_transaction(PRODUCER[0], markers, committed=kind is ControlType.COMMIT)


class SlowTurns(Turns, SlowClock):
    """Every slice is over after one step, and its next turn comes when a test says so."""
