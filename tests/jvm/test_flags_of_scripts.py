"""Every flag in the help of Kafka's newest scripts is a flag of ours, but for those that stand here."""

import re
import subprocess
import sys

import kafka_harness
import pytest

from barnabas.cli.kafka_scripts import TOOLS

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

NOBODYS = {"--version", "--bootstrap-controller"}
"""Kafka's version is not ours; controllers of KRaft are asked by nobody here."""
LEFT_OUT = {
    "kafka-dump-log": {"--share-group-state-decoder"},
    # It only says that the flag is gone.
    "kafka-topics": {"--delete-config"},
}
CLASSES = kafka_harness.TOOLS | {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
}
COMMANDS = {
    "kafka-cluster": ("cluster-id", "list-endpoints"),
    "kafka-features": (
        "describe",
        "upgrade",
        "downgrade",
        "disable",
        "version-mapping",
        "feature-dependencies",
    ),
    "kafka-transactions": ("list", "describe", "describe-producers", "abort", "find-hanging"),
}
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")


def run(command):
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def ours(*words):
    return run([sys.executable, "-m", "barnabas", *words])


HELPS = [
    pytest.param(tool, words, id="-".join((tool.script, *words)))
    for tool in TOOLS
    if tool.script in CLASSES
    for words in ((), *((each,) for each in COMMANDS.get(tool.script, ())))
]


@pytest.mark.parametrize(("tool", "words"), HELPS)
def test_the_flags_of_a_script_are_ours(judge, tool, words):
    judge("Kafka's tools", lambda: kafka_harness.artifacts(kafka_harness.NEWEST_TOOLS))
    java = kafka_harness.java_command(
        kafka_harness.NEWEST_TOOLS, CLASSES[tool.script], kafka_harness.TOOL_OPTIONS
    )
    theirs = set(_FLAG.findall(run([*java, *words, "--help"])))
    assert theirs, f"{tool.script} has a help"
    # Theirs shows the options of all commands with those of each, ours on a page of their own.
    pages = {(tool.command,), (tool.command, *words)}
    unknown = theirs - {flag for page in pages for flag in _FLAG.findall(ours(*page, "--help"))} - NOBODYS
    # Some are taken and not shown: those of before KIP-1147.
    refused = {flag for flag in unknown if "No such option" in ours(tool.command, *words, flag, "x")}
    assert refused == LEFT_OUT.get(tool.script, set())
