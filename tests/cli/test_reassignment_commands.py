"""``barnabas reassign-partitions`` and ``barnabas leader-election`` on a running cluster."""

import json

import pytest

from barnabas.admin import Admin, ConfigResource, NewTopic, PartitionReassignment
from barnabas.cli.partition_json import BadJsonError, parse_election, parse_reassignment, parse_topics
from barnabas.core.ids import TopicPartition
from barnabas.operations.reassignment_throttles import Move, moves
from waiting import until

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def plan_of(folder, topic="t", **replicas):
    """A file that moves partitions of a topic: `p0=[1, 2]`."""
    file = folder / "plan.json"
    partitions = [
        {"topic": topic, "partition": int(name[1:]), "replicas": brokers}
        for name, brokers in replicas.items()
    ]
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return ("--reassignment-json-file", str(file))


def test_replicas_move_and_their_throttles_go(join_cluster, barnabas, tmp_path):
    servers = []
    for number in (1, 2, 3):  # one after the other: the first is the controller
        servers.append(join_cluster(number))
        servers[-1].wait_until_ready()
    bootstrap = servers[0].bootstrap
    there = ("--bootstrap-server", bootstrap)
    reassign = lambda *flags: barnabas("reassign-partitions", *there, *flags)  # noqa: E731
    elect = lambda *flags: barnabas("leader-election", *there, *flags)  # noqa: E731

    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [1, 2], 1: [2, 1]}))
        admin.topics.create(NewTopic("lone", assignment={0: [3]}))
        topic = ConfigResource.topic("t")
        replicas = lambda p: list(admin.topics.describe(["t"])["t"].partitions[p].replicas)  # noqa: E731

        (tmp_path / "topics.json").write_text('{"version": 1, "topics": [{"topic": "t"}]}')
        generate = ("--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "2,3")
        # The broker that is asked may not have heard of the topic yet.
        until(lambda: reassign("--generate", *generate).exit_code == 0, "the topic on every broker")
        now, _, proposed = reassign("--generate", *generate).stdout.partition("\n\n")
        assert [one["replicas"] for one in json.loads(now.splitlines()[1])["partitions"]] == [[1, 2], [2, 1]]
        assert {
            tuple(sorted(one["replicas"])) for one in json.loads(proposed.splitlines()[1])["partitions"]
        } == {(2, 3)}

        plan = plan_of(tmp_path, p0=[3, 2], p1=[2, 1])
        # Zero is a throttle too: it lets an answer through where there was none, and these logs are empty.
        done = reassign("--execute", *plan, "--throttle", "0")
        assert done.exit_code == 0, done.stderr
        assert done.stdout.splitlines()[-3:] == [
            (
                "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
                "the throttle is removed."
            ),
            "The inter-broker throttle limit was set to 0 B/s",
            "Successfully started partition reassignments for t-0,t-1",
        ]
        config = admin.configs.describe(topic)[topic]
        assert (config[LEADERS].value, config[FOLLOWERS].value) == ("0:1,0:2,1:1,1:2", "0:3")
        until(lambda: "still in progress" not in reassign("--verify", *plan).stdout, "the move")
        verified = reassign("--verify", *plan)
        assert (verified.exit_code, verified.stdout.splitlines()) == (
            0,
            [
                "Status of partition reassignment:",
                "Reassignment of partition t-0 is completed.",
                "Reassignment of partition t-1 is completed.",
                "",
                "Clearing broker-level throttles on brokers 1,2,3",
                "Clearing topic-level throttles on topic t",
            ],
        )
        config = admin.configs.describe(topic)[topic]
        assert (config[LEADERS].value, config[FOLLOWERS].value) == ("", "")
        assert replicas(0) == [3, 2]

        admin.partitions.elect_leaders()
        assert elect("--election-type", "preferred", "--topic", "t", "--partition", "0").stdout == (
            "Valid replica already elected for partitions t-0\n"
        )

        # A partition without a leader does not arrive anywhere.
        servers[2].kill()
        until(lambda: admin.topics.describe(["lone"])["lone"].partitions[0].leader < 0, "no leader")
        plan = plan_of(tmp_path, "lone", p0=[1, 2])
        assert reassign("--execute", *plan).exit_code == 0
        assert reassign("--list").stdout.splitlines() == [
            "Current partition reassignments:",
            "lone-0: replicas: 1,2,3. adding: 1,2. removing: 3.",
        ]
        described = barnabas(
            "topics", "--describe", "--topic", "lone", "--bootstrap-server", bootstrap
        ).stdout
        assert "\tReplicas: 1,2,3\tIsr: 3\tAdding Replicas: 1,2\tRemoving Replicas: 3\t" in described
        again = reassign("--execute", *plan)
        assert (again.exit_code, again.stderr.split(".")[0]) == (
            1,
            "Cannot execute because there is an existing partition assignment",
        )
        # Throttles stay while anything moves.
        assert reassign("--verify", *plan).stdout.splitlines()[1:] == [
            "Reassignment of partition lone-0 is still in progress.",
            "",
        ]
        assert reassign("--verify", *plan_of(tmp_path, p0=[3, 2])).stdout.splitlines()[1:] == [
            "Reassignment of partition t-0 is completed.",
            "",
        ]
        unknown = reassign("--execute", "--additional", *plan_of(tmp_path, p0=[9, 2]))
        assert (unknown.exit_code, unknown.stderr) == (1, "Error: Unknown broker id 9\n")
        plan = plan_of(tmp_path, "lone", p0=[1, 2])
        cancelled = (
            "Successfully cancelled partition reassignment for: lone-0\nNone of the specified "
            "partition moves are active."
        )
        assert reassign("--cancel", *plan, "--preserve-throttles").stdout == cancelled
        assert reassign("--list").stdout == "No partition reassignments found.\n"

        # One that only adds replicas is given up like any other; the script of 3.9 overlooks it.
        plan = plan_of(tmp_path, "lone", p0=[3, 1])
        admin.partitions.reassign({TopicPartition("lone", 0): [3, 1]})
        assert reassign("--list").stdout.splitlines()[1:] == ["lone-0: replicas: 3,1. adding: 1."]
        assert reassign("--cancel", *plan, "--preserve-throttles").stdout == cancelled
        assert reassign("--list").stdout == "No partition reassignments found.\n"
        assert list(admin.topics.describe(["lone"])["lone"].partitions[0].replicas) == [3]
        # The targets have their throttles removed, those that are gone too; here that cannot end well.
        impatient = tmp_path / "impatient.properties"
        impatient.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=2000\n")
        arrived = plan_of(tmp_path, "lone", p0=[3])
        verified = reassign("--verify", *arrived, "--command-config", str(impatient)).stdout.splitlines()
        assert verified[-1] == "Clearing broker-level throttles on brokers 1,2,3"

    for server in servers[:2]:
        server.kill()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"version": 1,', "The input string is not a valid JSON: "),
        ("[" * 100_000, "The input string is not a valid JSON: "),
        ("9" * 10_000, "The input string is not a valid JSON: "),
        ("[]", "Expected JSON object, received []"),
        ('{"version": 2}', "Not supported version field value 2"),
        ('{"partitions": 5}', "Expected JSON array, received 5"),
        ('{"partitions": [{"partition": 0}]}', "No such field exists: `topic`"),
        ('{"partitions": [{"topic": 5}]}', "Expected `String` value, received 5"),
        ('{"partitions": [{"topic": "t", "partition": true}]}', "Expected `Integer` value, received true"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}]}',
            "Size of replicas list [1, 2] is different from size of log dirs list [any] for partition t-0",
        ),
    ],
)
def test_a_file_that_is_no_plan_is_said_in_a_line(text, words):
    with pytest.raises(BadJsonError) as refused:
        parse_reassignment(text)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_topics_and_elections_have_files_of_their_own():
    assert parse_topics('{"topics": [{"topic": "a"}, {"topic": "b"}]}') == ["a", "b"]
    assert parse_election('{"partitions": [{"topic": "a", "partition": 3}]}') == [TopicPartition("a", 3)]
    with pytest.raises(BadJsonError, match='missing "partitions" field'):
        parse_election("{}")
    with pytest.raises(BadJsonError, match=r"contains duplicate partitions: \[a-0\]"):
        parse_election('{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 0}]}')


def test_a_partition_on_the_move_is_copied_from_where_it_was():
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    moving = {first: PartitionReassignment([1, 2, 3], [3], [1])}

    assert moves(moving, {first: [2, 4], second: [5]}, {first: [1, 2, 3], second: [1]}) == {
        first: Move(frozenset({1, 2}), frozenset({4})),
        second: Move(frozenset({1}), frozenset({5})),
    }


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("reassign-partitions", "Command must include exactly one action: --generate, --execute, --verify, "),
        (
            "reassign-partitions --list --throttle 5",
            'Option "[throttle]" can\'t be used with action "[list]"',
        ),
        ("reassign-partitions --execute", 'Missing required argument "[reassignment-json-file]"'),
        (
            "reassign-partitions --execute --reassignment-json-file /no/such/file",
            "Error: Unable to read file /no/such/file: No such file or directory",
        ),
        (
            "leader-election --election-type preferred",
            "One and only one of the following options is required: topic, ",
        ),
        ("leader-election --election-type preferred --topic t", "Missing required option(s): partition"),
        ("leader-election --all-topic-partitions", "Missing required option(s): election-type"),
        (
            "leader-election --election-type unclean --path-to-json-file /no/such/file",
            "Unable to read file /no/such/file: No such file or directory",
        ),
    ],
)
def test_flags_of_moves_and_elections_are_refused_in_a_line(barnabas, cluster, flags, line):
    result = barnabas(*flags.split(), "--bootstrap-server", cluster.bootstrap)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(line)
