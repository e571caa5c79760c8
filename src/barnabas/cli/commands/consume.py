"""``barnabas consume``: kafka-console-consumer.sh, for assigned partitions and as a member of a group."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.options import (
    LONG_MAX,
    OldName,
    ToolCommand,
    client_options,
    file_option,
    key_values,
    pairs_option,
    refuse_security,
)
from barnabas.cli.options import properties as properties_of

if TYPE_CHECKING:
    from barnabas.cli.console_consumer import Opening


def _old(flag: str) -> OldName:
    """An old name, in the words of ``ConsoleConsumerOptions``."""
    return OldName(
        flag,
        "Option {old} is deprecated and will be removed in a future version. Use {new} instead.",
        "Options {old} and {new} cannot be specified together.",
    )


@click.command(cls=ToolCommand)
@click.option("--topic", "-t", metavar="NAME", help="The topic to read.")
@click.option(
    "--include", metavar="REGEX", help="Instead of --topic: all topics whose whole name matches, by a group."
)
@click.option("--whitelist", metavar="REGEX", help="Deprecated: as --include, which goes before it.")
@click.option(
    "--group", "-g", metavar="NAME", help="Read as a member of this group, and commit what was printed."
)
@bootstrap_option(required=True)
@click.option("--partition", type=click.IntRange(min=0), help="The partition to read.  [default: all]")
@click.option(
    "--offset",
    metavar="OFFSET",
    help="Where to begin: an offset, earliest or latest; needs --partition.  [default: latest]",
)
@click.option("--from-beginning", is_flag=True, help="Begin at the first record.")
@click.option("--max-messages", type=int, help="End after so many records.  [default: never]")
@click.option("--timeout-ms", type=int, help="End when nothing has come for so long.  [default: never]")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_uncommitted", "read_committed"]),
    default="read_uncommitted",
    show_default=True,
    help="Whether records of open and aborted transactions are shown.",
)
@click.option(
    "--formatter",
    "formatter_class",
    metavar="CLASS",
    help="Kafka's class that makes text of records; see above.  [default: DefaultMessageFormatter]",
)
@pairs_option(
    "--formatter-property",
    "properties",
    "How records are printed; see above. Repeatable.",
    _old("--property"),
)
@file_option("--formatter-config", "formatter_config", "These properties, from a file.")
@click.option(
    "--key-deserializer", metavar="CLASS", help="Short for --formatter-property key.deserializer=CLASS."
)
@click.option(
    "--value-deserializer", metavar="CLASS", help="Short for --formatter-property value.deserializer=CLASS."
)
@click.option("--skip-message-on-error", is_flag=True, help="Pass over records that cannot be printed.")
@click.option("--enable-systest-events", is_flag=True, help="Print shutdown_complete at the end.")
@pairs_option(
    "--command-property", "pairs", "An option of the consumer; repeatable.", _old("--consumer-property")
)
@file_option(
    "--command-config", "config_file", "Options of the consumer, from a file.", _old("--consumer.config")
)
def consume(
    topic: str | None,
    include: str | None,
    whitelist: str | None,
    group: str | None,
    bootstrap_server: str,
    partition: int | None,
    offset: str | None,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    isolation_level: str,
    formatter_class: str | None,
    properties: tuple[str, ...],
    formatter_config: Path | None,
    key_deserializer: str | None,
    value_deserializer: str | None,
    skip_message_on_error: bool,
    enable_systest_events: bool,
    pairs: tuple[str, ...],
    config_file: Path | None,
) -> None:
    """Print records as kafka-console-consumer.sh does; Ctrl-C ends it.

    Begins behind the last record unless --from-beginning or --offset says otherwise. With --group (or a
    group.id among the options of the consumer) partitions come from the group and reading goes on where the
    group is; without, all partitions of the topic are read, or the one of --partition, and nothing is
    committed.

    \b
    Properties of the output (defaults):
      print.timestamp=false  print.partition=false  print.offset=false  print.headers=false
      print.key=false  print.value=true  key.separator=<tab>  line.separator=<newline>
      headers.separator=,  null.literal=null
      key.deserializer=  value.deserializer=  headers.deserializer=: a class of
      org.apache.kafka.common.serialization

    \b
    Formatters, of the package org.apache.kafka.tools.consumer:
      DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter (prints nothing),
      OffsetsMessageFormatter and GroupMetadataMessageFormatter (of __consumer_offsets),
      TransactionLogMessageFormatter

    \b
    Examples:
      barnabas consume --topic orders --from-beginning --bootstrap-server 127.0.0.1:9092
      barnabas consume --topic orders --group billing --from-beginning --bootstrap-server 127.0.0.1:9092
      barnabas consume --topic orders --partition 0 --offset 42 --max-messages 10 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas consume --topic orders --from-beginning --formatter-property print.key=true \\
          --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli.console_consumer import RecordPrinter, assigned_partitions
    from barnabas.cli.message_formatters import DEFAULT, deprecation, formatter
    from barnabas.client.config import CONSUMER_CONFIG

    include = include or whitelist
    if (topic is None) == (include is None):
        raise click.UsageError("Exactly one of --include/--topic is required.")
    start = _start(partition, offset, from_beginning=from_beginning)
    named = {"key.deserializer": key_deserializer, "value.deserializer": value_deserializer}
    short = {name: given for name, given in named.items() if given}
    printing = properties_of(formatter_config) | short | key_values(properties)
    refuse_security(printing)
    format_record = formatter(formatter_class or DEFAULT, printing)
    if warning := deprecation(formatter_class or DEFAULT):
        click.echo(warning, err=True)
    given = client_options(config_file, pairs, CONSUMER_CONFIG, bootstrap_server, "console-consumer")
    given = {"isolation.level": isolation_level, **given, **_group_options(group, given)}
    if include is not None or "group.id" in given:
        opening, given = _as_member(topic, include, partition, given, from_beginning=from_beginning)
    else:
        assert topic is not None  # --include makes a group, so it does not come here
        opening = assigned_partitions(topic, partition, start)
    printer = RecordPrinter(
        opening, format_record, max_messages, timeout_ms, skip_errors=skip_message_on_error
    )
    try:
        printer.run(given)
    finally:
        click.echo(f"Processed a total of {printer.count} messages", err=True)
        if enable_systest_events:
            click.echo("shutdown_complete")


def _group_options(group: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """The group, which may be named in two places; raises UsageError when they name two."""
    elsewhere = given.get("group.id")
    if group is not None and elsewhere is not None and group != elsewhere:
        raise click.UsageError(
            "The group ids provided in different places (directly using '--group', via "
            "'--consumer-property', or"
            f" via '--consumer.config') do not match. Detected group ids: '{group}', '{elsewhere}'"
        )
    return {} if group is None else {"group.id": group}


def _as_member(
    topic: str | None,
    include: str | None,
    partition: int | None,
    given: dict[str, Any],
    *,
    from_beginning: bool,
) -> "tuple[Opening, dict[str, Any]]":
    """How a member of a group begins, with its options; raises UsageError."""
    from barnabas.cli.console_consumer import group_member, own_group

    if partition is not None:
        raise click.UsageError("Options group and partition cannot be specified together.")
    reset = given.get("auto.offset.reset")
    if from_beginning and reset not in {None, "earliest"}:
        raise click.UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove "
            "one option"
        )
    defaults = {"auto.offset.reset": "earliest" if from_beginning else "latest"}
    if "group.id" not in given:
        defaults |= own_group()
    return group_member(topic, include), defaults | given


def _start(partition: int | None, offset: str | None, *, from_beginning: bool) -> int:
    """The offset to begin at, or the special timestamp of one; raises UsageError."""
    from barnabas.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

    if offset is not None and partition is None:
        raise click.UsageError("The partition is required when offset is specified.")
    if offset is not None and from_beginning:
        raise click.UsageError("Options from-beginning and offset cannot be specified together.")
    if from_beginning or (offset or "").lower() == "earliest":
        return EARLIEST_TIMESTAMP
    if offset is None or offset.lower() == "latest":
        return LATEST_TIMESTAMP
    if not offset.isdecimal() or int(offset) > LONG_MAX:
        raise click.UsageError(
            f"The provided offset value '{offset}' is incorrect. Valid values are 'earliest', 'latest', or a"
            " non-negative long."
        )
    return int(offset)
