"""How a broker of a cluster ends, by `controlled.shutdown.enable` and `controlled.shutdown.max.retries`."""

import signal

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from waiting import eventually

VALUES = [b"record %d" % n for n in range(50)]


def start(join_cluster, number, *settings):
    """A broker that logs what it does; the first one is the controller."""
    options = [word for setting in settings for word in ("--set", setting)]
    server = join_cluster(number, *options, "--log-level", "info")
    server.wait_until_ready()
    return server


def create(server, *replicas):
    """A topic of one partition with records that all its replicas have."""
    with Admin(server.bootstrap) as admin:
        admin.topics.create(NewTopic("kept", assignment={0: list(replicas)}))
    with Producer(server.bootstrap, acks="all") as producer:
        for sent in [producer.send("kept", value) for value in VALUES]:
            sent.result()


def leader_and_isr(server):
    with Admin(server.bootstrap) as admin:
        partition = admin.topics.describe(["kept"])["kept"].partitions[0]
    return partition.leader, sorted(partition.isr)


def read(server):
    with Consumer(server.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("kept", 0)])
        values = []
        while len(values) < len(VALUES):
            values += [record.value for record in consumer.poll(timeout_ms=20_000)]
    return values


def test_without_controlled_shutdown_the_controller_elects_when_the_broker_is_gone(join_cluster):
    controller = start(join_cluster, 1)
    leaver = start(join_cluster, 2, "controlled.shutdown.enable=false")
    create(controller, 2, 1)

    assert leaver.stop() == 0

    eventually(lambda: leader_and_isr(controller), (1, [1]))
    assert read(controller) == VALUES
    log = controller.log.read_text()
    assert "shutting_down" not in log
    assert "broker_change new=[] dead=[2]" in log


def test_a_broker_ends_after_its_tries_though_the_controller_stands_still(join_cluster):
    """The others serve what it led as soon as there is a controller again."""
    patient = "zookeeper.session.timeout.ms=30000"
    controller = start(join_cluster, 1, patient)
    leaver = start(
        join_cluster,
        2,
        patient,
        "controlled.shutdown.max.retries=2",
        "controlled.shutdown.retry.backoff.ms=100",
        "request.timeout.ms=500",
    )
    create(controller, 2, 1)

    controller.process.send_signal(signal.SIGSTOP)
    code = leaver.stop()
    controller.process.send_signal(signal.SIGCONT)

    assert code == 0
    log = leaver.log.read_text()
    assert log.count("shutdown.not_handed_over") == 2
    assert "shutdown.forced tries=2" in log
    eventually(lambda: leader_and_isr(controller), (1, [1]))
    assert read(controller) == VALUES
