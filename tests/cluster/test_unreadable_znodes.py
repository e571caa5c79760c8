"""Znodes that are damaged harm what they describe, and nothing else."""

import logging
from itertools import pairwise

import pytest
from brokers_fake import ask

from barnabas.cluster.metadata.registration import cluster_id
from barnabas.cluster.store import znodes
from barnabas.cluster.store.unreadable import report_unreadable
from barnabas.core.ids import TopicPartition
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from damaged_znodes import damages

A0 = TopicPartition("a", 0)
TOPICS = ("a", "b")
SETTINGS = {"cleanup.policy": "compact"}
ID = "4E7wk8apSBGD1cEJr3XB2g"

PATHS = (
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.CLUSTER_ID,
    znodes.FEATURE,
    znodes.PRODUCER_ID_BLOCK,
    znodes.broker_path(0),
    znodes.topic_path("a"),
    znodes.partition_state_path(A0),
    znodes.config_path("topics", "a"),
    znodes.config_path("brokers", "0"),
    znodes.REASSIGN_PARTITIONS,
    znodes.PREFERRED_REPLICA_ELECTION,
    f"{znodes.CONFIG_CHANGES}/config_change_0000000000",
    f"{znodes.ISR_CHANGES}/isr_change_0000000000",
    f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000000",
)
WRITTEN = {
    znodes.REASSIGN_PARTITIONS: znodes.encode_reassignment({A0: [0]}),
    znodes.PREFERRED_REPLICA_ELECTION: znodes.encode_partitions([A0]),
    f"{znodes.ISR_CHANGES}/isr_change_0000000000": znodes.encode_partitions([A0]),
    f"{znodes.LOG_DIR_EVENTS}/log_dir_event_0000000000": znodes.encode_log_dir_event(0),
}
"""What is in the store for a moment only, as tools and brokers write it."""
WITHOUT_PAYLOAD = {znodes.BROKER_SEQUENCE, znodes.DELETE_TOPICS}
"""Their names and versions are all that is read of them and of what is below."""


def test_each_znode_is_damaged_here_and_the_log_has_words_for_it(make_cluster, caplog):
    known = {value for name, value in vars(znodes).items() if name.isupper() and str(value).startswith("/")}
    store = make_cluster(0).brokers[0].store
    for path in PATHS:
        report_unreadable(store, path, "a test")

    assert {path for path in known if not any(each.startswith(path) for each in PATHS)} == WITHOUT_PAYLOAD
    assert "it is passed over" not in caplog.text


def furnish(cluster):
    for topic in TOPICS:
        cluster.create(topic, configs=SETTINGS)
    broker = cluster.brokers[0]
    cluster.wait(cluster_id(broker.store, lambda: ID))
    cluster.wait(broker.config_admin.alter_broker("0", {"log.cleaner.threads": "2"}, validate_only=False))
    allocate(cluster)
    cluster.settle()


def allocate(cluster):
    broker = cluster.controller
    request = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.registration.broker_epoch)
    answer = ask(broker.controller, request)
    cluster.settle()
    return answer.result()


def led(broker):
    """The topics whose partitions clients find a leader of."""
    cache = broker.cache
    return {
        topic
        for topic in cache.topics()
        if all(each.leader in (0, 1, 2) for each in cache.partitions(topic).values())
    }


def put(cluster, path, data):
    znode = cluster.ensemble.table.find(path)
    store = cluster.brokers[0].store
    cluster.wait(store.create(path, data) if znode is None else store.set(path, data))
    cluster.settle()


def lines(records, path):
    return [each for each in records if f"znode_unreadable path={path} " in each.getMessage()]


def check_log(records, path):
    assert not [each for each in records if each.exc_info], [each.getMessage() for each in records]
    others = [each for each in records if "znode_unreadable" in each.getMessage()]
    assert len(lines(records, path)) == len(others) <= 1, [each.getMessage() for each in others]


def ours(caplog):
    """The lines of the broker: what other tests have left behind may say something when it is collected."""
    return [record for record in caplog.records if record.name.startswith("barnabas")]


@pytest.mark.parametrize("path", PATHS)
def test_a_damaged_znode_takes_one_topic_away_at_most(make_cluster, caplog, path):
    caplog.set_level(logging.INFO)
    template = make_cluster(0)
    furnish(template)
    data = WRITTEN.get(path) or template.ensemble.table.find(path).data
    for what, damaged in damages(data):
        cluster = make_cluster(0)
        furnish(cluster)
        broker = cluster.brokers[0]
        caplog.clear()
        put(cluster, path, damaged)

        check_log(ours(caplog), path)
        assert led(broker) == set(TOPICS), f"{path} {what}: while it runs"
        assert allocate(cluster).error_code == 0

        caplog.clear()
        broker.stop()
        broker.start()
        cluster.clock.advance(1000)

        check_log(ours(caplog), path)
        assert set(TOPICS) - {"a"} <= led(broker), f"{path} {what}: after a start"
        assert broker.configs.topic("b") == SETTINGS
        assert broker.configs.topic("a") in (SETTINGS, {}) or "retention.ms" in broker.configs.topic("a")
        assert cluster.wait(cluster_id(broker.store, lambda: ID)) in (None, ID, "x")
        cluster.create("c")
        assert cluster.state("c").leader == 0


def test_a_topic_that_was_held_apart_is_served_once_its_znode_is_mended(make_cluster, caplog):
    caplog.set_level("INFO")
    cluster = make_cluster(0, 1)
    cluster.create("a", {0: [1, 0], 1: [0, 1]})
    path = znodes.topic_path("a")
    whole = cluster.ensemble.table.find(path).data
    put(cluster, path, b"{")
    for broker in cluster.brokers.values():
        broker.stop()
    for broker in cluster.brokers.values():
        broker.start()
    assert led(cluster.brokers[0]) == led(cluster.brokers[1]) == set()
    before = cluster.state("a")
    put(cluster, path, whole)

    assert cluster.brokers[1].led.keys() == {A0}
    assert cluster.brokers[0].led.keys() == {TopicPartition("a", 1)}
    assert cluster.state("a") == before, "nobody had to be elected"
    assert led(cluster.brokers[0]) == {"a"}
    assert "topic_served_again topic=a" in caplog.text


def test_a_topic_with_the_id_of_another_is_held_apart(make_cluster, caplog):
    cluster = make_cluster(0)
    cluster.create("a")
    cluster.create("b")
    put(cluster, znodes.topic_path("b"), cluster.ensemble.table.find(znodes.topic_path("a")).data)
    cluster.brokers[0].stop()
    cluster.brokers[0].start()

    assert led(cluster.brokers[0]) == {"a"}
    (line,) = lines(caplog.records, "/brokers/topics/b")
    assert "topic_id is that of topic a" in line.getMessage()


def test_an_epoch_that_is_unreadable_is_never_used_again(make_cluster):
    cluster = make_cluster(0, 1)
    for _ in range(3):
        cluster.controller.stop()
        for broker in cluster.brokers.values():
            if not broker.up:
                broker.start()
    cluster.create("a", {0: [1, 0]})
    before = max(broker.controller_epoch for broker in cluster.brokers.values())
    put(cluster, znodes.CONTROLLER_EPOCH, b"x")
    epochs = {broker.id: broker.controller_epoch for broker in cluster.brokers.values()}
    cluster.controller.stop()

    (survivor,) = [broker for broker in cluster.brokers.values() if broker.up]
    assert survivor.controller.is_active
    assert survivor.controller_epoch > before >= epochs[survivor.id]
    assert int(cluster.ensemble.table.find(znodes.CONTROLLER_EPOCH).data) == survivor.controller.epoch


def test_producer_ids_after_an_unreadable_block_were_given_to_nobody(make_cluster):
    cluster = make_cluster(0)
    first = allocate(cluster)
    put(cluster, znodes.PRODUCER_ID_BLOCK, b'{"version":1}')
    second, third = allocate(cluster), allocate(cluster)

    ends = [each.producer_id_start + each.producer_id_len for each in (first, second, third)]
    assert second.error_code == third.error_code == 0
    assert ends[0] <= second.producer_id_start < ends[1] <= third.producer_id_start
    assert second.producer_id_start > cluster.clock.time_ms(), "more than could have been given out"


def test_settings_that_are_unreadable_let_nothing_be_deleted(make_cluster):
    cluster = make_cluster(0)
    cluster.create("a", configs={"retention.ms": "31536000000", "cleanup.policy": "compact"})
    put(cluster, znodes.config_path("topics", "a"), b"{")
    cluster.brokers[0].stop()
    cluster.brokers[0].start()

    settings = cluster.brokers[0].configs.topic("a")
    assert settings == {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}


def test_a_registration_that_becomes_unreadable_does_not_end_its_broker(make_cluster, caplog):
    cluster = make_cluster(0, 1)
    cluster.create("a", {0: [1, 0]})
    put(cluster, znodes.broker_path(1), b"x" * 1000)
    cluster.wait(cluster.brokers[0].store.create("/brokers/ids/x7", b"", ephemeral=True))
    cluster.settle()

    assert cluster.state("a").leader == 1
    assert [each.id for each in cluster.brokers[0].cache.alive_brokers()] == [0, 1]
    assert len(lines(caplog.records, "/brokers/ids/1")) == 1


def test_a_reassignment_of_a_partition_without_a_readable_state_does_not_end_an_election(
    make_cluster, caplog
):
    cluster = make_cluster(0, 1)
    cluster.create("a", {0: [0]})
    cluster.create("b", {0: [0]})
    path = znodes.topic_path("a")
    moving = znodes.decode_topic(cluster.ensemble.table.find(path).data)
    moving.partitions[0] = moving.partitions[0].reassign_to([1])
    put(cluster, path, znodes.encode_topic(moving))
    put(cluster, znodes.partition_state_path(A0), b"{}")
    caplog.clear()
    cluster.controller.stop()
    (survivor,) = [broker for broker in cluster.brokers.values() if broker.up]
    for broker in cluster.brokers.values():
        if not broker.up:
            broker.start()

    assert survivor.controller.is_active
    assert "b" in led(survivor)
    assert not [each for each in caplog.records if each.exc_info]


def test_an_election_that_cannot_be_is_said_once_and_tried_more_and_more_rarely(
    make_cluster, caplog, monkeypatch
):
    from barnabas.cluster.controller.term import Term

    cluster = make_cluster(0)
    tries = []

    def begin(term):
        tries.append(cluster.clock.now_ms)
        raise RuntimeError("it cannot be")

    monkeypatch.setattr(Term, "begin", begin)
    cluster.brokers[0].stop()
    cluster.brokers[0].start()
    for _ in range(300):
        cluster.clock.advance(1000)

    waits = [after - before for before, after in pairwise(tries)]
    assert waits[:6] == [1000, 2000, 4000, 8000, 16000, 32000]
    assert set(waits[6:]) == {60_000}
    failed = [each for each in caplog.records if "election_failed" in each.getMessage()]
    assert len([each for each in failed if each.levelno == logging.ERROR]) == 1
    monkeypatch.undo()
    cluster.clock.advance(60_000)
    assert cluster.brokers[0].controller.is_active
