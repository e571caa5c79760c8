"""Flags that Kafka 4.2 renamed (KIP-1147), and what its newer scripts can: asked on a running broker.

The words are those of the scripts of 4.3.1; theirs stand on standard output, ours on standard error.
"""

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer

HAS_BEEN = "Option {} has been deprecated and will be removed in a future version. Use {} instead."
IS = "Option {} is deprecated and will be removed in a future version. Use {} instead."
WARNING = "Warning: {} is deprecated and will be removed in a future version. Use {} instead."
SHORT = "Warning: {} is deprecated. Use {} instead."

OPTIONS = "Options {} and {} cannot be specified together"
SENDING = "--num-records 1 --record-size 1 --throughput -1"
RENAMED = [
    (
        "produce",
        "--producer-property acks=1",
        "--command-property acks=1",
        WARNING,
        "Options {1} and {0} cannot",
    ),
    ("produce", "--producer.config FILE", "--command-config FILE", WARNING, "Options {1} and {0} cannot"),
    ("produce", "--property a=b", "--reader-property parse.key=false", WARNING, "Options {1} and {0} cannot"),
    (
        "consume --max-messages 1",
        "--consumer-property client.id=x",
        "--command-property client.id=y",
        IS,
        OPTIONS,
    ),
    ("consume --max-messages 1", "--consumer.config FILE", "--command-config FILE", IS, OPTIONS),
    (
        "consume --max-messages 1",
        "--property print.key=true",
        "--formatter-property print.key=true",
        IS,
        OPTIONS,
    ),
    (
        "consumer-perf-test --timeout 100",
        "--messages 1",
        "--num-records 1",
        SHORT,
        "Exactly one of the following arguments is required: [messages], [num-records]",
    ),
    (
        "consumer-perf-test --timeout 100 --num-records 1",
        "--consumer.config FILE",
        "--command-config FILE",
        SHORT,
        'Option "[consumer.config]" can\'t be used with option "[command-config]"',
    ),
    (
        f"producer-perf-test {SENDING}",
        "--producer-props acks=1",
        "--command-property acks=1",
        HAS_BEEN,
        "{} and {} cannot be specified together",
    ),
    (
        f"producer-perf-test {SENDING}",
        "--producer.config FILE",
        "--command-config FILE",
        HAS_BEEN,
        "{} and {} cannot be specified together",
    ),
    (
        "verifiable-producer --max-messages 1",
        "--producer.config FILE",
        "--command-config FILE",
        HAS_BEEN,
        "Options {} and {} are mutually exclusive",
    ),
    (
        "verifiable-consumer --max-messages 1 --group-id GROUP",
        "--consumer.config FILE",
        "--command-config FILE",
        HAS_BEEN,
        "Options {} and {} are mutually exclusive",
    ),
    (
        "leader-election --election-type preferred --partition 0",
        "--admin.config FILE",
        "--command-config FILE",
        HAS_BEEN,
        'Option "[admin.config]" can\'t be used with option "[command-config]"',
    ),
    (
        "cluster cluster-id",
        "--config FILE",
        "--command-config FILE",
        HAS_BEEN,
        "{} and {} cannot be specified together",
    ),
]


@pytest.fixture
def run(barnabas, broker, topic_name, tmp_path):
    """Runs a command on a topic that holds a record."""
    topic = topic_name("flags")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(topic, partitions=1))
    with Producer(broker.bootstrap) as producer:
        producer.send(topic, "v", "k")
    file = tmp_path / "client.properties"
    file.write_text("client.id=from-file\n")

    def run(command, *flags):
        words = [*command.split(), *(word for flag in flags for word in flag.split())]
        words += ["--bootstrap-server", broker.bootstrap]
        if not command.startswith(("cluster", "list-groups", "broker-api-versions")):
            words += ["--topic", topic]
        if command.startswith("consume "):
            words.append("--from-beginning")
        meant = {"FILE": str(file), "GROUP": topic_name("by")}
        given = [meant.get(word, word) for word in words]
        return barnabas(*given, stdin="key\tvalue\n" if command == "produce" else "")

    return run


@pytest.mark.parametrize(
    ("command", "old", "new", "warning", "together"), RENAMED, ids=lambda value: str(value).split()[0]
)
def test_an_old_name_does_what_the_new_one_does_and_says_so(run, command, old, new, warning, together):
    names = (old.split()[0], new.split()[0])
    with_old, with_new = run(command, old), run(command, new)

    assert with_new.exit_code == 0, with_new.stderr
    assert with_old.exit_code == (1 if "a=b" in old else 0), "an old name reaches what checks the value"
    assert with_old.stderr.splitlines()[0] == warning.format(*names)
    assert names[0] not in with_new.stderr

    both = run(command, old, new)
    assert both.exit_code == 1
    assert together.format(*names) in both.stderr


def test_the_largest_batch_has_an_old_name_that_wins(run):
    done = run("produce", "--max-partition-memory-bytes 100", "--batch-size 0")
    assert done.stderr.splitlines() == [
        (
            "Warning: --max-partition-memory-bytes is deprecated and will be removed in Apache Kafka 5.0. Use"
            " --batch-size instead."
        )
    ]


def test_a_run_that_warms_up_prints_the_steady_state_by_itself(run):
    done = run("producer-perf-test --num-records 30 --record-size 1 --throughput -1 --warmup-records 10")
    first, steady, total, last = done.stdout.splitlines()
    assert (
        first == "Warmup first 10 records. Steady state results will print after the complete test summary."
    )
    assert steady == "In steady state."
    assert total.startswith("30 records sent, ")
    assert last.startswith("20 steady state records sent, ")
    assert last.endswith(" ms 99.9th.")


def test_intervals_are_as_long_as_asked_for(run):
    done = run(
        "producer-perf-test --num-records 30 --record-size 1 --throughput 100 --reporting-interval 100"
    )
    *intervals, total = done.stdout.splitlines()
    assert intervals
    assert sum(int(line.split()[0]) for line in intervals) <= 30
    assert total.startswith("30 records sent, ")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--warmup-records 30", "--warmup-records must be strictly fewer than the number of records"),
        ("--reporting-interval 0", "--reporting-interval should be greater than zero"),
    ],
)
def test_what_a_run_does_not_take(run, flags, words):
    done = run("producer-perf-test --num-records 30 --record-size 1 --throughput -1", flags)
    assert done.exit_code == 1
    assert words in done.stderr


def test_reading_all_topics_that_match(barnabas, broker, topic_name):
    names = [topic_name("some"), topic_name("some")]
    with Admin(broker.bootstrap) as admin:
        admin.topics.create([NewTopic(name, partitions=1) for name in names])
    with Producer(broker.bootstrap) as producer:
        for name in names:
            producer.send(name, "value")
    flags = ("--bootstrap-server", broker.bootstrap, "--num-records", "2", "--timeout", "60000")
    done = barnabas("consumer-perf-test", *flags, "--include", "|".join(names))
    assert done.stdout.splitlines()[1].split(", ")[4] == "2", done.stderr
    together = barnabas("consumer-perf-test", *flags, "--include", "x", "--topic", "y")
    assert "Exactly one of the following arguments is required: [topic], [include]" in together.stderr


def test_endpoints_and_versions_of_a_cluster(run, broker):
    host, port = broker.bootstrap.split(":")
    done = run("cluster list-endpoints --include-fenced-brokers")
    assert done.stdout.splitlines() == [
        "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  ",
        f"0          {host} {port:<10} null       unfenced   broker         ",
    ]
    assert run("cluster api-versions").stdout == run("broker-api-versions").stdout


def test_groups_of_all_types(run, topic_name):
    group = topic_name("group")
    assert run("consume --max-messages 1", f"--group {group}").exit_code == 0
    header, *rows = run("list-groups --list").stdout.splitlines()
    assert header.split() == ["GROUP", "TYPE", "PROTOCOL"]
    assert [row.split() for row in rows if row.startswith(group)] == [[group, "Classic", "consumer"]]
    for flags, is_there in {
        "--consumer": True,
        "--group-type classic": True,
        "--protocol consumer": True,
        "--share": False,
        "--streams": False,
        "--group-type consumer": False,
        "--protocol connect": False,
    }.items():
        assert (group in run("list-groups --list", flags).stdout) is is_there, flags


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "Command must include exactly one action: --list"),
        ("--list --share --streams", 'Option "[share]" can\'t be used with option "[streams]"'),
        ("--list --consumer --protocol x", 'Option "[consumer]" can\'t be used with option "[protocol]"'),
        ("--list --group-type bogus", "'bogus' is not one of"),
    ],
)
def test_flags_of_groups_that_do_not_go_together(run, flags, words):
    done = run(f"list-groups {flags}")
    assert done.exit_code == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("expression", "line"),
    [
        ("orders-.*", "The regular expression `orders-.*` is valid."),
        ("orders(", "The regular expression `orders(` is invalid: missing closing )."),
    ],
)
def test_an_expression_is_judged_without_a_broker(barnabas, expression, line):
    done = barnabas("groups", "--validate-regex", expression)
    assert (done.exit_code, done.stdout) == (0, f"{line}\n")


def test_partitions_come_in_pages(barnabas, broker, topic_name):
    """A topic's partitions are cut between answers; what is printed is the same for every size of a page."""
    name = topic_name("pages")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create([NewTopic(name, partitions=5), NewTopic(f"{name}-other", partitions=2)])
    flags = ("--describe", "--topic", f"{name}.*", "--bootstrap-server", broker.bootstrap)
    whole = barnabas("topics", *flags).stdout
    assert [line.split("\t")[2] for line in whole.splitlines() if line.startswith("\t")] == [
        f"Partition: {number}" for number in (0, 1, 2, 3, 4, 0, 1)
    ]
    for size in ("1", "3", "7"):
        assert barnabas("topics", *flags, "--partition-size-limit-per-response", size).stdout == whole
