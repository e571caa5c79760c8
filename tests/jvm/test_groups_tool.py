"""``barnabas groups`` and kafka-consumer-groups.sh, of 4.3 where groups are described, of 3.9 for the rest,
given the same flags on the same brokers, genuine and ours.

They print the same bytes on standard output and end with the same exit code; on standard error they say the
same, where Kafka's script adds its whole help, stack traces, and the place that a warning comes from.
"""

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator

import kafka_harness
import kafka_tools
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import NewTopic
from kafka_tools import KafkaTools, Run
from topics_there import create_topics

from barnabas.admin import Admin, GroupState

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

TOPIC = "groups-orders"
LONG = "groups-with-a-name-too-long-for-its-column"
PARTITIONS = 12
SETTLE_SECONDS = 40


@pytest.fixture(scope="module")
def theirs(judge) -> Iterator[Callable[..., Run]]:
    """Runs kafka-consumer-groups with its flags."""
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    with KafkaTools() as tools:
        yield functools.partial(tools, "kafka-consumer-groups")


@pytest.fixture(scope="module")
def todays(judge) -> Iterator[Callable[..., Run]]:
    """Runs the script of 4.3 with its flags."""
    newest = kafka_harness.NEWEST_TOOLS
    judge(f"Apache Kafka's tools {newest}", lambda: kafka_harness.artifacts(newest))
    with KafkaTools(newest) as tools:
        yield functools.partial(tools, "kafka-consumer-groups")


ours = functools.partial(kafka_tools.ours, "groups")


def said(stderr: str) -> list[str]:
    """What a tool says on standard error, without what only Kafka's prints, or only ours."""
    lines = []
    for line in stderr.splitlines():
        if line.startswith(("Option  ", "See barnabas")):
            break
        if not re.match(
            r"\s+(at|\.\.\.) |Caused by: |(java|org|com|joptsimple)\.[\w.$]+: | at \[Source", line
        ):
            lines.append(re.sub(r"^\[main\] WARN \S+ - ", "WARN ", line))
    return lines


def commit(bootstrap: str, group: str, positions: dict[tuple[str, int], int]) -> None:
    with Admin(bootstrap) as admin:
        admin.groups.alter_offsets(group, positions)


class Members:
    """Consumers of a group that poll until they are stopped."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], configs: list[dict[str, str]]) -> None:
        self._running = True
        self._threads = [
            threading.Thread(target=self._poll, args=(bootstrap, group, topics, config)) for config in configs
        ]

    def _poll(self, bootstrap: str, group: str, topics: list[str], config: dict[str, str]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
                **config,
            }
        )
        consumer.subscribe(topics)
        while self._running:
            consumer.poll(0.1)
        consumer.close()

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._running = False
            for thread in self._threads:
                thread.join()


def settled(bootstrap: str, group: str, members: int) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    with Admin(bootstrap) as admin:
        while time.monotonic() < deadline:
            found = admin.groups.try_describe([group])[group]
            if getattr(found, "state", None) is GroupState.STABLE and len(found.members) == members:
                return
            time.sleep(0.1)
    raise AssertionError(f"{group} does not settle: {found}")


@pytest.fixture(scope="module", params=["kafka39", "kafka44", "broker"])
def cluster(request) -> Iterator[str]:
    """A broker with records, idle groups and groups at work; on 4.4 one of the new protocol too."""
    found = request.getfixturevalue(request.param)
    bootstrap = found if isinstance(found, str) else found.bootstrap
    kept = {"retention.ms": "-1"}  # the records are old
    create_topics(bootstrap, NewTopic(TOPIC, PARTITIONS, 1, config=kept), NewTopic(LONG, 3, 1, config=kept))
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5 * PARTITIONS):
        at = 1_600_000_000_000 + 1000 * number
        producer.produce(TOPIC, f"{number}", partition=number % PARTITIONS, timestamp=at)
    assert producer.flush(60) == 0
    everywhere = {(TOPIC, number): number % 5 for number in range(PARTITIONS)}
    commit(bootstrap, "idle", everywhere | {(LONG, 0): 0, (LONG, 2): 0})
    commit(bootstrap, "idle-two", {(TOPIC, 3): 2})
    commit(bootstrap, "busy-static", {(TOPIC, 1): 3, (LONG, 1): 0})
    static = [{"group.instance.id": "first"}, {"group.instance.id": "second-with-a-long-name"}]
    working = [
        Members(bootstrap, "busy", [TOPIC, LONG], [{"client.id": "one"}, {"client.id": "two"}]),
        Members(bootstrap, "busy-static", [LONG], static),
    ]
    if request.param != "kafka39":
        modern = {"group.protocol": "consumer"}
        working.append(Members(bootstrap, "modern", [TOPIC], [modern, modern]))
    with contextlib.ExitStack() as stack:
        for members in working:
            stack.enter_context(members.polling())
        for group in ("busy", "busy-static", "modern")[: len(working)]:
            settled(bootstrap, group, 2)
        yield bootstrap


@pytest.fixture
def both(cluster, theirs):
    """Kafka's tool and ours, run with the same flags."""

    def run(*flags: str):
        server = ("--bootstrap-server", cluster)
        return theirs(*server, *flags), ours(*server, *flags)

    return run


def assert_same(expected, mine) -> None:
    assert mine.out == expected.out
    assert said(mine.err) == said(expected.err)
    assert mine.code == expected.code


READING = [
    "--list",
    "--list --state",
    "--list --type",
    "--list --type consumer,CLASSIC --state stable,Empty",
    "--list --state Dead",
    "--describe --group idle",
    "--describe --group busy",
    "--describe --group busy-static --offsets",
    "--describe --group idle-two --group idle",
    "--describe --all-groups",
    "--describe --all-groups --members",
    "--describe --all-groups --members --verbose",
    "--describe --all-groups --state",
    "--describe --all-groups --state --verbose",
    "--describe --all-groups --verbose",
    "--describe --all-groups --offsets --verbose",
]


@pytest.mark.parametrize("flags", READING)
def test_what_there_is_is_told_in_the_same_lines(cluster, todays, flags):
    told = ("--bootstrap-server", cluster, *flags.split())
    assert_same(todays(*told), ours(*told))


# Of 4.3 the script ends here, and tells of no other group either.
@pytest.mark.parametrize("flags", ["--describe --group none", "--describe --group none --state"])
def test_a_group_that_is_not_there_is_told_of_in_the_words_of_39(both, flags):
    assert_same(*both(*flags.split()))


PLANNING = [
    "--group idle --all-topics --to-earliest",
    f"--group idle --topic {TOPIC}:0,3,11 --topic {LONG} --to-latest --dry-run",
    f"--group idle --topic {TOPIC}:0,3 --to-offset 2 --dry-run",
    f"--group idle --topic {TOPIC}:0 --to-offset 99 --dry-run",
    f"--group idle --topic {TOPIC}:0 --to-offset -99 --dry-run",
    f"--group idle-two --topic {TOPIC}:3 --shift-by 2 --dry-run",
    f"--group idle-two --topic {TOPIC}:3 --shift-by -9 --dry-run",
    f"--group idle-two --topic {TOPIC} --to-current --dry-run",
    f"--group none --topic {TOPIC}:0,3 --to-current --dry-run",
    "--group none --all-topics --to-current --dry-run",
    f"--group idle --topic {TOPIC} --to-datetime 2020-09-13T12:27:10.000 --dry-run",
    f"--group idle --topic {TOPIC}:0,3 --to-datetime 2020-09-13T14:27:10.000+02:00 --dry-run",
    f"--group idle --topic {TOPIC}:0 --topic {LONG} --to-datetime 2030-09-13T14:27:10.5+02 --dry-run",
    f"--group idle --topic {TOPIC}:0,3 --by-duration PT1H30M --dry-run",
    f"--group idle --topic {TOPIC}:0,3 --by-duration P9999D --dry-run",
    "--group idle --all-topics --to-earliest --dry-run --export",
    "--group idle --group idle-two --all-topics --to-latest --dry-run --export",
]


# The rest is the tool's alone; one broker is enough to judge it by.
ON_ONE_BROKER = pytest.mark.parametrize("cluster", ["kafka39"], indirect=True)


@ON_ONE_BROKER
@pytest.mark.parametrize("flags", PLANNING)
def test_a_reset_is_planned_in_the_same_lines(both, flags):
    assert_same(*both("--reset-offsets", *flags.split()))


REFUSED = [
    "--list --describe --group g",
    "--describe",
    "--describe --group g --members --state",
    "--describe --group g --state Stable",
    "--describe --group g --all-groups",
    "--delete",
    "--delete --group g --topic t",
    "--delete-offsets --group g",
    "--delete-offsets --group g --group h --topic t",
    "--reset-offsets --group g --dry-run --execute",
    "--reset-offsets --topic t",
    "--reset-offsets --group idle --to-offset 1 --to-latest --topic t",
    "--reset-offsets --group idle --to-latest",
    f"--reset-offsets --group idle --topic {TOPIC} --dry-run",
    f"--reset-offsets --group idle --to-offset x --topic {TOPIC}",
    f"--reset-offsets --group idle --to-offset 1 --topic {TOPIC}:a",
    f"--reset-offsets --group idle --to-offset 1 --topic {TOPIC}:1:2",
    "--reset-offsets --group idle --topic never --to-latest",
    f"--reset-offsets --group idle-two --topic {TOPIC}:4 --shift-by 1",
    f"--reset-offsets --group busy --topic {TOPIC} --to-latest",
    f"--reset-offsets --group idle --topic {TOPIC}:0 --to-datetime 2020-09-13",
    f"--reset-offsets --group idle --topic {TOPIC}:0 --to-datetime 2020-13-13T12:26:50.000",
    f"--reset-offsets --group idle --topic {TOPIC}:0 --by-duration 1h",
    "--reset-offsets --group idle --from-file /nowhere/plan.csv",
    "--list --state foo",
    "--list --type foo",
    "--list --group g",
    "--list --topic t",
    "--list --timeout abc",
    "--list --command-config /nowhere/admin.properties",
    "--delete --group none --group none-too",
    "--delete --group busy",
    f"--delete-offsets --group none --topic {TOPIC}:1",
    f"--delete-offsets --group busy --topic {TOPIC}:1,2 --topic never",
]


@ON_ONE_BROKER
@pytest.mark.parametrize("flags", REFUSED)
def test_what_cannot_be_is_refused_in_the_same_words(both, flags):
    assert_same(*both(*flags.split()))


def test_only_groups_at_rest_are_reset(both):
    expected, mine = both("--reset-offsets", "--all-groups", "--all-topics", "--to-latest", "--dry-run")

    # Kafka's script goes through a map whose keys hash differently in each process, and prints the plan in
    # one line.
    assert sorted(mine.out.split()) == sorted(expected.out.split())


@ON_ONE_BROKER
def test_a_plan_of_either_tool_is_carried_out_by_the_other(both, cluster, theirs, tmp_path):
    server = ("--bootstrap-server", cluster)
    reset = (*server, "--reset-offsets", "--group", "idle", "--execute")
    back = {(TOPIC, number): number % 5 for number in range(PARTITIONS)}
    path = tmp_path / "plan.csv"
    from_file = ("--reset-offsets", "--group", "idle", "--dry-run", "--from-file", str(path))
    try:
        exported = ours(*reset, "--all-topics", "--to-latest", "--export")
        path.write_text(exported.out)
        assert_same(*both(*from_file))

        expected = theirs(*reset, "--topic", f"{TOPIC}:0,7", "--to-offset", "1", "--export")
        path.write_text(expected.out)
        assert_same(*both(*from_file))
        path.write_text("idle,groups-orders,3,1\nelse,groups-orders,4,2\n")
        assert_same(*both(*from_file, "--group", "idle-two"))
    finally:
        commit(cluster, "idle", back | {(LONG, 0): 0, (LONG, 2): 0})


@ON_ONE_BROKER
def test_executed_resets_leave_the_same_positions(cluster, theirs):
    server = ("--bootstrap-server", cluster)
    for group in ("twin-a", "twin-b"):
        commit(cluster, group, {(TOPIC, 0): 1, (TOPIC, 5): 2})
    flags = ("--reset-offsets", "--topic", TOPIC, "--to-datetime", "2020-09-13T12:27:10.000", "--execute")

    expected = theirs(*server, "--group", "twin-a", *flags)
    mine = ours(*server, "--group", "twin-b", *flags)

    assert mine.out == expected.out.replace("twin-a", "twin-b")
    with Admin(cluster) as admin:
        offsets = admin.groups.offsets(["twin-a", "twin-b"])
        assert len(offsets["twin-b"]) == PARTITIONS
        assert offsets["twin-b"] == offsets["twin-a"]


def test_offsets_and_groups_go_in_the_same_words(cluster, theirs):
    server = ("--bootstrap-server", cluster)
    for group in ("gone-a", "gone-b"):
        commit(cluster, group, {(TOPIC, number): 1 for number in range(PARTITIONS)} | {(LONG, 1): 0})

    forget = ("--delete-offsets", "--topic", TOPIC, "--topic", "never")
    expected = theirs(*server, "--group", "gone-a", *forget)
    mine = ours(*server, "--group", "gone-b", *forget)
    assert mine.out == expected.out.replace("gone-a", "gone-b")

    expected = theirs(*server, "--delete", "--group", "gone-a")
    mine = ours(*server, "--delete", "--group", "gone-b")
    assert mine.out == expected.out.replace("gone-a", "gone-b")
    assert "gone-" not in ours(*server, "--list").out


def test_some_groups_go_and_some_do_not(cluster, theirs):
    server = ("--bootstrap-server", cluster)
    for group in ("some-a", "some-b"):
        commit(cluster, group, {(TOPIC, 1): 1})

    expected = theirs(*server, "--delete", "--group", "some-a", "--group", "busy")
    mine = ours(*server, "--delete", "--group", "some-b", "--group", "busy")

    assert mine.out == expected.out.replace("some-a", "some-b")
    assert mine.code == expected.code


SCRIPT = [
    "--describe --group pair",
    "--describe --group pair --members --verbose",
    "--describe --group pair --state",
    "--describe --group pair-none",
    "--reset-offsets --group pair --all-topics --shift-by 1 --execute",
    "--reset-offsets --group pair-made --topic pair-topic --to-latest --execute",
    "--describe --group pair-made",
    "--delete-offsets --group pair --topic pair-topic:0 --topic pair-never",
    "--delete-offsets --group pair-none --topic pair-topic:0",
    "--describe --group pair",
    "--delete --group pair --group pair-none",
    "--delete --group pair-made",
    "--describe --group pair",
]


def test_kafkas_script_prints_on_our_broker_what_it_prints_on_kafka(kafka39, broker, theirs):
    printed = []
    for bootstrap in (kafka39, broker.bootstrap):
        create_topics(bootstrap, NewTopic("pair-topic", 3, 1))
        producer = Producer({"bootstrap.servers": bootstrap})
        for number in range(9):
            producer.produce("pair-topic", f"{number}", partition=number % 3)
        assert producer.flush(60) == 0
        commit(bootstrap, "pair", {("pair-topic", number): number for number in range(3)})
        server = ("--bootstrap-server", bootstrap)
        runs = [theirs(*server, *flags.split()) for flags in SCRIPT]
        printed.append([re.sub(r"127\.0\.0\.1:\d+  \(\d+\) *", "COORDINATOR", run.out) for run in runs])

    on_kafka, on_ours = printed
    assert on_ours == on_kafka
