"""``barnabas groups``: what it prints, what it changes, and how it says no.

That these are the lines of kafka-consumer-groups.sh is judged beside a genuine Kafka (tests/jvm).
"""

import pytest

from barnabas.cli.java_errors import EXECUTION
from barnabas.core.ids import TopicPartition
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from fake_groups import Group, Member

A = [TopicPartition("a", number) for number in range(3)]
B0 = TopicPartition("b", 0)


@pytest.fixture
def tool(barnabas, cluster, groups):
    """Runs ``barnabas groups``; topic a has 5 records in each of 3 partitions, b has none."""
    cluster.add_topic("a", 3)
    cluster.add_topic("b")
    for tp in A:
        cluster.append(*tp, build_batch([Record(n, 1000 * n, None, b"v", ()) for n in range(5)]))
    groups["idle"] = Group(offsets={A[0]: (1, ""), A[2]: (4, "")})
    groups["busy"] = Group(
        state="Stable",
        members=[Member("m1", [A[0]], client_id="one"), Member("m2", [A[1], A[2]], "static", "two")],
        offsets={A[0]: (2, ""), A[1]: (5, ""), B0: (0, "")},
    )
    return lambda *flags: barnabas("groups", "--bootstrap-server", cluster.bootstrap, *flags)


def test_groups_are_listed(tool, groups):
    groups["next"] = Group(state="Assigning", modern=True)
    assert sorted(tool("--list").stdout.split()) == ["busy", "idle", "next"]
    header, *rows = tool("--list", "--type", "--state", "stable, ASSIGNING").stdout.splitlines()
    assert header == f"{'GROUP':<25} {'TYPE':<20} {'STATE':<20}"
    assert sorted(row.split() for row in rows) == [
        ["busy", "Classic", "Stable"],
        ["next", "Consumer", "Assigning"],
    ]
    assert tool("--list", "--type", "consumer").stdout.splitlines()[1].split() == ["next", "Consumer"]


def test_positions_and_lag_are_described(tool):
    result = tool("--describe", "--group", "busy")
    header, *rows = (line.split() for line in result.stdout.lstrip("\n").splitlines())
    assert header[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    # The member with more partitions first; what nobody reads is last.
    assert [row[-3:] for row in rows] == [["m2", "/127.0.0.1", "two"]] * 2 + [
        ["m1", "/127.0.0.1", "one"],
        ["-", "-", "-"],
    ]
    assert sorted(row[1:6] for row in rows) == [
        ["a", "0", "2", "5", "3"],
        ["a", "1", "5", "5", "0"],
        ["a", "2", "-", "5", "-"],
        ["b", "0", "0", "0", "0"],
    ]
    assert (result.stderr, result.exit_code) == ("", 0)


def test_members_are_described(tool):
    lines = tool("--describe", "--group", "busy", "--members", "--verbose").stdout.splitlines()
    assert [line.split() for line in lines] == [
        [],
        [
            *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"),
            *("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"),
        ],
        ["busy", "m1", "/127.0.0.1", "one", "1", "-", "a:0", "-", "-"],
        ["busy", "m2", "static", "/127.0.0.1", "two", "2", "-", "a:1,2", "-", "-"],
    ]
    assert "INSTANCE" not in tool("--describe", "--group", "idle", "--members").stdout


def test_states_are_described(tool, cluster):
    result = tool("--describe", "--all-groups", "--state")
    assert [line.split() for line in result.stdout.splitlines() if line] == [
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        ["busy", cluster.bootstrap, "(1)", "range", "Stable", "2"],
        ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        ["idle", cluster.bootstrap, "(1)", "-", "Empty", "0"],
    ]
    assert result.stderr == "\nConsumer group 'idle' has no active members.\n"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"])
def test_a_group_on_the_move_is_announced(tool, groups, state):
    groups["busy"].state = state
    assert (
        tool("--describe", "--group", "busy").stderr == "\nWarning: Consumer group 'busy' is rebalancing.\n"
    )


def test_a_group_that_is_not_there(tool):
    result = tool("--describe", "--group", "none")
    assert (result.stdout, result.exit_code) == ("\nError: Consumer group 'none' does not exist.\n", 0)


def test_a_group_of_something_else(tool, groups):
    groups["workers"] = Group(protocol_type="connect")
    assert tool("--describe", "--group", "workers").stdout == (
        "\nError: Executing consumer group command failed due to java.lang.IllegalArgumentException:"
        " GroupId workers is not a consumer group (connect).\n"
    )
    assert "workers" not in tool("--list").stdout


def planned(result):
    """Partition -> offset of a plan, which is one line in a pipe."""
    cells = result.stdout.split()
    assert cells[:4] == ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    rows = [cells[at : at + 4] for at in range(4, len(cells), 4)]
    return {(topic, int(partition)): int(offset) for _, topic, partition, offset in rows}


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        (["--to-earliest", "--topic", "a"], [0, 0, 0]),
        (["--to-latest", "--topic", "a"], [5, 5, 5]),
        (["--to-latest", "--topic", "a:2,0"], [5, None, 5]),
        (["--to-latest", "--all-topics"], [5, None, 5]),
        (["--to-offset", "3", "--topic", "a"], [3, 3, 3]),
        (["--to-offset", "9", "--topic", "a:1"], [None, 5, None]),
        (["--to-current", "--topic", "a"], [1, 5, 4]),
        (["--shift-by", "1", "--all-topics"], [2, None, 5]),
        (["--shift-by", "-3", "--all-topics"], [0, None, 1]),
        (["--to-datetime", "1970-01-01T00:00:02.001", "--topic", "a"], [3, 3, 3]),
        (["--to-datetime", "1970-01-01T01:00:02.000+01:00", "--topic", "a"], [2, 2, 2]),
        (["--by-duration", "P36500D", "--topic", "a:0"], [0, None, None]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else "",
)
def test_a_reset_is_planned(tool, groups, flags, offsets):
    before = dict(groups["idle"].offsets)
    result = tool("--reset-offsets", "--group", "idle", "--dry-run", *flags)
    assert planned(result) == {
        ("a", number): offset for number, offset in enumerate(offsets) if offset is not None
    }
    assert groups["idle"].offsets == before


def test_a_position_below_zero_is_none_and_yet_the_partition_is_reset(tool, groups):
    groups["idle"].offsets[A[1]] = (-5, "")
    flags = ("--reset-offsets", "--group", "idle", "--dry-run", "--all-topics", "--to-latest")
    assert planned(tool(*flags)) == {("a", 0): 5, ("a", 1): 5, ("a", 2): 5}


def test_on_a_terminal_each_partition_has_its_line(tool, on_terminal, cluster):
    flags = ("--reset-offsets", "--group", "idle", "--dry-run", "--all-topics", "--to-latest")
    shown = on_terminal("groups", "--bootstrap-server", cluster.bootstrap, *flags)
    rows = [line.split() for line in shown.splitlines()[2:]]
    assert sorted(rows) == [["idle", "a", "0", "5"], ["idle", "a", "2", "5"]]
    assert shown.endswith("\n")


def test_without_execute_a_reset_warns_and_changes_nothing(tool, groups):
    flags = ("--reset-offsets", "--group", "idle", "--topic", "a:0", "--to-latest")
    assert tool(*flags).stderr.startswith("WARN: No action will be performed")
    assert groups["idle"].offsets[A[0]] == (1, "")
    assert tool(*flags, "--execute").stderr == ""
    assert groups["idle"].offsets[A[0]] == (5, "")


def test_an_offset_outside_the_log_is_moved_and_said(tool):
    result = tool("--reset-offsets", "--group", "idle", "--dry-run", "--topic", "a:0", "--to-offset", "-7")
    assert result.stderr == (
        "WARN New offset (-7) is lower than earliest offset for topic partition a-0. Value will be set to 0\n"
    )
    assert planned(result) == {("a", 0): 0}


def test_a_time_after_the_last_record_falls_back(tool):
    result = tool(
        "--reset-offsets", "--group", "idle", "--dry-run", "--topic", "a:0", "--by-duration", "PT1M"
    )
    warning = "\nWarn: Partition 0 from topic a is empty. Falling back to latest known offset.\n"
    assert result.stdout.startswith(warning)
    assert result.stdout.endswith(f"{'idle':<30} {'a':<30} {'0':<10} {'5':<15}")


def test_only_groups_without_members_are_reset(tool, groups):
    result = tool("--reset-offsets", "--group", "busy", "--execute", "--all-topics", "--to-earliest")
    assert result.stdout.startswith(
        "\nError: Assignments can only be reset if the group 'busy' is inactive, but the current state is"
        " Stable.\n"
    )
    assert groups["busy"].offsets[A[0]] == (2, "")


def test_a_plan_goes_out_and_comes_in(tool, groups, tmp_path):
    groups["else"] = Group(offsets={B0: (0, "")})
    flags = ("--reset-offsets", "--group", "idle", "--dry-run")
    single = tool(*flags, "--all-topics", "--to-latest", "--export").stdout
    assert sorted(single.splitlines()) == ["", "a,0,5", "a,2,5"]
    path = tmp_path / "plan.csv"
    path.write_text(single)
    assert planned(tool(*flags, "--from-file", str(path))) == {("a", 0): 5, ("a", 2): 5}

    several = tool(*flags, "--group", "else", "--all-topics", "--to-earliest", "--export").stdout
    assert sorted(several.splitlines()) == ["", "else,b,0,0", "idle,a,0,0", "idle,a,2,0"]
    path.write_text(several)
    assert planned(tool(*flags, "--from-file", str(path))) == {("a", 0): 0, ("a", 2): 0}
    missing = tool("--reset-offsets", "--group", "none", "--dry-run", "--from-file", str(path))
    assert missing.stdout.startswith("\nError: No reset plan for group none found\n")

    path.write_text("a,zero,5\n")
    assert "has a line that is no position: idle,a,zero,5" in tool(*flags, "--from-file", str(path)).stdout


def test_groups_are_deleted(tool, groups):
    assert tool("--delete", "--group", "idle").stdout == (
        "Deletion of requested consumer groups ('idle') was successful.\n"
    )
    groups["idle"] = Group()
    assert tool("--delete", "--all-groups").stdout == (
        "\nError: Deletion of some consumer groups failed:\n"
        "* Group 'busy' could not be deleted due to: java.util.concurrent.ExecutionException:"
        " org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty.\n"
        "\nThese consumer groups were deleted successfully: 'idle', '\n"
    )
    assert list(groups) == ["busy"]


def test_positions_are_deleted(tool, groups):
    result = tool("--delete-offsets", "--group", "idle", "--topic", "a:0", "--topic", "never")
    assert result.stdout.startswith("Request succeed for deleting offsets with topic a:0, never group idle\n")
    assert "a                              0               Successful     " in result.stdout
    assert (
        "never                          Not Provided    Error: :org.apache.kafka.common.errors.Unk"
        in result.stdout
    )
    assert groups["idle"].offsets == {A[2]: (4, "")}

    result = tool("--delete-offsets", "--group", "busy", "--topic", "a")
    assert "\nError: Encounter some partition level error, see the follow-up details:\n" in result.stdout
    assert result.stdout.count("GroupSubscribedToTopicException") == 3
    assert (
        "\nError: 'none' does not exist.\n"
        in tool("--delete-offsets", "--group", "none", "--topic", "a").stdout
    )


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (
            "--list --describe --all-groups",
            (
                "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
                "--delete-"
            ),
        ),
        ("", "Command must include exactly one action: --list, --describe, --delete, --reset-offsets,"),
        ("--list --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("--list --members", "Option(s) [members] are unavailable given other options on the command line"),
        ("--delete --group g --state", "Option(s) [state] are unavailable given other options"),
        ("--describe --group g --state Empty", "Option [describe] does not take a value for [state]"),
        (
            "--delete-offsets --topic a",
            "Option [delete-offsets] takes the following options: [all-groups], [group]",
        ),
        ("--list --state nonsense", "Invalid state list 'nonsense'. Valid states are: PreparingRebalance,"),
        ("--list --type share", "Invalid types list 'share'. Valid types are: Consumer, Classic"),
        (
            "--reset-offsets --group idle --dry-run --to-latest --shift-by 1 --topic a",
            'Option "[to-latest]" can\'t be used with option "[shift-by]"',
        ),
        (
            "--reset-offsets --group idle --dry-run --to-latest",
            "One of the reset scopes should be defined: --all-topics, --topic.",
        ),
        (
            "--reset-offsets --group idle --dry-run --to-latest --topic a:b",
            "Invalid partition 'b' specified in topic arg 'a:b''",
        ),
        (
            "--reset-offsets --group idle --dry-run --shift-by 1 --topic a:1",
            "Cannot shift offset for partition a-1 since there is no current committed offset",
        ),
    ],
)
def test_a_wrong_use_is_told_on_stderr(tool, flags, line):
    result = tool(*flags.split())
    assert (result.exit_code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first.startswith(line)
    assert second == "See barnabas groups --help for the options, with examples."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--list --timeout soon", "Cannot parse argument 'soon' of option timeout"),
        ("--list --command-config /nowhere", "java.nio.file.NoSuchFileException: /nowhere"),
        (
            "--delete-offsets --group g --group h --topic a",
            "Found multiple arguments for option group, but you",
        ),
        (
            "--reset-offsets --group idle --dry-run --topic never --to-latest",
            (
                f"{EXECUTION}org.apache.kafka.common.errors.UnknownTopicOrPartitionException: This server "
                "does not "
            ),
        ),
        (
            "--reset-offsets --group idle --dry-run --topic a --to-datetime 2020-01-01",
            (
                "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to "
                "ISO8601"
            ),
        ),
        (
            "--reset-offsets --group idle --dry-run --topic a --to-offset 9999999999999999999",
            "Cannot parse argument '9999999999999999999' of option to-offset",
        ),
        (
            "--reset-offsets --group idle --dry-run --topic a --by-duration 1h",
            "Text cannot be parsed to a Duration",
        ),
    ],
)
def test_what_fails_is_told_as_the_script_tells_it(tool, flags, words):
    result = tool(*flags.split())
    assert result.stdout.startswith(f"\nError: Executing consumer group command failed due to {words}")
    assert result.exit_code == 0  # as kafka-consumer-groups.sh ends


def test_nobody_there_is_told_in_time(barnabas):
    result = barnabas("groups", "--bootstrap-server", "127.0.0.1:1", "--list", "--timeout", "100")
    assert result.stdout.startswith(
        "\nError: Executing consumer group command failed due to "
        "org.apache.kafka.common.errors.TimeoutException:"
        " No broker of 127.0.0.1:1 answered in 100 ms"
    )


def test_help_says_how_to_go_back_to_the_classic_protocol(barnabas):
    shown = " ".join(barnabas("groups", "--help").stdout.split())
    assert "Before a JVM 3.9 broker may coordinate in a cluster with groups of the consumer protocol" in shown
    assert "group.protocol=classic" in shown
