"""What each command prints, and where its errors go."""

import pytest

from barnabas.records.batch import build_batch
from barnabas.records.record import Record


@pytest.fixture
def topics(barnabas, cluster):
    return lambda *flags: barnabas("topics", "--bootstrap-server", cluster.bootstrap, *flags)


@pytest.fixture
def get_offsets(barnabas, cluster):
    return lambda *flags: barnabas("get-offsets", "--bootstrap-server", cluster.bootstrap, *flags)


@pytest.fixture
def produce(barnabas, cluster):
    return lambda stdin, *flags: barnabas(
        "produce",
        "--topic",
        "t",
        "--bootstrap-server",
        cluster.bootstrap,
        "--timeout",
        "5",
        *flags,
        stdin=stdin,
    )


@pytest.fixture
def consume(barnabas, cluster):
    return lambda *flags: barnabas("consume", "--topic", "t", "--bootstrap-server", cluster.bootstrap, *flags)


def refused(result, line):
    assert result.exit_code == 1, result.output
    assert result.stderr == line + "\n"


def test_topics_speaks_as_the_script_does(topics, cluster):
    assert topics("--create", "--topic", "orders", "--partitions", "2").stdout == "Created topic orders.\n"
    assert topics("--list").stdout == "orders\n"
    refused(
        topics("--create", "--topic", "orders"),
        "Error while executing topic command : Topic 'orders' already exists.",
    )
    assert topics("--create", "--topic", "orders", "--if-not-exists").exit_code == 0
    described = topics("--describe", "--topic", "orders").stdout.splitlines()
    assert described[0].split("\t")[0::2] == [
        "Topic: orders",
        "PartitionCount: 2",
        "Configs: retention.ms=1000",
    ]
    assert described[1:] == [
        f"\tTopic: orders\tPartition: {n}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\tLastKnownElr: N/A"
        for n in range(2)
    ]
    assert topics("--delete", "--topic", "ord.*").stdout == ""
    assert cluster.topics == {}
    refused(
        topics("--delete", "--topic", "orders"),
        "Error while executing topic command : Topic 'orders' does not exist as expected",
    )
    assert topics("--delete", "--topic", "orders", "--if-exists").exit_code == 0


def test_a_name_with_a_dot_is_warned_about(topics):
    assert topics("--create", "--topic", "a.b").stdout.startswith(
        "WARNING: Due to limitations in metric names"
    )


def test_describe_reports_only_what_is_asked_for(topics, cluster):
    cluster.add_topic("t", 2)
    cluster.leaders["t", 1] = -1
    (line,) = topics("--describe", "--unavailable-partitions").stdout.splitlines()
    assert "Partition: 1\tLeader: none" in line
    assert len(topics("--describe", "--topics-with-overrides").stdout.splitlines()) == 1
    assert len(topics("--describe", "--at-min-isr-partitions").stdout.splitlines()) == 2
    assert topics("--describe", "--under-replicated-partitions").stdout == ""


def test_assignments_set_the_partitions(topics, cluster):
    topics("--create", "--topic", "t", "--replica-assignment", "1,1,1")
    assert cluster.topics["t"] == 3
    refused(
        topics("--create", "--topic", "u", "--replica-assignment", "1:1"),
        "Error while executing topic command : Partition replica lists may not contain duplicate entries: 1",
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--list", "--create"], "Command must include exactly one action"),
        ([], "Command must include exactly one action"),
        (["--create"], 'Missing required argument "[topic]"'),
        (["--list", "--partitions", "2"], 'Option "[partitions]" can\'t be used with option "[list]"'),
        (["--create", "--topic", "t", "--partitions", "x"], "'x' is not a valid integer"),
        (["--create", "--topic", "t", "--partitions", "0"], "The partitions must be greater than 0"),
        (
            ["--create", "--topic", "t", "--partitions", "99999999999"],
            "The partitions must be between 1 and 2147483647 inclusive",
        ),
        (
            ["--create", "--topic", "t", "--replica-assignment", "99999999999"],
            "--replica-assignment expects broker ids like 1:2,2:3, but received: 99999999999",
        ),
        (["--create", "--topic", "t", "--config", "a"], 'must be in the format "key=val"'),
        (["--list", "--topic", "["], "[ is an invalid regex."),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_flags_are_one_line(topics, flags, words):
    result = topics(*flags)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_get_offsets_filters_as_the_script_does(get_offsets, cluster):
    cluster.add_topic("t", 12)
    cluster.add_topic("other", 1)
    cluster.append("t", 2, build_batch([Record(i, 5000 + i, None, b"v", ()) for i in range(3)]))

    def lines(*flags):
        return get_offsets(*flags).stdout.split()

    everything = lines("--topic", "t")
    assert everything[:4] == ["t:0:0", "t:1:0", "t:10:0", "t:11:0"]
    assert len(lines()) == 13
    assert lines("--topic", "t", "--partitions", "2,0") == ["t:0:0", "t:2:3"]
    assert lines("--topic-partitions", "t:1-3,oth.*") == ["other:0:0", "t:1:0", "t:2:3"]
    assert lines("--topic-partitions", "t:10-") == ["t:10:0", "t:11:0"]
    assert lines("--topic-partitions", "t:-1") == ["t:0:0"]
    assert lines("--topic-partitions", ":2") == ["t:2:3"]
    assert lines("--topic", "t", "--partitions", "2", "--time", "earliest") == ["t:2:0"]
    assert lines("--topic", "t", "--time", "5001") == ["t:2:1"]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--topic", "none"], "Could not match any topic-partitions with the specified filters"),
        (
            ["--time", "soon"],
            (
                "Malformed time argument soon. Please use -1 or latest / -2 or earliest / -3 or max-timestamp"
                " / -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
            ),
        ),
        (
            ["--partitions", "a"],
            "--partitions expects a comma separated list of numeric partition ids, but received: a",
        ),
        (
            ["--topic-partitions", "a:b"],
            "org.apache.kafka.tools.TerseException: Invalid rule specification: a:b",
        ),
        (
            ["--topic-partitions", "a", "--topic", "b"],
            "--topic-partitions cannot be used with --topic or --partitions",
        ),
    ],
)
def test_get_offsets_refuses_in_the_words_of_the_script(get_offsets, flags, line):
    refused(get_offsets(*flags), f"Error occurred: {line}")


def test_lines_go_in_and_come_out(produce, consume, cluster):
    assert produce("a:1\nb:2\nlast:\n", "--key-separator", ":").exit_code == 0
    result = consume("--from-beginning", "--max-messages", "3", "--formatter-property", "print.key=true")
    assert result.stdout == "a\t1\nb\t2\nlast\t\n"
    assert result.stderr == "Processed a total of 3 messages\n"
    one = consume(
        "--partition",
        "0",
        "--offset",
        "1",
        "--max-messages",
        "1",
        "--formatter-property",
        "print.offset=true",
    )
    assert one.stdout == "Offset:1\t2\n"
    assert consume("--from-beginning", "--timeout-ms", "150").stdout == "1\n2\n\n"


@pytest.mark.parametrize(
    ("reachable", "flags"),
    [
        (True, ("--topic", "nope")),
        (True, ("--topic", "nope", "--partition", "0")),
        (False, ("--topic", "nope")),
        (False, ("--topic", "nope", "--group", "readers")),
        (False, ("--include", "no.*")),
    ],
)
def test_consume_ends_with_its_time_where_there_is_nothing_to_read(barnabas, cluster, reachable, flags):
    """As Kafka's script: no error, and no longer than asked for."""
    at = cluster.bootstrap if reachable else "127.0.0.1:1"
    result = barnabas("consume", "--bootstrap-server", at, *flags, "--timeout-ms", "300")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[-1] == "Processed a total of 0 messages"


def test_all_parts_of_a_record_can_be_printed(produce, consume, cluster):
    properties = ["parse.key=true", "parse.headers=true", "null.marker=NULL"]
    produce("h1:v1,h2:NULL\tkey\tNULL\n", *(f"--reader-property={one}" for one in properties))
    parts = ["timestamp", "partition", "offset", "headers", "key"]
    printed = consume(
        "--from-beginning",
        "--max-messages",
        "1",
        *(f"--formatter-property=print.{one}=true" for one in parts),
    ).stdout.split("\t")
    (record,) = cluster.records("t")
    assert printed == [
        f"CreateTime:{record.timestamp}",
        "Partition:0",
        "Offset:0",
        "h1:v1,h2:null",
        "key",
        "null\n",
    ]


@pytest.mark.parametrize(
    ("stdin", "flags", "line"),
    [
        ("x\n", ["--key-separator", ":"], "No key separator found on line number 1: 'x'"),
        ("x\n", ["--reader-property", "parse.keys=true"], "Unknown property parse.keys; there are parse.key"),
        (
            "x\n",
            ["--reader-property", "headers.separator=:"],
            "headers.separator and headers.key.separator may not be equal",
        ),
        ("x\n", ["--command-property", "acks=2"], "Invalid value 2 for configuration acks"),
    ],
)
def test_produce_says_what_is_wrong(produce, stdin, flags, line):
    result = produce(stdin, *flags)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {line}")
    assert result.stderr.count("\n") == 1


def test_consume_says_what_is_wrong(consume, cluster):
    cluster.add_topic("t", 2)
    assert "Topic t has no partition 7, only 0 to 1" in consume("--partition", "7").stderr
    assert "The partition is required when offset is specified" in consume("--offset", "7").stderr
    assert "offset value '-3' is incorrect" in consume("--partition", "0", "--offset", "-3").stderr


def test_no_broker_there_is_one_line(barnabas, tmp_path):
    quick = tmp_path / "quick.properties"
    quick.write_text("default.api.timeout.ms=100\nrequest.timeout.ms=100\nretry.backoff.ms=80\n")
    result = barnabas("get-offsets", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(quick))
    assert result.exit_code == 1
    assert "Error occurred: No broker of 127.0.0.1:1 answered in 100 ms" in result.stderr


SECURITY = {
    "security.protocol=KERBEROS": (
        "security.protocol='KERBEROS' asks for security, which this client does not have yet: it speaks "
        "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL only"
    ),
    "sasl.jaas.config=password": ("sasl.jaas.config asks for security, but security.protocol is PLAINTEXT"),
    "sasl.login.class=x": "sasl.login.class asks for security, which this client does not have yet",
    "ssl.truststore.location=/x": (
        "ssl.truststore.location asks for security, but security.protocol is PLAINTEXT"
    ),
}
COMMANDS = {
    "topics": ("--list",),
    "get-offsets": (),
    "groups": ("--list",),
    "explain": ("coordinator", "g"),
    "produce": ("--topic", "t"),
    "consume": ("--topic", "t", "--from-beginning", "--max-messages", "1"),
}
FILES = {
    "produce": ["--command-config", "--reader-config"],
    "consume": ["--command-config", "--formatter-config"],
}
PAIRS = {
    "produce": ["--command-property", "--reader-property"],
    "consume": ["--command-property", "--formatter-property"],
}


@pytest.mark.parametrize("setting", SECURITY)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_asked_for_security_ends_and_sends_nothing(
    barnabas, cluster, tmp_path, command, setting
):
    file = tmp_path / "client.properties"
    file.write_text(f"client.id=x\n{setting}\n")
    ways = [[flag, str(file)] for flag in FILES.get(command, ["--command-config"])]
    ways += [[flag, setting] for flag in PAIRS.get(command, [])]
    for way in ways:
        flags = (*COMMANDS[command], "--bootstrap-server", cluster.bootstrap, *way)
        result = barnabas(command, *flags, stdin="a line\n")

        assert result.exit_code == 1, result.output
        assert result.stdout == ""
        (line,) = result.stderr.splitlines()
        assert line.endswith(SECURITY[setting])
    assert cluster.seen == []


@pytest.mark.parametrize("command", ["topics", "groups", "produce"])
def test_a_command_that_is_asked_for_plaintext_uses_it(barnabas, cluster, groups, tmp_path, command):
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    flag = FILES.get(command, ["--command-config"])[0]
    flags = (*COMMANDS[command], "--bootstrap-server", cluster.bootstrap, flag, str(file))
    result = barnabas(command, *flags, stdin="")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("command", ["topics", "get-offsets"])
def test_a_file_of_options_that_cannot_be_read_is_one_line(barnabas, cluster, tmp_path, command):
    (tmp_path / "latin").write_bytes(b"client.id=\xff")
    for name, words in (("none", "none"), ("latin", "latin is not a text in UTF-8")):
        path = str(tmp_path / name)
        result = barnabas(
            command, "--bootstrap-server", cluster.bootstrap, *COMMANDS[command], "--command-config", path
        )
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert words in line


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("odd\x1b[2Jkey=1", "Warning: this client does not obey odd\\x1b[2Jkey"),
        ("request.timeout.ms=\x1b]0;gone\x07", "Invalid value \\x1b]0;gone\\x07 for configuration"),
        # Such a line is not shown: it may be a password.
        ("\x1b[31mno pair", "line 1 is not of the form key=value"),
    ],
)
@pytest.mark.parametrize("command", ["topics", "groups", "get-offsets"])
def test_control_characters_of_a_file_do_not_reach_the_terminal(
    barnabas, cluster, groups, tmp_path, command, line, shown
):
    file = tmp_path / "client.properties"
    file.write_text(line)
    flags = (*COMMANDS[command], "--bootstrap-server", cluster.bootstrap, "--command-config", str(file))
    result = barnabas(command, *flags)
    assert shown in result.stderr + result.stdout
    assert "\x1b" not in result.stderr + result.stdout
