"""Files that stand in for the scripts of a Kafka installation and call our commands.

``kafka-run-class.sh`` takes the names of Java's classes, of Kafka 3.9 and of older ones, whose tools were in
Scala.
"""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.core.errors import BarnabasError

_HEAD: Final = "#!/bin/sh\n# Written by `barnabas kafka-scripts`.\n"
_EXECUTABLE: Final = 0o755


class Tool(NamedTuple):
    """A script of Kafka's, the command that does the same, and the classes that the script runs."""

    script: str | None
    """None for a class that Kafka has no script for."""
    command: str
    classes: tuple[str, ...]


TOOLS: Final = (
    Tool("kafka-acls", "acls", ("kafka.admin.AclCommand", "org.apache.kafka.tools.AclCommand")),
    Tool(
        "kafka-broker-api-versions",
        "broker-api-versions",
        ("kafka.admin.BrokerApiVersionsCommand", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
    ),
    Tool("kafka-client-metrics", "client-metrics", ("org.apache.kafka.tools.ClientMetricsCommand",)),
    Tool("kafka-cluster", "cluster", ("kafka.tools.ClusterTool", "org.apache.kafka.tools.ClusterTool")),
    Tool("kafka-configs", "configs", ("kafka.admin.ConfigCommand",)),
    Tool(
        "kafka-console-consumer",
        "consume",
        ("kafka.tools.ConsoleConsumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    ),
    Tool(
        "kafka-console-producer",
        "produce",
        ("kafka.tools.ConsoleProducer", "org.apache.kafka.tools.ConsoleProducer"),
    ),
    Tool(
        "kafka-consumer-groups",
        "groups",
        ("kafka.admin.ConsumerGroupCommand", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
    ),
    Tool(
        "kafka-consumer-perf-test",
        "consumer-perf-test",
        ("kafka.tools.ConsumerPerformance", "org.apache.kafka.tools.ConsumerPerformance"),
    ),
    Tool("kafka-delegation-tokens", "delegation-tokens", ("org.apache.kafka.tools.DelegationTokenCommand",)),
    Tool(
        "kafka-delete-records",
        "delete-records",
        ("kafka.admin.DeleteRecordsCommand", "org.apache.kafka.tools.DeleteRecordsCommand"),
    ),
    Tool("kafka-dump-log", "dump-log", ("kafka.tools.DumpLogSegments",)),
    Tool("kafka-e2e-latency", "e2e-latency", ("org.apache.kafka.tools.EndToEndLatency",)),
    Tool(
        "kafka-features", "features", ("kafka.admin.FeatureCommand", "org.apache.kafka.tools.FeatureCommand")
    ),
    Tool(
        "kafka-get-offsets",
        "get-offsets",
        ("kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"),
    ),
    Tool("kafka-groups", "list-groups", ("org.apache.kafka.tools.GroupsCommand",)),
    Tool(
        "kafka-leader-election",
        "leader-election",
        ("kafka.admin.LeaderElectionCommand", "org.apache.kafka.tools.LeaderElectionCommand"),
    ),
    Tool(
        "kafka-log-dirs", "log-dirs", ("kafka.admin.LogDirsCommand", "org.apache.kafka.tools.LogDirsCommand")
    ),
    Tool("kafka-producer-perf-test", "producer-perf-test", ("org.apache.kafka.tools.ProducerPerformance",)),
    Tool(
        "kafka-reassign-partitions",
        "reassign-partitions",
        (
            "kafka.admin.ReassignPartitionsCommand",
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        ),
    ),
    Tool("kafka-topics", "topics", ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand")),
    Tool(
        "kafka-transactions",
        "transactions",
        ("kafka.admin.TransactionsCommand", "org.apache.kafka.tools.TransactionsCommand"),
    ),
    Tool("kafka-verifiable-consumer", "verifiable-consumer", ("org.apache.kafka.tools.VerifiableConsumer",)),
    Tool("kafka-verifiable-producer", "verifiable-producer", ("org.apache.kafka.tools.VerifiableProducer",)),
    Tool(None, "transactional-message-copier", ("org.apache.kafka.tools.TransactionalMessageCopier",)),
)


class ForeignFileError(BarnabasError):
    """A file is in the way that `write` has not written."""


def write(home: Path, python: str = sys.executable) -> list[Path]:
    """Writes the scripts into ``bin`` of a folder, over those of an earlier run; the files in order.

    They run this interpreter. Raises ForeignFileError, before anything is written, and OSError.
    """
    folder = home / "bin"
    texts = {folder / name: text for name, text in _texts(python).items()}
    for path in texts:
        if path.exists() and not path.read_bytes().startswith(_HEAD.encode()):
            raise ForeignFileError(f"{path} is not a file of this command, so it stays as it is")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        path.chmod(_EXECUTABLE)
    return list(texts)


def _texts(python: str) -> Mapping[str, str]:
    barnabas = f"{shlex.quote(python)} -m barnabas"
    texts = {
        f"{tool.script}.sh": f'{_HEAD}exec {barnabas} --as-script {tool.command} "$@"\n'
        for tool in TOOLS
        if tool.script
    }
    texts["kafka-run-class.sh"] = _run_class(barnabas)
    texts["kafka-server-start.sh"] = _server_start(barnabas)
    texts["kafka-server-stop.sh"] = _SERVER_STOP
    migration = "zookeeper-security-migration"
    texts[f"{migration}.sh"] = f'{_HEAD}exec {barnabas} {migration} "$@"\n'
    texts["zookeeper-shell.sh"] = f'{_HEAD}exec {barnabas} zookeeper-shell "$@"\n'
    return dict(sorted(texts.items()))


def _run_class(barnabas: str) -> str:
    cases = "\n".join(f"  {'|'.join(tool.classes)}) command={tool.command} ;;" for tool in TOOLS)
    return f"""{_HEAD}while [ $# -gt 0 ]; do
  case "$1" in
    -name) shift 2 ;;
    -loggc) shift ;;
    *) break ;;
  esac
done
case "$1" in
{cases}
  *) echo "Error: Could not find or load main class $1" >&2; exit 1 ;;
esac
shift
exec {barnabas} --as-script "$command" "$@"
"""


_SERVER_STOP: Final = f"""{_HEAD}# As Kafka's: every broker on this machine
# that this user may end gets SIGTERM.
pids=$(ps ax -o pid= -o args= | awk '$2 ~ /python/ && / barnabas serve |\\/barnabas serve / {{print $1}}')
if [ -z "$pids" ]; then
  echo "No kafka server to stop"
  exit 1
fi
kill -s "${{SIGNAL:-TERM}}" $pids
"""


def _server_start(barnabas: str) -> str:
    """``--override`` is ``--set`` of ours."""
    return f"""{_HEAD}if [ $# -lt 1 ]; then
  echo "USAGE: $0 server.properties [--override property=value]*" >&2
  exit 1
fi
if [ "$1" = -daemon ]; then
  echo "$0: -daemon is not supported: let a service manager start it" >&2
  exit 1
fi
config=$1
shift
left=$#
while [ "$left" -gt 0 ]; do
  case "$1" in
    --override) set -- "$@" --set ;;
    *) set -- "$@" "$1" ;;
  esac
  shift
  left=$((left - 1))
done
exec {barnabas} serve --config "$config" "$@"
"""
