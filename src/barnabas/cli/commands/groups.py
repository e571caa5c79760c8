"""``barnabas groups``: kafka-consumer-groups.sh."""

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option
from barnabas.cli.options import kafka_names


@click.command()
@bootstrap_option(changes=("delete", "delete_offsets", "execute"))
@click.option("--command-config", metavar="FILE", help="Options of the admin client.")
@click.option(
    "--timeout",
    default="5000",
    show_default=True,
    metavar="MS",
    help="How long a request to the cluster may take, in milliseconds.",
)
@click.option("--list", is_flag=True, help="List groups.")
@click.option("--describe", is_flag=True, help="Show positions and lag, or members, or the state of groups.")
@click.option("--delete", is_flag=True, help="Delete groups without members, with their offsets.")
@click.option("--reset-offsets", is_flag=True, help="Set the positions of a group without members.")
@click.option(
    "--delete-offsets", is_flag=True, help="Forget a group's positions in topics that no member reads."
)
@click.option(
    "--validate-regex", metavar="REGEX", help="Say whether members may subscribe to this expression (RE2)."
)
@click.option("--group", "-g", multiple=True, metavar="NAME", help="The group to act on; repeatable.")
@click.option("--all-groups", is_flag=True, help="Act on all groups.")
@click.option(
    "--topic",
    "-t",
    multiple=True,
    metavar="TOPIC[:0,1]",
    help="A topic, or some of its partitions; repeatable.",
)
@click.option(
    "--all-topics", is_flag=True, help="With --reset-offsets: all that the group has positions for."
)
@click.option("--members", is_flag=True, help="With --describe: the members and how much each reads.")
@click.option(
    "--offsets", is_flag=True, help="With --describe: position and lag by partition.  [the default]"
)
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    metavar="[STATES]",
    help="With --describe: coordinator, assignor and state. With --list: show states, or only some of them.",
)
@click.option("--verbose", is_flag=True, help="With --describe: epochs, and partitions of members.")
@click.option(
    "--type",
    is_flag=False,
    flag_value="",
    metavar="[TYPES]",
    help="With --list: show the protocol, classic or consumer, or only groups of one.",
)
@click.option("--dry-run", is_flag=True, help="With --reset-offsets: only show what would be.  [the default]")
@click.option("--execute", is_flag=True, help="With --reset-offsets: do it.")
@click.option("--export", is_flag=True, help="With --reset-offsets: print the plan as CSV, for --from-file.")
@click.option("--to-offset", metavar="N", help="To this offset.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record.")
@click.option(
    "--to-current", is_flag=True, help="To where the group is; behind the last where it is nowhere."
)
@click.option("--shift-by", metavar="N", help="So many records forth, or (negative) back.")
@click.option(
    "--to-datetime", metavar="YYYY-MM-DDTHH:mm:SS.sss", help="To the first record not older than this."
)
@click.option(
    "--by-duration", metavar="PnDTnHnMnS", help="To the first record of the last so many days or hours."
)
@click.option("--from-file", metavar="FILE", help="To the offsets of a CSV file, as --export prints it.")
@json_option
@click.pass_context
def groups(ctx: click.Context, /, **_given: object) -> None:
    """List, describe, reset and delete consumer groups, with the flags and lines of kafka-consumer-groups.sh
    3.9.

    As with that script, what the cluster refuses is printed on standard output and leaves the exit code 0;
    only flags that do not go together end with exit code 1.

    Before a JVM 3.9 broker may coordinate in a cluster with groups of the consumer protocol (KIP-848), move
    them back: its coordinator ignores their records, and so forgets their members. List them with --list
    --type consumer. Stop all members of each, and start them again with group.protocol=classic: the first
    that joins the empty group moves it, and its offsets stay. Where the brokers have
    group.consumer.migration.policy=downgrade or bidirectional, members may be restarted one after the other
    instead. Go on when --list --type consumer is empty.

    \b
    Examples:
      barnabas groups --list --bootstrap-server 127.0.0.1:9092
      barnabas groups --list --type consumer --state stable,empty --bootstrap-server 127.0.0.1:9092
      barnabas groups --describe --group billing --bootstrap-server 127.0.0.1:9092
      barnabas groups --describe --group billing --members --verbose --bootstrap-server 127.0.0.1:9092
      barnabas groups --reset-offsets --group billing --topic orders:0,1 --to-earliest --dry-run \\
          --bootstrap-server 127.0.0.1:9092
      barnabas groups --reset-offsets --group billing --all-topics --by-duration PT1H --execute \\
          --bootstrap-server 127.0.0.1:9092
      barnabas groups --delete --group billing --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.cli import group_flags

    given = kafka_names(ctx.params)
    group_flags.check(given)
    if given["validate-regex"] is not None:
        _validate(given["validate-regex"])
        return

    from barnabas.cli import group_service

    group_service.run(given)


def _validate(expression: str) -> None:
    """``--validate-regex`` (KIP-1101); needs no broker."""
    from barnabas.core.regular_expressions import BadExpressionError, compiled

    try:
        compiled(expression)
    except BadExpressionError as error:
        click.echo(f"The regular expression `{expression}` is invalid: {error}.")
    else:
        click.echo(f"The regular expression `{expression}` is valid.")
