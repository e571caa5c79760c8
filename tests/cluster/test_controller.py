"""Whole controllers on a memory store, with brokers that do as they are told."""

from itertools import pairwise

import pytest
from brokers_fake import FakeBroker, ask

from barnabas.cluster.controller.events import ZNODE_EVENTS
from barnabas.cluster.controller.fenced_store import ControllerMovedError
from barnabas.cluster.controller.znode_watches import ZnodeEvent
from barnabas.cluster.leadership import LeaderAndIsr, PartitionLeadership
from barnabas.cluster.metadata.registration import propagate_log_dir_event
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Change, Create, SetData, StoreUnavailableError
from barnabas.cluster.store.memory import MemoryStore
from barnabas.cluster.store.sqlite import SqliteStore
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import STATE_CHANGES
from barnabas.core.ids import EPOCH_DURING_DELETE, LEADER_DURING_DELETE, TopicPartition
from barnabas.core.pending import steps
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.stop_replica import StopReplicaRequest
from barnabas.protocol.messages.update_metadata import UpdateMetadataRequest

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


# -------------------------------------------------------------------------------- one broker


def test_one_broker_elects_itself_and_learns_of_itself(make_cluster):
    cluster = make_cluster()
    broker = cluster.brokers[0]

    assert broker.controller.is_active
    assert broker.controller.epoch == 1
    assert broker.cache.controller_id == 0
    assert [each.id for each in broker.cache.alive_brokers()] == [0]
    assert broker.cache.broker_endpoint(0, "CLIENT").host == "host0"
    (update,) = broker.sent(UpdateMetadataRequest)
    assert (update.controller_epoch, update.topic_states) == (1, [])
    assert update.broker_epoch == broker.registration.broker_epoch


def test_a_topic_comes_to_life(make_cluster):
    cluster = make_cluster()
    broker = cluster.brokers[0]
    created = cluster.create("t", num_partitions=2, configs={"retention.ms": "1000"})

    assert broker.cache.topic_id("t") == created.topic_id
    assert broker.cache.topic_name(created.topic_id) == "t"
    assert {tp: state.leader for tp, state in broker.led.items()} == {T0: 0, T1: 0}
    (request,) = broker.sent(LeaderAndIsrRequest)
    (topic,) = request.topic_states
    assert topic.topic_id == created.topic_id
    assert [(each.is_new, each.leader_epoch, each.partition_epoch) for each in topic.partition_states] == [
        (True, 0, 0)
    ] * 2
    assert [(each.broker_id, each.host_name, each.port) for each in request.live_leaders] == [
        (0, "127.0.0.1", 19000)
    ]
    assert broker.cache.leader_endpoint(T0, "INTERNAL").port == 19000


def test_leader_and_isr_goes_out_before_update_metadata(make_cluster):
    cluster = make_cluster()
    broker = cluster.brokers[0]
    broker.requests.clear()
    cluster.create("t")

    assert [type(each) for each in broker.requests] == [LeaderAndIsrRequest, UpdateMetadataRequest]


def test_a_topic_is_deleted(make_cluster):
    cluster = make_cluster()
    broker = cluster.brokers[0]
    cluster.create("t", num_partitions=2, configs={"retention.ms": "1000"})
    broker.requests.clear()
    cluster.delete("t")

    assert sorted(broker.deleted) == [T0, T1]
    assert "t" not in broker.cache
    assert not any("/t" in path.removeprefix("/brokers/topics") for path in cluster.paths("/brokers/topics"))
    assert "/config/topics/t" not in cluster.paths()
    assert "/admin/delete_topics/t" not in cluster.paths()
    leaders = {
        state.leader
        for update in broker.sent(UpdateMetadataRequest)
        for topic in update.topic_states
        for state in topic.partition_states
    }
    assert leaders == {LEADER_DURING_DELETE}
    epochs = {
        (state.leader_epoch, state.delete_partition)
        for stop in broker.sent(StopReplicaRequest)
        for topic in stop.topic_states
        for state in topic.partition_states
    }
    assert epochs == {(EPOCH_DURING_DELETE, False), (EPOCH_DURING_DELETE, True)}


def test_a_deleted_name_can_be_used_again_with_another_id(make_cluster):
    cluster = make_cluster()
    first = cluster.create("t").topic_id
    cluster.delete("t")
    second = cluster.create("t").topic_id

    assert first != second
    assert cluster.brokers[0].cache.topic_id("t") == second
    assert T0 in cluster.brokers[0].led
    cluster.delete("t")
    assert cluster.brokers[0].deleted == [T0, T0], "the replica of each"


def test_deletion_may_be_switched_off(make_cluster):
    cluster = make_cluster(delete_topic_enable=False)
    cluster.create("t")
    cluster.delete("t")

    assert "t" in cluster.brokers[0].cache
    assert "/admin/delete_topics/t" not in cluster.paths()


def test_a_mark_that_a_controller_finds_is_removed_where_deletion_is_switched_off(make_cluster):
    """The topic is served as before."""
    cluster = make_cluster(0, 1, 2, 3, delete_topic_enable=False)
    cluster.create("t", {0: [2, 3]})
    cluster.brokers[0].controller._queue.close()  # it is deaf, and still in office
    cluster.wait(cluster.brokers[3].store.create(znodes.delete_topic_path("t")))
    cluster.brokers[0].stop()
    assert "/admin/delete_topics/t" not in cluster.paths()

    assert cluster.controller is cluster.brokers[1]
    cluster.brokers[2].stop()
    assert (cluster.state("t").leader, cluster.brokers[3].cache.partition(T0).leader) == (3, 3)


def test_what_brokers_are_sent_is_in_the_state_change_log(make_cluster, caplog):
    cluster = make_cluster()
    # By its name: a broker that another test has run in this process may have given this logger a level.
    with caplog.at_level("INFO", logger=STATE_CHANGES):
        cluster.create("t")
        cluster.delete("t")
    for event in ("leader_and_isr.sent", "update_metadata.sent", "stop_replica.sent"):
        assert [each for each in caplog.messages if event in each], event


def test_a_mark_for_an_unknown_topic_is_removed(make_cluster):
    cluster = make_cluster()
    cluster.wait(cluster.brokers[0].store.create("/admin/delete_topics/ghost"))
    cluster.settle()

    assert "/admin/delete_topics/ghost" not in cluster.paths()


def test_a_deletion_that_a_controller_left_at_its_last_step_is_completed(make_cluster):
    """The topic's znodes were gone, the mark was not: each controller resigned over it, for ever."""
    cluster = make_cluster(0, 1)
    cluster.create("t", {0: [1]})
    cluster.create("doomed", {0: [1]})
    store = cluster.brokers[1].store
    cluster.brokers[0].controller._queue.close()  # it is deaf, and still in office
    for path in sorted(cluster.paths(znodes.topic_path("doomed")), reverse=True):
        cluster.wait(store.delete(path))
    cluster.wait(store.create(znodes.delete_topic_path("doomed")))
    cluster.brokers[0].stop()

    assert znodes.delete_topic_path("doomed") not in cluster.paths()
    assert cluster.controller is cluster.brokers[1]
    assert cluster.brokers[1].cache.partition(T0).leader == 1


def test_a_restart_finds_its_topics(make_cluster):
    cluster = make_cluster()
    cluster.create("t", num_partitions=2)
    broker = cluster.brokers[0]
    broker.stop()
    # What survives is the store, and the last member stays in the ISR.
    broker.start()

    assert broker.controller.epoch == 2
    assert sorted(broker.led) == [T0, T1]
    assert broker.led[T0].is_new is False
    assert cluster.state("t").leader == 0
    assert cluster.state("t").isr == (0,)


def test_partitions_are_added_by_writing_the_topic(make_cluster):
    cluster = make_cluster()
    created = cluster.create("t")
    broker = cluster.brokers[0]
    data, _ = cluster.wait(broker.store.get("/brokers/topics/t"))
    topic = znodes.decode_topic(data)
    topic.partitions[1] = topic.partitions[0]
    cluster.wait(broker.store.set("/brokers/topics/t", znodes.encode_topic(topic)))
    cluster.settle()

    assert sorted(broker.led) == [T0, T1]
    assert sorted(broker.cache.partitions("t")) == [0, 1]
    assert broker.cache.topic_id("t") == created.topic_id


# ------------------------------------------------------------------------------ three brokers


@pytest.fixture
def three(make_cluster):
    return make_cluster(0, 1, 2)


def test_every_broker_knows_all(three):
    for broker in three.brokers.values():
        assert [each.id for each in broker.cache.alive_brokers()] == [0, 1, 2]
        assert broker.cache.controller_id == 0
    assert [each.controller.is_active for each in three.brokers.values()] == [True, False, False]


def test_a_topic_on_three(three):
    three.create("t", {0: [1, 2, 0], 1: [2, 0, 1]})

    assert {broker.id: sorted(broker.led) for broker in three.brokers.values()} == {0: [], 1: [T0], 2: [T1]}
    assert sorted(three.brokers[0].followed) == [T0, T1]
    assert three.state("t").isr == (1, 2, 0)


def test_a_leader_dies_and_the_next_in_sync_takes_over(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].stop()

    state = three.state("t")
    # Two decisions, as in Kafka: the election, and the removal from the ISR that it found done already.
    assert (state.leader, state.isr, state.leader_epoch) == (2, (2, 0), 1)
    assert three.brokers[2].led[T0].leader_epoch == 1
    assert three.brokers[0].cache.partition(T0).leader == 2
    assert three.brokers[0].cache.partition(T0).offline_replicas == (1,)
    assert [each.id for each in three.brokers[0].cache.alive_brokers()] == [0, 2]


def test_the_next_leader_is_chosen_in_the_order_of_the_assignment(three):
    three.create("t", {0: [1, 2, 0]})
    _altered(three, 1, [0, 1, 2])
    three.brokers[1].stop()

    assert (three.state("t").leader, three.state("t").isr) == (2, (0, 2)), "0 is first in the ISR"


def test_a_shutdown_gives_the_leadership_on_in_the_order_of_the_assignment(three):
    three.create("t", {0: [1, 2, 0]})
    _altered(three, 1, [0, 1, 2])
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    three.wait(ask(three.controller.controller, request))

    assert (three.state("t").leader, three.state("t").isr) == (2, (0, 2))


def test_an_unclean_leader_is_the_first_that_lives_in_the_order_of_the_assignment(make_cluster):
    cluster = make_cluster(0, 1, 2, 3)
    cluster.create("t", {0: [3, 2, 1]}, {"unclean.leader.election.enable": "true"})
    _altered(cluster, 3, [3])
    cluster.brokers[3].stop()

    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))


def _meanwhile(cluster, state, *, controller_epoch=1):
    """The leader of t-0 writes this state just before the controller's next write of it."""
    path = znodes.partition_state_path(T0)
    data = znodes.encode_partition_state(PartitionLeadership(state, controller_epoch))
    write, waiting = cluster.ensemble.write, [True]

    def after_another(session_id, operations):
        if waiting and any(isinstance(each, SetData) and each.path == path for each in operations):
            waiting.clear()
            write(session_id, [SetData(path, data)])
        return write(session_id, operations)

    cluster.ensemble.write = after_another


def test_an_election_is_held_again_where_the_leader_wrote_meanwhile(three):
    three.create("t", {0: [1, 2, 0]})
    _meanwhile(three, LeaderAndIsr(1, (1, 0)))
    three.brokers[1].stop()

    assert (three.state("t").leader, three.state("t").isr) == (0, (0,)), "2 was dropped a moment before"
    assert three.brokers[0].led[T0].isr == [0]


def test_an_isr_that_the_leader_changed_meanwhile_is_shrunk_from_there(three):
    three.create("t", {0: [1, 2, 0]})
    _meanwhile(three, LeaderAndIsr(1, (1, 2)))
    three.brokers[2].stop()

    assert (three.state("t").leader, three.state("t").isr) == (1, (1,))
    assert three.brokers[1].led[T0].isr == [1]


def test_a_state_of_a_later_controller_is_not_touched(three):
    three.create("t", {0: [1, 2, 0]})
    later = znodes.encode_partition_state(PartitionLeadership(LeaderAndIsr(1, (1, 2, 0), 7), 99))
    three.wait(three.brokers[0].store.set(znodes.partition_state_path(T0), later))
    three.brokers[2].stop()
    three.brokers[1].stop()

    assert (three.state("t").leader, three.state("t").isr, three.state("t").leader_epoch) == (1, (1, 2, 0), 7)


def test_two_replicas_die_one_after_the_other(three):
    three.create("t", {0: [0, 1, 2]})
    three.brokers[1].stop()
    three.brokers[2].stop()

    assert three.state("t").isr == (0,)
    assert three.brokers[0].led[T0].isr == [0]


def test_a_leader_and_the_controller_die_at_once(three):
    three.create("t", {0: [1, 2, 0]})
    for broker in (three.brokers[1], three.brokers[0]):
        broker.up = False
        three.ensemble.end(broker.store.session_id)
    three.settle()

    assert (three.state("t").leader, three.state("t").isr) == (2, (2,))
    assert three.controller.id == 2


def test_a_follower_dies_and_leaves_the_isr(three):
    three.create("t", {0: [0, 1, 2]})
    three.brokers[2].stop()

    state = three.state("t")
    assert (state.leader, state.isr, state.leader_epoch) == (0, (0, 1), 1)
    assert three.brokers[0].led[T0].isr == [0, 1]


def test_a_broker_that_comes_back_follows(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].stop()
    three.brokers[1].start()

    assert three.brokers[1].followed[T0].leader == 2
    assert three.brokers[1].cache.partition(T0).leader == 2
    assert three.state("t").isr == (2, 0)


def test_no_unclean_leader_unless_it_is_allowed(three):
    three.create("t", {0: [1, 2]})
    three.brokers[2].stop()
    three.brokers[1].stop()
    three.brokers[2].start()

    state = three.state("t")
    assert (state.leader, state.isr) == (-1, (1,))
    assert three.brokers[0].cache.partition(T0).leader == -1
    three.brokers[1].start()
    assert three.state("t").leader == 1


def test_an_unclean_leader_where_the_topic_allows_it(three):
    three.create("t", {0: [1, 2]}, {"unclean.leader.election.enable": "true"})
    three.brokers[2].stop()
    three.brokers[1].stop()
    three.brokers[2].start()

    state = three.state("t")
    assert (state.leader, state.isr, state.recovery_state.name) == (2, (2,), "RECOVERING")
    assert three.brokers[2].led[T0].leader_recovery_state == 1


def test_no_unclean_leader_where_the_topic_forbids_it(make_cluster):
    cluster = make_cluster(0, 1, 2, unclean_leader_election_enable=True)
    cluster.create("t", {0: [1, 2]}, {"unclean.leader.election.enable": "false"})
    cluster.create("u", {0: [1, 2]})
    for broker_id in (2, 1):
        cluster.brokers[broker_id].stop()
    cluster.brokers[2].start()

    assert cluster.state("t").leader == -1
    assert cluster.state("u").leader == 2


def test_allowing_unclean_election_tries_at_once(three):
    three.create("t", {0: [1, 2]})
    three.brokers[2].stop()
    three.brokers[1].stop()
    three.brokers[2].start()
    controller = three.controller
    three.wait(controller.configs.write("topics", "t", {"unclean.leader.election.enable": "true"}))
    controller.controller.unclean_election_enabled("t")
    three.settle()

    assert three.state("t").leader == 2


def test_a_partition_without_live_replica_starts_when_one_comes(three):
    three.brokers[2].stop()
    three.create("t", {0: [2]})
    assert "/brokers/topics/t/partitions/0/state" not in three.paths()
    three.brokers[2].start()

    assert three.state("t").leader == 2
    assert T0 in three.brokers[2].led


def test_a_bounce_faster_than_the_controller_looks(three):
    three.create("t", {0: [1, 2, 0]})
    broker = three.brokers[1]
    before = broker.registration.broker_epoch
    # Gone and back before any watch is processed: the controller sees the same id with a later czxid.
    three.ensemble.end(broker.store.session_id)
    replacement = FakeBroker(three, 1)
    three.brokers[1] = replacement
    replacement.start()

    assert replacement.registration.broker_epoch > before
    assert three.state("t").leader == 2
    assert replacement.followed[T0].leader == 2


def test_a_broker_that_is_back_before_anybody_looked_is_another(three):
    three.create("t", {0: [1, 2, 0]})
    broker = three.brokers[1]
    path = znodes.broker_path(1)
    data, _ = three.wait(broker.store.get(path))
    three.ensemble.end(broker.store.session_id)
    three.ensemble.write(three.brokers[2].store.session_id, [Create(path, data, ephemeral=True)])
    three.settle()

    assert (three.state("t").leader, three.state("t").isr) == (2, (2, 0))


def test_deletion_waits_for_a_dead_replica(three):
    three.create("t", {0: [0, 1]})
    three.brokers[1].stop()
    three.delete("t")
    assert "/admin/delete_topics/t" in three.paths()
    assert "t" not in three.brokers[0].cache

    three.brokers[1].start()
    assert "/admin/delete_topics/t" not in three.paths()
    assert "/brokers/topics/t" not in three.paths()
    assert T0 in three.brokers[1].deleted


def test_deletion_halts_where_a_log_directory_fails_and_goes_on_when_its_broker_is_back(three):
    three.create("t", {0: [0, 1]})
    three.brokers[1].failing_dirs.add(T0)
    three.delete("t")
    assert "/brokers/topics/t" in three.paths()

    three.brokers[1].stop()
    three.brokers[1].failing_dirs.clear()
    three.brokers[1].start()
    assert "/brokers/topics/t" not in three.paths()


@pytest.mark.parametrize("by_name", [False, True], ids=["", "answered as before version 5"])
def test_a_failed_log_directory_takes_its_replicas_offline(three, by_name):
    three.brokers[1].answers_by_name = by_name
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].failing_dirs.add(T0)
    notice = znodes.encode_log_dir_event(1)
    three.wait(
        three.brokers[1].store.create("/log_dir_event_notification/log_dir_event_", notice, sequence=True)
    )
    three.settle()

    assert (three.state("t").leader, three.state("t").isr) == (2, (2, 0))
    assert three.brokers[0].cache.partition(T0).offline_replicas == (1,)
    assert three.paths("/log_dir_event_notification/") == set()

    three.brokers[1].failing_dirs.clear()
    three.wait(
        three.brokers[1].store.create("/log_dir_event_notification/log_dir_event_", notice, sequence=True)
    )
    three.settle()
    assert _altered(three, 2, [2, 0, 1]).error_code == 0
    assert three.brokers[0].cache.partition(T0).offline_replicas == ()


def test_an_answer_about_other_partitions_brings_no_failed_replica_back(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].failing_dirs.add(T0)
    three.wait(propagate_log_dir_event(three.brokers[1].store, 1))
    three.settle()
    three.brokers[0].requests.clear()
    three.create("u", {0: [1, 2]})
    three.brokers[2].stop()

    assert three.state("u").leader == 1
    assert three.state("t").leader == 0
    said = [
        state.offline_replicas
        for request in three.brokers[0].sent(UpdateMetadataRequest)
        for topic in request.topic_states
        for state in topic.partition_states
        if topic.topic_name == "t"
    ]
    assert said
    assert all(1 in offline for offline in said), "not even for a moment"


def test_changed_endpoints_reach_all(three):
    from dataclasses import replace

    from barnabas.network.endpoints import Endpoint

    broker = three.brokers[2]
    moved = replace(broker.registration.broker, endpoints=(Endpoint("INTERNAL", "elsewhere", 1),))
    three.wait(broker.registration.update(moved))
    three.settle()

    assert three.brokers[0].cache.broker_endpoint(2, "INTERNAL").host == "elsewhere"


def test_a_broker_that_goes_right_after_it_wrote_its_registration(three, caplog):
    """The controller comes to read what is not there any more."""
    broker = three.brokers[2]
    path, store = znodes.broker_path(2), broker.store
    data, _ = three.wait(store.get(path))
    written, closed = store.set(path, data), store.close()
    broker.up = False
    three.wait(written)
    three.wait(closed)
    three.settle()

    assert [each.id for each in three.brokers[0].cache.alive_brokers()] == [0, 1]
    assert [each for each in caplog.records if each.levelname == "ERROR"] == []


# ------------------------------------------------------------- what UpdateMetadata says, and to whom


def _partitions_named(update):
    return sorted((topic.topic_name, len(topic.partition_states)) for topic in update.topic_states)


def test_a_broker_that_starts_learns_all_and_the_others_learn_of_it(three):
    three.create("t", {0: [0, 1], 1: [1, 0]})
    three.brokers[2].stop()
    three.brokers[0].requests.clear()
    three.brokers[2].start()

    (others,) = three.brokers[0].sent(UpdateMetadataRequest)
    assert (_partitions_named(others), [each.id for each in others.live_brokers]) == ([], [0, 1, 2])
    (own,) = three.brokers[2].sent(UpdateMetadataRequest)
    assert (_partitions_named(own), [each.id for each in own.live_brokers]) == ([("t", 2)], [0, 1, 2])


def test_a_broker_without_partitions_stops_and_the_others_learn_of_it(three):
    three.create("t", {0: [0, 1]})
    three.brokers[0].requests.clear()
    three.brokers[2].stop()

    (update,) = three.brokers[0].sent(UpdateMetadataRequest)
    assert (_partitions_named(update), [each.id for each in update.live_brokers]) == ([], [0, 1])
    assert not three.brokers[0].sent(LeaderAndIsrRequest)


def test_a_replica_that_is_offline_and_never_had_a_leader_is_no_reason_to_name_its_partition(three):
    three.brokers[2].stop()
    three.create("t", {0: [2]})
    three.brokers[1].requests.clear()
    three.brokers[0].stop()

    updates = three.brokers[1].sent(UpdateMetadataRequest)
    assert len(updates) == 2, "of the fail-over, and of the replica"
    assert all(_partitions_named(update) == [] for update in updates)
    assert [each.id for each in updates[-1].live_brokers] == [1]


# --------------------------------------------------------------------------- znodes of other times


def test_an_isr_that_a_broker_wrote_itself_reaches_all(three):
    three.create("t", {0: [1, 2, 0]})
    path = znodes.partition_state_path(T0)
    payload = znodes.decode_json(three.ensemble.table.find(path).data) | {"isr": [1, 0]}
    three.wait(three.brokers[1].store.set(path, znodes.encode_json(payload)))
    notices = (znodes.encode_partitions([T0, TopicPartition("nowhere", 0)]), b"no json")
    for notice in notices:
        three.wait(three.brokers[1].store.create(f"{znodes.ISR_CHANGES}/isr_change_", notice, sequence=True))
    three.settle()

    for broker in three.brokers.values():
        assert broker.cache.partition(T0).isr == (1, 0)
    assert three.paths(f"{znodes.ISR_CHANGES}/") == set()
    assert _altered(three, 1, [1]).error_code == 0, "the controller knows the partition's epoch"


def test_features_that_are_switched_off_are_switched_on(three):
    off = znodes.encode_json({"version": 2, "status": 0, "features": {"old": 1}})
    three.wait(three.brokers[1].store.set(znodes.FEATURE, off))
    three.brokers[0].stop()

    assert three.controller.id in (1, 2)
    assert three.ensemble.table.find(znodes.FEATURE).data == znodes.encode_feature()


def test_finalized_features_stay(three):
    finalized = znodes.encode_json({"version": 2, "status": 1, "features": {"new": 3}})
    three.wait(three.brokers[1].store.set(znodes.FEATURE, finalized))
    three.brokers[0].stop()

    assert three.ensemble.table.find(znodes.FEATURE).data == finalized


def test_a_broker_tells_of_a_failed_log_directory(three):
    three.create("t", {0: [1, 2]})
    three.brokers[1].failing_dirs = {T0}
    three.wait(propagate_log_dir_event(three.brokers[1].store, 1))
    three.settle()

    assert three.state("t").leader == 2
    assert three.brokers[0].cache.partition(T0).offline_replicas == (1,)


# ------------------------------------------------------------------------------ listeners


@pytest.mark.parametrize(
    ("missing", "options"),
    [("INTERNAL", {}), ("CONTROL", {"control_plane_listener": "CONTROL"})],
)
def test_a_broker_without_a_needed_listener_never_becomes_live_and_the_others_go_on(
    make_cluster, caplog, missing, options
):
    cluster = make_cluster(0, 1, 2, **options)
    cluster.create("t", {0: [2, 1, 0]})
    cluster.brokers[2].stop()
    cluster.brokers[2].lacks = (missing,)
    cluster.brokers[2].start()
    cluster.create("u", {0: [1, 2], 1: [0, 1]})

    assert f"End point with listener name {missing} not found for broker 2" in caplog.text
    assert cluster.controller.controller.epoch == 1, "no controller had to resign"
    assert cluster.brokers[2].requests == []
    for broker in (cluster.brokers[0], cluster.brokers[1]):
        assert [each.id for each in broker.cache.alive_brokers()] == [0, 1]
        assert broker.cache.partition(T0).leader == 1
    assert TopicPartition("u", 1) in cluster.brokers[0].led
    assert cluster.state("u").isr == (1,)


def test_a_broker_that_gets_the_listener_becomes_live(make_cluster):
    cluster = make_cluster(0, 1)
    cluster.brokers[1].stop()
    cluster.brokers[1].lacks = ("INTERNAL",)
    cluster.brokers[1].start()
    assert [each.id for each in cluster.brokers[0].cache.alive_brokers()] == [0]
    cluster.brokers[1].stop()
    cluster.brokers[1].lacks = ()
    cluster.brokers[1].start()

    assert [each.id for each in cluster.brokers[0].cache.alive_brokers()] == [0, 1]


def test_a_registration_with_an_unknown_protocol_is_left_out(three, caplog):
    text = three.ensemble.table.find("/brokers/ids/1").data
    strange = text.replace(b'"CLIENT":"SSL"', b'"CLIENT":"QUIC"').replace(b"INTERNAL", b"INSIDE")
    three.wait(three.brokers[0].store.create("/brokers/ids/7", strange, ephemeral=True))
    three.settle()
    three.create("t", {0: [1, 2]})

    assert "znode_unreadable path=/brokers/ids/7" in caplog.text
    assert three.state("t").leader == 1


def test_live_leaders_are_named_on_the_inter_broker_listener(make_cluster):
    cluster = make_cluster(0, 1, control_plane_listener="CONTROL")
    cluster.create("t", {0: [1, 0]})
    (request,) = cluster.brokers[0].sent(LeaderAndIsrRequest)

    assert [(each.broker_id, each.port) for each in request.live_leaders] == [(1, 19001)]


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, ErrorCode.BROKER_NOT_AVAILABLE), (5, ErrorCode.UNKNOWN_SERVER_ERROR)]
)
def test_an_unknown_broker_cannot_ask_to_shut_down(three, epoch, code):
    leaving = ControlledShutdownRequest(broker_id=9, broker_epoch=epoch)

    answer = three.wait(ask(three.controller.controller, leaving))

    assert (answer.error_code, answer.remaining_partitions) == (code, [])


def test_a_controller_resigns_when_it_cannot_tell_the_brokers(three, caplog):
    three.create("t", {0: [1, 2, 0]})
    broker = three.brokers[2]
    broker.lacks = ("INTERNAL",)
    three.wait(broker.registration.update(broker.describe()))
    three.settle()
    leaving = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    answer = three.wait(ask(three.controller.controller, leaving))
    assert three.state("t").leader == 2, "written, but its address cannot be told"
    three.settle()

    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "forced_to_resign" in caplog.text
    assert three.controller.controller.epoch == 2
    for each in (three.brokers[0], three.brokers[1]):
        assert [other.id for other in each.cache.alive_brokers()] == [0, 1], "the next one left it out"
    assert three.state("t").leader == 0
    assert T0 in three.brokers[0].led


# ----------------------------------------------------------------------- failover and fencing


def test_another_controller_takes_over_where_the_first_stopped(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[0].stop()

    assert three.controller.controller.epoch == 2
    assert three.state("t").isr == (1, 2)
    for broker in (three.brokers[1], three.brokers[2]):
        assert broker.cache.controller_id == three.controller.id
        assert broker.controller_epoch == 2
    three.create("u", {0: [2, 1]})
    assert TopicPartition("u", 0) in three.brokers[2].led


def test_a_successor_finishes_a_deletion(three):
    three.create("t", {0: [1, 2]})
    three.delivers = False
    three.delete("t")
    assert "/brokers/topics/t" in three.paths()
    three.delivers = True
    three.brokers[0].stop()

    assert "/brokers/topics/t" not in three.paths()
    assert T0 in three.brokers[1].deleted


def test_an_old_controller_cannot_write(three):
    three.create("t", {0: [1, 2, 0]})
    old = three.brokers[0].controller
    term = old._term
    # Its session ends without its noticing; another is elected.
    three.ensemble._sessions[three.brokers[0].store.session_id].changed = lambda changes: None
    store = three.brokers[1].store
    _, stat = three.wait(store.get("/controller_epoch"))
    three.wait(store.set("/controller_epoch", b"2", stat.version))
    before = three.state("t")
    answer = three.wait(ask(old, _alteration(three, 1, [1, 2]), 3))

    assert answer.error_code == ErrorCode.NOT_CONTROLLER
    assert three.state("t") == before
    assert term is not None


def test_an_expired_controller_resigns_registers_again_and_stands_again(three):
    three.create("t", {0: [1, 2, 0]})
    broker = three.brokers[0]
    epoch = broker.registration.broker_epoch
    three.ensemble.expire(broker.store.session_id)
    three.settle()

    assert broker.registration.broker_epoch > epoch
    assert sum(each.controller.is_active for each in three.brokers.values()) == 1
    assert three.controller.controller.epoch == 2
    assert 0 in [each.id for each in three.brokers[1].cache.alive_brokers()]
    assert broker.cache.controller_id == three.controller.id


def test_a_controller_has_resigned_when_the_next_session_may_begin(three):
    controller = three.brokers[0].controller
    assert controller.is_active
    three.wait(controller.session_expired())

    assert not controller.is_active


@pytest.mark.parametrize(
    "path",
    [
        "/controller_epoch",
        "/log_dir_event_notification",
        "/brokers/ids/1",
        "/brokers/topics",
        "/admin/delete_topics",
        "/config/topics/t",
    ],
)
def test_a_session_that_ends_in_the_middle_of_an_event_is_no_error(three, caplog, path):
    """A kill run had ERROR lines of it: a broker that starts may end the session of one that is slow."""
    three.create("t", {0: [2]})  # no other replica: its election reads the topic's configuration
    call, ended = MemoryStore._call, []

    def end_before(store, called, function):
        if called == path and not ended:
            ended.append(path)
            three.ensemble.expire(store.session_id)
        return call(store, called, function)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryStore, "_call", end_before)
        if path == "/config/topics/t":
            three.brokers[2].stop()
        else:
            three.ensemble.expire(three.controller.store.session_id)
        three.settle()

    assert ended
    assert not [line.message for line in caplog.records if line.levelname == "ERROR"]
    assert sum(each.controller.is_active for each in three.brokers.values() if each.up) == 1
    up = [each.id for each in three.brokers.values() if each.up]
    assert [each.id for each in three.controller.cache.alive_brokers()] == up


def test_a_term_that_is_over_reads_and_writes_no_more(three):
    three.create("t", {0: [1, 2, 0]})
    term = three.brokers[0].controller._term
    three.wait(three.brokers[0].controller.session_expired())

    with pytest.raises(ControllerMovedError) as refused:
        three.wait(term.store.partition_states([T0]))
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.STALE_CONTROLLER_EPOCH,
        "The controller has resigned.",
    )


def test_questions_to_a_standby_are_refused(three):
    standby = three.brokers[1].controller

    shutdown = three.wait(ask(standby, ControlledShutdownRequest(broker_id=1, broker_epoch=-1)))
    assert shutdown.error_code == ErrorCode.STALE_CONTROLLER_EPOCH  # ControllerMovedException
    ids = three.wait(ask(standby, AllocateProducerIdsRequest(broker_id=1)))
    assert ids.error_code == ErrorCode.NOT_CONTROLLER
    assert three.wait(ask(standby, AlterPartitionRequest(), 3)).error_code == ErrorCode.NOT_CONTROLLER
    with pytest.raises(KafkaError) as caught:
        three.wait(standby.elect_leaders([T0], ElectionType.PREFERRED))
    assert caught.value.code is ErrorCode.NOT_CONTROLLER


# ------------------------------------------------------------------------------- AlterPartition


def _alteration(
    cluster, broker_id, isr, *, leader_epoch=None, partition_epoch=None, epoch=None, recovering=0
):
    state = cluster.state("t")
    partition = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=each) for each in isr],
        leader_recovery_state=recovering,
        partition_epoch=state.partition_epoch if partition_epoch is None else partition_epoch,
    )
    topic_id = cluster.brokers[broker_id].cache.topic_id("t")
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=cluster.brokers[broker_id].registration.broker_epoch if epoch is None else epoch,
        topics=[AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[partition])],
    )


def _altered(cluster, *args, **kwargs):
    response = cluster.wait(ask(cluster.controller.controller, _alteration(cluster, *args, **kwargs), 3))
    cluster.settle()
    return response.topics[0].partitions[0] if response.topics else response


def test_a_leader_shrinks_and_expands_its_isr(three):
    three.create("t", {0: [1, 2, 0]})
    for broker in three.brokers.values():
        broker.requests.clear()
    shrunk = _altered(three, 1, [1, 0])

    assert (shrunk.error_code, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (0, [1, 0], 0, 1)
    assert three.state("t").isr == (1, 0)
    assert three.brokers[2].cache.partition(T0).isr == (1, 0)
    assert not three.brokers[1].sent(LeaderAndIsrRequest)
    assert _altered(three, 1, [1, 0, 2]).partition_epoch == 2


def test_a_repeated_request_succeeds(three):
    three.create("t", {0: [1, 2, 0]})
    request = _alteration(three, 1, [1, 0])
    first = three.wait(ask(three.controller.controller, request, 3))
    again = three.wait(ask(three.controller.controller, request, 3))

    assert again.topics[0].partitions[0] == first.topics[0].partitions[0]
    assert three.state("t").partition_epoch == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"epoch": 0}, ErrorCode.STALE_BROKER_EPOCH),
        ({"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"recovering": 1}, ErrorCode.INVALID_REQUEST),
        ({"recovering": 1, "isr": [1]}, ErrorCode.INVALID_REQUEST),
        ({"isr": [1, 7]}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_alter_partition_refusals(three, change, code):
    three.create("t", {0: [1, 2, 0]})
    isr = change.pop("isr", [1, 0])

    assert _altered(three, 1, isr, **change).error_code == code
    assert three.state("t").isr == (1, 2, 0)


def test_a_broker_that_is_shutting_down_may_not_join(three):
    """KIP-841: its leader would wait for it, and it stops in a moment."""
    three.create("t", {0: [1, 2, 0]})
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=-1)
    three.wait(ask(three.controller.controller, request))
    assert three.state("t").isr == (1, 0)
    assert 2 in [each.id for each in three.brokers[1].cache.alive_brokers()]

    assert _altered(three, 1, [1, 0, 2]).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert three.state("t").isr == (1, 0)
    three.brokers[2].stop()
    three.brokers[2].start()
    assert _altered(three, 1, [1, 0, 2]).error_code == ErrorCode.NONE


def test_a_broker_that_is_shutting_down_leads_no_new_partition(three):
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    three.wait(ask(three.controller.controller, request))
    three.create("t", {0: [1, 2]})

    assert (three.state("t").leader, three.state("t").isr) == (2, (2,))


def test_a_recovery_state_that_nobody_knows_is_refused(three, caplog):
    three.create("t", {0: [1, 2, 0]})

    assert _altered(three, 1, [1], recovering=9).error_code == ErrorCode.INVALID_REQUEST
    assert three.state("t").isr == (1, 2, 0)
    assert not [each for each in caplog.records if each.exc_info]


def test_alter_partition_of_an_unknown_topic_id(three):
    three.create("t", {0: [1, 2, 0]})
    request = _alteration(three, 1, [1])
    request.topics[0].topic_id = b"x" * 16
    response = three.wait(ask(three.controller.controller, request, 3))

    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_alter_partition_of_a_deleted_topic(three):
    three.create("t", {0: [1, 2, 0]})
    request = _alteration(three, 1, [1])
    three.delete("t")
    response = three.wait(ask(three.controller.controller, request, 3))

    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_alter_partition_by_name_before_version_2(three):
    three.create("t", {0: [1, 2, 0]})
    request = _alteration(three, 1, [])
    request.topics[0].topic_name = "t"
    request.topics[0].partitions[0].new_isr = [1, 7]
    response = three.wait(ask(three.controller.controller, request, 1))
    assert response.topics[0].topic_name == "t"
    assert response.topics[0].partitions[0].error_code == ErrorCode.OPERATION_NOT_ATTEMPTED


def _each_look_takes_a_moment(cluster):
    def look():
        cluster.clock.now_ms += 0.1
        return cluster.clock.now_ms

    cluster.clock.monotonic_ms = look


def _turns_until(cluster, done):
    """When others had their turns, by the clock; the first is now."""
    turns_ms = [cluster.clock.now_ms]

    def take_a_turn():
        turns_ms.append(cluster.clock.now_ms)
        if not done():
            cluster.loop.call_soon(take_a_turn)

    take_a_turn()
    cluster.settle()
    return turns_ms


def _many_altered(cluster, partitions):
    """A request for many partitions of t, on a clock that moves on by 0.1 ms with each look at it."""
    cluster.create("t", {number: [1, 2, 0] for number in range(partitions)})
    _each_look_takes_a_moment(cluster)
    request = _alteration(cluster, 1, [1, 0])
    request.topics[0].partitions = [
        AlterPartitionRequestPartitionData(
            partition_index=number, new_isr_with_epochs=[BrokerState(broker_id=each) for each in (1, 0)]
        )
        for number in range(partitions)
    ]
    return request


def test_many_altered_partitions_are_worked_off_in_slices(three):
    request = _many_altered(three, 600)
    answer = ask(three.controller.controller, request, 3)
    turns_ms = _turns_until(three, lambda: answer.done)
    response = answer.result()

    assert [each.error_code for each in response.topics[0].partitions] == [0] * 600
    assert [each.partition_index for each in response.topics[0].partitions] == list(range(600))
    assert three.brokers[2].cache.partition(TopicPartition("t", 599)).isr == (1, 0)
    assert turns_ms[-1] - turns_ms[0] >= 3 * 600 * 0.1, "noted, announced and answered with a look at each"
    # The last slice of the handler and the first one of the controller may meet in one turn.
    assert max(after - before for before, after in pairwise(turns_ms)) < 11, "slices of 5 ms"


def test_the_end_of_a_broker_with_many_partitions_is_worked_off_in_slices(three):
    three.create("t", {number: [1, 2, 0] for number in range(600)})
    _each_look_takes_a_moment(three)
    three.brokers[1].up = False
    three.ensemble.end(three.brokers[1].store.session_id)
    leadership = three.controller.controller._term.context.leadership
    last = TopicPartition("t", 599)
    turns_ms = _turns_until(three, lambda: leadership[last].leader == 2)

    assert three.state("t", 599).isr == (2, 0)
    assert three.brokers[2].led[last].isr == [2, 0]
    assert turns_ms[-1] - turns_ms[0] >= 2 * 500 * 0.1, "elected and announced with a look at each"
    assert max(after - before for before, after in pairwise(turns_ms)) < 6, "slices of 5 ms"


@pytest.mark.parametrize("turns", [3, 300, 629, 645])
def test_a_controller_that_ends_between_two_slices_sends_nothing_more(three, turns):
    request = _many_altered(three, 600)
    broker = three.controller
    answer = ask(broker.controller, request, 3)
    for _ in range(turns):
        three.loop._queue.get_nowait()()
    for each in three.brokers.values():
        each.requests.clear()
    broker.stop()

    assert answer.done
    assert not any(update.controller_id == 0 for each in three.brokers.values() for update in each.requests)


# ------------------------------------------------- shutdown, producer ids, preferred leaders


def test_controlled_shutdown_moves_leaders_away(three):
    three.create("t", {0: [1, 2, 0], 1: [2, 1, 0]})
    epoch = three.brokers[1].registration.broker_epoch
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch)
    response = three.wait(ask(three.controller.controller, request))
    three.settle()

    assert (response.error_code, response.remaining_partitions) == (0, [])
    assert (three.state("t", 0).leader, three.state("t", 0).isr) == (2, (2, 0))
    assert (three.state("t", 1).leader, three.state("t", 1).isr) == (2, (2, 0))
    assert T1 not in three.brokers[1].followed
    three.brokers[1].stop()
    assert three.state("t", 0).leader == 2


def test_controlled_shutdown_names_what_cannot_move(three):
    three.create("t", {0: [1, 2]})
    _altered(three, 1, [1])
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    response = three.wait(ask(three.controller.controller, request))

    assert [(each.topic_name, each.partition_index) for each in response.remaining_partitions] == [("t", 0)]


def test_a_shutdown_leaves_topics_alone_that_wait_for_their_deletion(three, caplog):
    """The broker leads one of them no more, and has deleted its replica of both."""
    three.create("led", {0: [1, 2]})
    three.create("followed", {0: [2, 1]})
    three.brokers[2].stop()
    three.delete("led")
    three.delete("followed")
    assert set(three.brokers[1].deleted) == {TopicPartition("led", 0), TopicPartition("followed", 0)}
    for broker in three.brokers.values():
        broker.requests.clear()

    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    response = three.wait(ask(three.controller.controller, request))
    three.settle()

    assert (response.error_code, response.remaining_partitions) == (0, [])
    assert not three.brokers[1].sent(StopReplicaRequest)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_shutdown_does_not_wait_for_partitions_of_one_replica(three):
    three.create("t", {0: [1]})
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    response = three.wait(ask(three.controller.controller, request))

    assert (response.error_code, response.remaining_partitions) == (0, [])
    assert three.state("t").leader == 1


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ControlledShutdownRequest(broker_id=9, broker_epoch=-1), ErrorCode.BROKER_NOT_AVAILABLE),
        (ControlledShutdownRequest(broker_id=1, broker_epoch=0), ErrorCode.STALE_BROKER_EPOCH),
    ],
)
def test_controlled_shutdown_refusals(three, request_, code):
    assert three.wait(ask(three.controller.controller, request_)).error_code == code


def test_producer_ids_come_in_blocks(three):
    def allocate(broker_id, epoch=None):
        epoch = three.brokers[broker_id].registration.broker_epoch if epoch is None else epoch
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
        return three.wait(ask(three.controller.controller, request))

    assert (allocate(1).producer_id_start, allocate(2).producer_id_start) == (0, 1000)
    assert allocate(0).producer_id_len == 1000
    assert allocate(1, 0).error_code == ErrorCode.STALE_BROKER_EPOCH
    request = AllocateProducerIdsRequest(broker_id=9, broker_epoch=1)
    unknown = three.wait(ask(three.controller.controller, request))
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def _displace(cluster):
    """Broker 1 is preferred and in sync, and 2 leads."""
    cluster.create("t", {0: [1, 2, 0]})
    cluster.brokers[1].stop()
    cluster.brokers[1].start()
    assert _altered(cluster, 2, [2, 0, 1]).error_code == 0


def test_a_preferred_leader_on_request(three):
    _displace(three)
    elect = three.controller.controller.elect_leaders
    results = three.wait(elect([T0, T1], ElectionType.PREFERRED))
    three.settle()

    assert results[T0] == 1
    assert results[T1].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert three.brokers[1].led[T0].leader_epoch == three.state("t").leader_epoch
    again = three.wait(elect([T0, T1], ElectionType.PREFERRED))
    assert again[T0].code is ErrorCode.ELECTION_NOT_NEEDED


def test_a_preferred_leader_that_is_not_in_sync(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].stop()
    results = three.wait(three.controller.controller.elect_leaders([T0], ElectionType.PREFERRED))

    assert results[T0].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_preferred_leader_that_is_back_and_not_in_sync(three):
    three.create("t", {0: [1, 2, 0]})
    three.brokers[1].stop()
    three.brokers[1].start()
    results = three.wait(three.controller.controller.elect_leaders([T0], ElectionType.PREFERRED))

    assert results[T0].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert three.state("t").leader == 2


def test_a_preferred_leader_that_is_dead_and_last_in_sync(three):
    three.create("t", {0: [1, 2]})
    _altered(three, 1, [1])
    three.brokers[1].stop()
    results = three.wait(three.controller.controller.elect_leaders([T0], ElectionType.PREFERRED))

    assert results[T0].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert (three.state("t").leader, three.state("t").isr) == (-1, (1,))


def test_an_unclean_leader_on_request(three):
    three.create("t", {0: [1, 2]})
    three.brokers[2].stop()
    three.brokers[1].stop()
    three.brokers[2].start()
    results = three.wait(three.controller.controller.elect_leaders([T0], ElectionType.UNCLEAN))

    assert results[T0] == 2


def test_a_preferred_leader_by_znode(three):
    _displace(three)
    for _ in range(2):
        payload = znodes.encode_partitions([T0])
        three.wait(three.brokers[2].store.create("/admin/preferred_replica_election", payload))
        three.settle()
        assert "/admin/preferred_replica_election" not in three.paths()
    assert three.state("t").leader == 1


def test_leaders_are_rebalanced_after_a_while(three):
    _displace(three)
    three.clock.advance(4_000)
    assert three.state("t").leader == 2
    three.clock.advance(1_000)
    assert three.state("t").leader == 1


def test_rebalancing_goes_on_and_may_be_switched_off(make_cluster):
    cluster = make_cluster(0, 1, 2)
    cluster.clock.advance(5_000)
    _displace(cluster)
    cluster.clock.advance(299_000)
    assert cluster.state("t").leader == 2
    cluster.clock.advance(1_000)
    assert cluster.state("t").leader == 1


def test_an_imbalance_at_its_limit_is_left_alone(make_cluster):
    cluster = make_cluster(0, 1, 2, leader_imbalance_per_broker_percentage=50)
    _displace(cluster)
    cluster.create("u", {0: [1, 2, 0]})
    cluster.clock.advance(1_000_000)
    assert cluster.state("t").leader == 2, "half of what broker 1 should lead"


def test_without_rebalancing_leaders_stay(make_cluster):
    cluster = make_cluster(0, 1, 2, auto_leader_rebalance_enable=False)
    _displace(cluster)
    cluster.clock.advance(1_000_000)

    assert cluster.state("t").leader == 2


def test_reprs_show_state(three):
    three.create("t")
    controller = three.controller.controller

    assert repr(controller).startswith("<KafkaController 0 ACTIVE epoch=1 ")
    assert repr(three.brokers[1].controller).startswith("<KafkaController 1 standby of 0 ")
    assert "epoch=1 brokers=[0, 1, 2] topics=1" in repr(controller._term)


def test_an_event_is_one_row_of_the_table(make_cluster, monkeypatch):
    seen = []

    @steps
    def process(term):
        names = yield term.watches.children(znodes.ISR_CHANGES)
        seen.append((term.context.epoch, len(names)))

    row = ZnodeEvent(znodes.ISR_CHANGES, Change.CHILDREN, "IsrChangeNotification", process)
    monkeypatch.setattr("barnabas.cluster.controller.controller.ZNODE_EVENTS", (*ZNODE_EVENTS, row))
    cluster = make_cluster(0, 1)

    def announce():
        cluster.wait(cluster.brokers[1].store.create(f"{znodes.ISR_CHANGES}/isr_change_", sequence=True))
        cluster.settle()

    announce()
    announce()
    assert seen == [(1, 1), (1, 2)]
    cluster.brokers[0].stop()
    # The new controller removes what lies there, and hears of that as well: its watches come first.
    assert seen[2:] == [(2, 0)]
    announce()
    assert seen[3:] == [(2, 1)]


@pytest.mark.parametrize("path", ["/controller_epoch", "/feature"], ids=["before a term", "in a term"])
def test_an_election_that_the_store_fails_is_tried_again(make_cluster, caplog, path):
    cluster = make_cluster()
    broker = cluster.brokers[0]
    broker.stop()
    write, failures = cluster.ensemble.write, [StoreUnavailableError(path)]

    def fail_once(session_id, operations):
        if failures and operations[-1].path == path:
            raise failures.pop()
        return write(session_id, operations)

    cluster.ensemble.write = fail_once
    broker.start()
    assert not broker.controller.is_active
    assert "/controller" not in cluster.paths()
    assert broker.controller.epoch == 0
    assert not [each for each in caplog.records if each.exc_info]

    cluster.clock.advance(1_000)
    assert broker.controller.is_active
    assert broker.cache.controller_id == 0


def test_a_store_that_refuses_a_call_is_said_without_a_traceback(three, caplog):
    write, failures = three.ensemble.write, [StoreUnavailableError("/latest_producer_id_block")]

    def fail_once(session_id, operations):
        if failures and operations[-1].path == "/latest_producer_id_block":
            raise failures.pop()
        return write(session_id, operations)

    three.ensemble.write = fail_once
    epoch = three.brokers[1].registration.broker_epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    answer = three.wait(ask(three.controller.controller, request))

    assert answer.error_code != ErrorCode.NONE
    (line,) = [record for record in caplog.records if "event_failed" in record.message]
    assert line.exc_info is None
    assert "/latest_producer_id_block" in line.message


def test_the_same_on_the_embedded_store(loop, make_cluster, tmp_path):
    cluster = make_cluster(
        0, 1, 2, make_store=lambda: SqliteStore(tmp_path / "store.db", loop.call_soon, synchronous="OFF")
    )
    brokers = cluster.brokers
    loop.until(lambda: all(len(each.cache.alive_brokers()) == 3 for each in brokers.values()))
    cluster.create("t", {0: [1, 2, 0]})
    loop.until(lambda: T0 in brokers[1].led)
    brokers[1].stop()
    loop.until(lambda: T0 in brokers[2].led)
    assert brokers[2].led[T0].isr == [2, 0]

    brokers[0].stop()
    loop.until(lambda: brokers[2].cache.controller_id == 2)
    loop.until(lambda: brokers[2].led[T0].isr == [2])
    assert brokers[2].controller.epoch == 2
    cluster.delete("t")
    brokers[0].start()
    brokers[1].start()
    loop.until(lambda: len(brokers[0].deleted) == len(brokers[1].deleted) == len(brokers[2].deleted) == 1)
    brokers[0].stop()
    brokers[1].stop()
    brokers[2].stop()


def test_a_controller_that_stops_in_the_middle_of_an_event_stops_at_once(
    loop, make_cluster, tmp_path, caplog
):
    cluster = make_cluster(
        make_store=lambda: SqliteStore(tmp_path / "store.db", loop.call_soon, synchronous="OFF")
    )
    broker = cluster.brokers[0]
    cluster.create("t", num_partitions=100)
    loop.until(lambda: len(broker.cache.partitions("t")) == 100)
    cluster.wait(broker.topics.delete("t"))
    loop.until(lambda: "t" not in broker.cache)
    broker.stop()  # replicas are being stopped right now

    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


def test_many_failures_are_one_line(three, caplog):
    three.create("t", {partition: [2] for partition in range(50)})
    with caplog.at_level("WARNING", "barnabas"):
        three.brokers[2].stop()

    (line,) = [record.message for record in caplog.records if "no_leader_elected" in record.message]
    assert "count=50 partitions=t-0,t-1," in line
    assert "t-49" not in line


def test_a_registration_that_the_store_fails_after_a_session_is_tried_again(three):
    broker = three.brokers[1]
    write, failures = three.ensemble.write, [StoreUnavailableError("/brokers/ids/1")] * 3

    def fail_often(session_id, operations):
        if failures and operations[-1].path == "/brokers/ids/1":
            raise failures.pop()
        return write(session_id, operations)

    three.ensemble.write = fail_often
    three.ensemble.expire(broker.store.session_id)
    three.settle()
    assert "/brokers/ids/1" not in three.paths()
    for _ in range(3):
        three.clock.advance(1_000)
        three.settle()

    assert not failures
    assert "/brokers/ids/1" in three.paths()
