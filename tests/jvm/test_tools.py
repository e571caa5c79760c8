"""Kafka's own command-line tools, of 3.9 and of 4.3, against a running broker."""

import re

import pytest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]
VERSIONS = ["3.9.2", "4.3.1"]

# What a client of either version must find usable, in the names that the tool prints.
SERVED = {
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "InitProducerId",
    "DescribeConfigs",
    "DescribeCluster",
}


@pytest.fixture(params=VERSIONS)
def tool(request, kafka_tool, broker):
    """Runs a tool of one version against the broker; fails the test unless it exits with 0."""

    def run(name, *arguments, exit_code=0, **options):
        server = ("--bootstrap-server", broker.bootstrap)
        done = kafka_tool(name, *server, *arguments, version=request.param, **options)
        assert done.returncode == exit_code, (
            f"{name} exited with {done.returncode}\n{done.stdout}{done.stderr}"
        )
        return done

    return run


def test_topics_are_created_listed_described_and_deleted(tool, topic_name):
    name = topic_name("tool")

    created = tool(
        "kafka-topics",
        *("--create", "--topic", name, "--partitions", "3", "--replication-factor", "1"),
        *("--config", "retention.ms=86400000"),
    )
    assert f"Created topic {name}." in created.stdout

    described = tool("kafka-topics", "--describe", "--topic", name).stdout
    assert re.search(rf"Topic: {name}\s+TopicId: \S+\s+PartitionCount: 3\s+ReplicationFactor: 1", described)
    assert "retention.ms=86400000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: (\d+)\s+Replicas: \1\s+Isr: \1", described)) == 3

    again = tool("kafka-topics", "--create", "--topic", name, exit_code=1)
    assert f"Topic '{name}' already exists." in again.stdout + again.stderr
    assert name in tool("kafka-topics", "--list").stdout.split()

    tool("kafka-topics", "--delete", "--topic", name)
    assert name not in tool("kafka-topics", "--list").stdout.split()


def test_the_console_producer_and_consumer_pass_lines_on(tool, topic_name):
    name = topic_name("console")
    tool("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    lines = [f"key-{n}:line {n} ❄" for n in range(200)]

    tool(
        "kafka-console-producer",
        *("--topic", name, "--compression-codec", "lz4"),
        *("--property", "parse.key=true", "--property", "key.separator=:"),
        input="\n".join(lines) + "\n",
    )
    consumed = tool(
        "kafka-console-consumer",
        *("--topic", name, "--partition", "0", "--offset", "earliest", "--max-messages", "200"),
        *("--property", "print.key=true", "--property", "key.separator=:", "--timeout-ms", "20000"),
    )

    # 4.3 first says that --property, the only form that 3.9 knows, is deprecated.
    printed = [line for line in consumed.stdout.splitlines() if not line.startswith("Option --")]
    assert printed == lines


def test_offsets_are_printed(tool, topic_name):
    name = topic_name("offsets")
    tool("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    tool("kafka-console-producer", "--topic", name, input="one\ntwo\nthree\n")

    assert tool("kafka-get-offsets", "--topic", name).stdout == f"{name}:0:3\n"
    assert tool("kafka-get-offsets", "--topic", name, "--time", "earliest").stdout == f"{name}:0:0\n"
    assert re.fullmatch(
        rf"{name}:0:[012]\n", tool("kafka-get-offsets", "--topic", name, "--time", "max-timestamp").stdout
    )


def test_the_table_of_versions_is_printed(tool, broker):
    printed = tool("kafka-broker-api-versions").stdout

    assert f"{broker.host}:{broker.port} (id: " in printed
    usable = set(re.findall(r"^\t(\w+)\(\d+\): [\d to]+ \[usable: \d+\]", printed, re.MULTILINE))
    assert usable >= SERVED


def test_configs_of_topics_and_brokers_are_described(tool, topic_name):
    name = topic_name("configs")
    tool("kafka-topics", "--create", "--topic", name, "--config", "segment.bytes=1048576")

    of_topic = tool("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", name).stdout
    assert f"Dynamic configs for topic {name} are:" in of_topic
    assert (
        "segment.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576"
        in of_topic
    )

    everything = tool(
        "kafka-configs", "--describe", "--all", "--entity-type", "topics", "--entity-name", name
    ).stdout
    assert (
        "cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}"
        in everything
    )
