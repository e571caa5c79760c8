"""``barnabas reassign-partitions`` with ``log_dirs``, and the admin's calls behind it, on a broker of two
directories.
"""

import json

import pytest

from barnabas.admin import Admin, ConfigResource, NewTopic, ReplicaLogDirInfo, TopicPartitionReplica
from barnabas.cli.partition_json import parse_reassignment
from barnabas.client import Producer
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from waiting import until

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICA = TopicPartitionReplica(1, "t", 0)
LATEST = -1
PIECES, PIECE = 20, 60_000
"""A throttle lets one piece through in each window of 11 s, so that so many hold a move up for longer than
the test takes.
"""


@pytest.fixture
def server(join_cluster, tmp_path):
    running = join_cluster(1, "--set", f"log.dirs={tmp_path / 'one'},{tmp_path / 'two'}")
    running.wait_until_ready()
    yield running
    assert running.stop() == 0, running.tail()


def plan(folder, log_dir, topic="t"):
    file = folder / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(log_dir)]}
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return ("--reassignment-json-file", str(file))


def test_a_replica_moves_and_each_step_is_said(server, barnabas, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    def reassign(*flags):
        done = barnabas("reassign-partitions", "--bootstrap-server", server.bootstrap, *flags)
        return done.exit_code, (done.stdout + done.stderr).splitlines()

    with Admin(server.bootstrap) as admin:
        refused = admin.log_dirs.try_alter_replicas({REPLICA: one})  # where it is to be made
        assert isinstance(refused[REPLICA], KafkaError)
        admin.topics.create(NewTopic("t", 1, 1))
        with Producer(server.bootstrap) as producer:
            for _ in range(PIECES):
                producer.send("t", bytes(PIECE)).result(60)

        # The broker gets the throttle by a watch: it has to be there before the move, which is short without
        # it.
        broker = ConfigResource.broker(1)
        admin.configs.alter({broker: {RATE: "0"}})
        until(lambda: RATE in admin.configs.describe(broker)[broker], "the throttle")

        started = f"Successfully started moving log directory to {two} for replica t-0 with broker 1 "
        code, lines = reassign("--execute", *plan(tmp_path, two), "--replica-alter-log-dirs-throttle", "0")
        assert (code, lines[-3:]) == (
            0,
            [
                "The replica-alter-dir throttle limit was set to 0 B/s",
                "Successfully started partition reassignment for t-0",
                started,
            ],
        )
        place = admin.log_dirs.describe_replicas([REPLICA])[REPLICA]
        assert (place.current_log_dir, place.current_offset_lag, place.future_log_dir) == (one, 0, two)
        assert 0 < place.future_offset_lag <= PIECES
        shown = json.loads(
            barnabas("log-dirs", "--describe", "--bootstrap-server", server.bootstrap).stdout.splitlines()[2]
        )
        found = {each["logDir"]: each["partitions"] for each in shown["brokers"][0]["logDirs"]}
        assert [(each["partition"], each["isFuture"]) for each in found[two]] == [("t-0", True)]

        still = ["Status of partition reassignment:", "Reassignment of partition t-0 is completed."]
        moving = "Reassignment of replica t-0-1 is still in progress."
        assert reassign("--verify", *plan(tmp_path, two)) == (0, [*still, moving])
        elsewhere = f"Partition t-0 on broker 1 is being moved to log dir {two} instead of {one}."
        assert reassign("--verify", *plan(tmp_path, one)) == (0, [*still, elsewhere])

        code, lines = reassign("--cancel", *plan(tmp_path, two), "--preserve-throttles")
        assert (code, lines) == (
            0,
            ["None of the specified partition reassignments are active.", started.replace(two, one)],
        )
        stays = f"Partition t-0 on broker 1 is not being moved from log dir {one} to {two}."
        cleared = [
            "Clearing broker-level throttles on broker 1",
            "Clearing topic-level throttles on topic t",
        ]
        assert reassign("--verify", *plan(tmp_path, two)) == (0, [*still, stays, *cleared])
        until(lambda: RATE not in admin.configs.describe(broker)[broker], "no throttle")
        assert admin.log_dirs.describe_replicas([REPLICA]) == {REPLICA: ReplicaLogDirInfo(one, 0)}

        assert reassign("--execute", *plan(tmp_path, two))[1][-1] == started
        done = "Reassignment of replica t-0-1 completed successfully."
        until(lambda: done in reassign("--verify", *plan(tmp_path, two))[1], "the move")
        assert admin.log_dirs.describe_replicas([REPLICA]) == {REPLICA: ReplicaLogDirInfo(two, 0)}
        assert admin.offsets.list({TopicPartition("t", 0): LATEST})[TopicPartition("t", 0)].offset == PIECES

        # What is refused, and what is not there.
        code, lines = reassign("--execute", *plan(tmp_path, "/nowhere"))
        assert (code, lines[-2]) == (1, "Error: Failed to alter dir for t-0-1")
        assert lines[-1].startswith("org.apache.kafka.common.errors.LogDirNotFoundException: ")
        answers = admin.log_dirs.try_alter_replicas({REPLICA: "/nowhere", REPLICA._replace(partition=9): two})
        assert [error.code for error in answers.values()] == [
            ErrorCode.LOG_DIR_NOT_FOUND,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        with pytest.raises(KafkaError):
            admin.log_dirs.alter_replicas({REPLICA: "/nowhere"})
        missing = TopicPartitionReplica(1, "never-made", 0)
        assert admin.log_dirs.describe_replicas([missing]) == {missing: ReplicaLogDirInfo()}
        gone = admin.log_dirs.try_describe_replicas([TopicPartitionReplica(7, "t", 0)], timeout_ms=300)
        assert "Broker 7 did not describe its log directories in 300 ms" in str(*gone.values())
        code, lines = reassign("--verify", *plan(tmp_path, two, "never-made"), "--preserve-throttles")
        assert lines[-1] == (
            "Partition never-made-0 is not found in any live log dir on broker 1."
            " There is likely an offline log directory on the broker."
        )


def test_any_directory_is_none_in_particular():
    text = '{"partitions": [{"topic": "t", "partition": 3, "replicas": [5, 4], "log_dirs": ["any", "/d"]}]}'

    assert parse_reassignment(text) == (
        [(TopicPartition("t", 3), [5, 4])],
        {TopicPartitionReplica(4, "t", 3): "/d"},
    )
