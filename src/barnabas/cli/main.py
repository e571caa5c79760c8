"""The entry point of ``barnabas``: a table of commands, imported when one of them runs.

Every error that a user can mend ends as one line on stderr and exit code 1; Ctrl-C and a closed pipe end
quietly. What remains is a bug and shows its traceback.
"""

import difflib
import errno
import importlib
import logging
import os
import sys
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import click
from click.shell_completion import CompletionItem

from barnabas import __version__
from barnabas.cli.bootstrap import AS_SCRIPT, name_asked
from barnabas.cli.options import ToolError
from barnabas.cli.printing import printable
from barnabas.core.errors import BarnabasError

PACKAGE: Final = "barnabas.cli.commands"
_INTERRUPTED: Final = 130
_UNWRITABLE: Final = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}
"""What writing to standard output may end in; errors of files and sockets name those."""
_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}


class _Entry(NamedTuple):
    target: str
    short_help: str


COMMANDS: Final = {
    "serve": _Entry("serve:serve", "Run one broker in the foreground."),
    "demo": _Entry("demo:demo", "Replay a year of flights through a broker and PySpark; ends with a report."),
    "messages": _Entry("messages:messages", "Look at records: decoded, filtered, masked, in bounds."),
    "timeline": _Entry("timeline:timeline", "What happened to a cluster, from a console's folder."),
    "console": _Entry("console:console", "Look at clusters in a browser, by REST, or once for a script."),
    "pipeline": _Entry("pipeline:pipeline", "Write topics into tables by PySpark, from a TOML file."),
    "topics": _Entry("topics:topics", "Create, list, describe and delete topics (kafka-topics.sh)."),
    "configs": _Entry(
        "configs:configs", "Show and change settings of topics and brokers (kafka-configs.sh)."
    ),
    "acls": _Entry("acls:acls", "Show and change who may do what (kafka-acls.sh)."),
    "delegation-tokens": _Entry(
        "delegation_tokens:delegation_tokens",
        "Make, renew, end and show delegation tokens (kafka-delegation-tokens.sh).",
    ),
    "reassign-partitions": _Entry(
        "reassign_partitions:reassign_partitions",
        "Move replicas to other brokers (kafka-reassign-partitions.sh).",
    ),
    "client-metrics": _Entry(
        "client_metrics:client_metrics", "Say which metrics clients push (kafka-client-metrics.sh)."
    ),
    "leader-election": _Entry(
        "leader_election:leader_election", "Elect leaders of partitions (kafka-leader-election.sh)."
    ),
    "produce": _Entry("produce:produce", "Send lines of standard input (kafka-console-producer.sh)."),
    "consume": _Entry("consume:consume", "Print the records of topics (kafka-console-consumer.sh)."),
    "groups": _Entry(
        "groups:groups", "List, describe, reset and delete consumer groups (kafka-consumer-groups.sh)."
    ),
    "list-groups": _Entry("list_groups:list_groups", "List groups of all types (kafka-groups.sh)."),
    "get-offsets": _Entry("get_offsets:get_offsets", "Print offsets of partitions (kafka-get-offsets.sh)."),
    "delete-records": _Entry(
        "delete_records:delete_records", "Delete records up to an offset (kafka-delete-records.sh)."
    ),
    "broker-api-versions": _Entry(
        "broker_api_versions:broker_api_versions",
        "Show which versions of which APIs brokers serve (kafka-broker-api-versions.sh).",
    ),
    "cluster": _Entry("cluster:cluster", "Show the id and the endpoints of a cluster (kafka-cluster.sh)."),
    "features": _Entry(
        "features:features", "Show and change the feature levels of a cluster (kafka-features.sh)."
    ),
    "transactions": _Entry(
        "transactions:transactions",
        "List and describe transactions, find and abort hanging ones (kafka-transactions.sh).",
    ),
    "producer-perf-test": _Entry(
        "producer_perf_test:producer_perf_test",
        "Measure how fast records go in (kafka-producer-perf-test.sh).",
    ),
    "consumer-perf-test": _Entry(
        "consumer_perf_test:consumer_perf_test",
        "Measure how fast records come out (kafka-consumer-perf-test.sh).",
    ),
    "e2e-latency": _Entry(
        "e2e_latency:e2e_latency",
        "Measure how long a record takes from end to end (kafka-e2e-latency.sh).",
    ),
    "verifiable-producer": _Entry(
        "verifiable_producer:verifiable_producer",
        "Send numbers and print what became of each (kafka-verifiable-producer.sh).",
    ),
    "verifiable-consumer": _Entry(
        "verifiable_consumer:verifiable_consumer",
        "Read, and print fetches, rebalances and commits (kafka-verifiable-consumer.sh).",
    ),
    "transactional-message-copier": _Entry(
        "transactional_message_copier:transactional_message_copier",
        "Copy a topic in transactions, and print how far it is (for tests).",
    ),
    "log-dirs": _Entry(
        "log_dirs:log_dirs", "Show what the log directories of brokers hold (kafka-log-dirs.sh)."
    ),
    "dump-log": _Entry("dump_log:dump_log", "Print the files of a log directory (kafka-dump-log.sh)."),
    "analyze": _Entry("analyze:analyze", "Analyse logs with Spark: what fills the disk, skew, codecs."),
    "kafka-scripts": _Entry(
        "kafka_scripts:kafka_scripts", "Write scripts with Kafka's names that call these commands."
    ),
    "store": _Entry("store:store", "Show znodes of ZooKeeper or of the embedded store."),
    "zookeeper-shell": _Entry(
        "zookeeper_shell:zookeeper_shell", "Look at znodes of ZooKeeper (zookeeper-shell.sh)."
    ),
    "zookeeper-security-migration": _Entry(
        "zookeeper_security_migration:zookeeper_security_migration",
        "Set the ACLs of old znodes (zookeeper-security-migration.sh).",
    ),
    "control": _Entry(
        "control:control", "Plant faults in a broker of a test, and wait for what happens there."
    ),
    "status": _Entry(
        "status:status", "Show the brokers: what they lead and hold, how far they lag, their load."
    ),
    "doctor": _Entry("doctor:doctor", "Look for what will not work here, and say what to do."),
    "explain": _Entry(
        "explain:explain",
        "Explain who coordinates a group, who leads a partition, what a transaction waits for.",
    ),
}


_SCRIPTS: Final = {
    "producer": "produce",
    "consumer": "consume",
    "consumer-groups": "groups",
    "groups": "list-groups",
}
"""Commands whose names are not those of Kafka's scripts, by what is left of these."""


class CommandTable(click.Group):
    """A group that imports a command when it is asked for; its help needs none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order of the table, which is the order to learn them in."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name in _WORDS:
            return _WORDS[cmd_name]
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError that names the commands that may be meant, also by the script of Kafka's name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            meant = name.removesuffix(".sh").removeprefix("kafka-").removeprefix("console-")
            meant = _SCRIPTS.get(meant, meant)
            close = [meant] if meant in COMMANDS else difflib.get_close_matches(meant, list(COMMANDS), 2)
            hint = f". Did you mean {' or '.join(close)}?" if close else ""
            raise click.UsageError(f"No such command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command; one that fails says of which brokers it spoke."""
        try:
            return super().invoke(ctx)
        except click.exceptions.Exit as ended:
            if ended.exit_code:
                name_asked(ctx)
            raise
        except (click.ClickException, BarnabasError):
            name_asked(ctx)
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table: click's own way would import every command for its help."""
        found = [
            CompletionItem(name, help=entry.short_help)
            for name, entry in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.short_help) for name, entry in COMMANDS.items()])


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        _say_version()
        context.exit()


def _as_script(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.meta[AS_SCRIPT] = value


def _say_version() -> None:
    from barnabas.core.form import describe

    click.echo(f"barnabas {__version__} ({describe()})")


@click.command("version")
def _version_word() -> None:
    """Show the version."""
    _say_version()


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def _help_word(context: click.Context, command: str | None) -> None:
    """Show the help of a command, or that of all."""
    outer = context.parent
    assert outer is not None
    if command is None:
        click.echo(outer.get_help())
        return
    assert isinstance(outer.command, CommandTable)
    _, found, _ = outer.command.resolve_command(outer, [command])
    assert found is not None
    with found.make_context(command, [], outer, resilient_parsing=True) as inner:
        click.echo(found.get_help(inner))


_WORDS: Final = {"help": _help_word, "version": _version_word}
"""Commands that say what an option says; people try them first."""


@click.command(cls=CommandTable, context_settings=_CONTEXT)
@click.option(
    "--version",
    "-V",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@click.option(
    "--as-script",
    is_flag=True,
    hidden=True,
    expose_value=False,
    callback=_as_script,
    help="As Kafka's script: there are no brokers by default.",
)
def cli() -> None:
    """Apache Kafka's machinery in Python: a broker, its clients and tools, and a pipeline on PySpark.

    \b
    Begin with:
      barnabas serve                                              a broker on 127.0.0.1:9092
      barnabas topics --create --topic orders --partitions 3
      echo hello | barnabas produce --topic orders
      barnabas get-offsets --topic orders
      barnabas groups --describe --all-groups
      barnabas demo                                               all of it, with PySpark, and a report

    The commands take the flags of Kafka's scripts; `barnabas COMMAND --help` shows them with examples. They
    ask the brokers of --bootstrap-server (-b), else of BARNABAS_BOOTSTRAP_SERVERS, else localhost:9092.

    Exit codes: 0 done, 1 refused or failed (one line on standard error says why), 130 interrupted.
    """


class _Warnings(logging.Formatter):
    """What clients warn of, as a tool says it to a person."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", {})
        if getattr(record, "event", "") == "client.waiting":
            return printable(f"Warning: {fields['problem']}: {fields['error']}")
        return super().format(record)


def main() -> NoReturn:
    # Where a command sets up no logging of its own, as `serve` does.
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Warnings())
    if sys.stdout is None:
        # It was closed before we came; what is printed goes nowhere, as with Kafka's scripts.
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    try:
        code = cli.main(prog_name="barnabas", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as shown:
        click.echo(shown.ctx.get_help() if shown.ctx else "", err=True)
        code = 1
    except ToolError as error:
        code = _refuse(error.format_message(), prefix="")
    except click.ClickException as error:
        code = _refuse(_explain(error))
    except BarnabasError as error:
        code = _refuse(str(error))
    except (click.Abort, KeyboardInterrupt):
        code = _INTERRUPTED
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        if not isinstance(error, BrokenPipeError):
            _refuse(f"cannot write to standard output: {error.strerror}")
        # Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message.rstrip('.')} (see {error.ctx.command_path} --help)"
    return message


def _refuse(message: str, prefix: str = "Error: ") -> int:
    click.echo(f"{prefix}{printable(message)}", err=True)
    return 1
