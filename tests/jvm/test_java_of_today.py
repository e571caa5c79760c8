"""A program with the Java 4.4 clients does the same on ours, as it starts by default, and on a genuine 4.4.

It calls every method of the admin client, produces in every mode and consumes by both protocols
(`JavaOfToday.java`). What comes of it is the same, but for what stands here with its reason.
"""

import re
import subprocess
from pathlib import Path

import kafka_harness
import pytest

from serving import die_with_parent

pytestmark = pytest.mark.jvm

SOURCE = Path(__file__).with_name("JavaOfToday.java")
DIFFERENT = {
    "createTopics of too many": "refusals of administration are worded as Kafka 3.9 does",
    "createPartitions, fewer": "the same",
    "incrementalAlterConfigs, bad": "the same",
    "describeConfigs of": "KRaft keeps min.insync.replicas as a setting of all brokers",
    "describeConfigs, keys of a topic": "keys of tiered storage and dead letters; those of before Kafka 4",
    "describeConfigs, keys of a group": "keys of share groups and of groups of Streams",
    "a share consumer": "no share groups",
    "listGroups": "the same",
    "describeShareGroups": "the same",
    "listShareGroupOffsets": "the same",
    "alterShareGroupOffsets": "the same",
    "deleteShareGroupOffsets": "the same",
    "deleteShareGroups": "the same",
    "describeStreamsGroups": "no groups of Streams",
    "describeFeatures": "features of KRaft, share groups and groups of Streams",
    "describeMetadataQuorum": "the metadata is in a store, not in a quorum",
    "addRaftVoter": "the same",
    "removeRaftVoter": "the same",
    "unregisterController": "the same",
    "unregisterBroker": "a registration ends with its broker's session",
}
"""What is done, or the beginning of it, with the reason why ours says something else."""
KAFKAS = {"num.partitions": 1, "share.coordinator.state.topic.replication.factor": 1}
"""What a single node of the genuine one needs."""
_UUID = re.compile(r"(?<![\w-])[\w-]{22}(?![\w-])|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PARTITIONS = re.compile(r"(topicPartitions=)([\w,-]+)")
"""A set, in the order of a table of Java's."""
_TIME = re.compile(r"\b1[789]\d{11}\b")
_BYTES = re.compile(r"\b(total|usable)Bytes=(OptionalLong\[\d+\]|\d+)")


def outcome(bootstrap):
    """What the program says of a broker, by what it has done."""
    command = kafka_harness.java_command(
        kafka_harness.NEWEST_CLIENTS, str(SOURCE), kafka_harness.TOOL_OPTIONS
    )
    done = subprocess.run(
        [*command, bootstrap],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        preexec_fn=die_with_parent,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [line.split("\t", 1) for line in done.stdout.splitlines()]
    host, _, port = bootstrap.partition(":")
    return [(what, _normal(result.replace(f"{host}:{port}", "<broker>"), port)) for what, result in lines]


def _normal(text, port):
    text = _BYTES.sub(r"\1Bytes=<size>", re.sub(rf"\b{port}\b", "<port>", text))
    text = _PARTITIONS.sub(lambda found: found[1] + ",".join(sorted(found[2].split(","))), text)
    return _TIME.sub("<now>", _UUID.sub("<uuid>", text))


@pytest.mark.timeout(300)
def test_a_java_program_cannot_tell_our_broker_from_kafka_4(judge, serve, tmp_path):
    judge("Apache Kafka 4.4", lambda: kafka_harness.artifacts(kafka_harness.KRAFT_ERA))
    (tmp_path / "kafka").mkdir()
    kafka = kafka_harness.start_kraft(tmp_path / "kafka", KAFKAS)
    try:
        theirs = outcome(kafka.wait_until_listening().bootstrap)
    finally:
        kafka.kill()
    server = serve(tmp_path / "ours", "--set", "broker.id=1")
    ours = outcome(server.wait_until_ready().bootstrap)
    assert server.stop() == 0

    assert [what for what, _ in ours] == [what for what, _ in theirs]
    assert theirs[-1] == ("not called", "[]")
    assert len(theirs) > 150
    found = {what: (said, mine) for (what, said), (_, mine) in zip(theirs, ours, strict=True) if said != mine}
    told = {what: reason for what in found for begin, reason in DIFFERENT.items() if what.startswith(begin)}
    unexplained = {what: both for what, both in found.items() if what not in told}
    shown = [f"{what}:\n  {said}\n  {mine}" for what, (said, mine) in unexplained.items()]
    assert not unexplained, "\n".join(shown)
    gone = [begin for begin in DIFFERENT if not any(what.startswith(begin) for what in found)]
    assert not gone, f"no longer different: {gone}"
