"""``barnabas topics``: kafka-topics.sh."""

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, refuse_json
from barnabas.cli.options import (
    INT_MAX,
    api_timeout_option,
    command_config_option,
    kafka_names,
    refuse_together,
    reported_as,
)

_ACTIONS = ("create", "alter", "list", "describe", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)


@click.command()
@bootstrap_option(changes=("create", "alter", "delete"))
@api_timeout_option()
@command_config_option
@click.option("--create", is_flag=True, help="Create a topic.")
@click.option("--alter", is_flag=True, help="Add partitions to topics.")
@click.option("--list", is_flag=True, help="List topics.")
@click.option("--describe", is_flag=True, help="Show partitions, leaders, replicas and set values.")
@click.option("--delete", is_flag=True, help="Delete topics, with all their records.")
@click.option("--topic", "-t", metavar="NAME", help="The topic; a regular expression except with --create.")
@click.option("--topic-id", metavar="ID", help="The topic to describe, by its id.")
@click.option(
    "--partitions",
    type=int,
    help="Number of partitions of a new topic, or with --alter of all, the ones that are there included."
    "  [default for a new one: the cluster's]",
)
@click.option("--replication-factor", type=int, help="Replicas of each partition.  [default: the cluster's]")
@click.option(
    "--replica-assignment",
    metavar="B:B,B:B",
    help="Brokers of each partition, instead of the two counts; with --alter beside --partitions.",
)
@click.option(
    "--config", multiple=True, metavar="KEY=VALUE", help="A configuration value of the new topic; repeatable."
)
@click.option("--if-not-exists", is_flag=True, help="With --create: an existing topic is fine.")
@click.option(
    "--if-exists", is_flag=True, help="With --alter, --describe and --delete: a missing topic is fine."
)
@click.option(
    "--exclude-internal", is_flag=True, help="Leave out __consumer_offsets and __transaction_state."
)
@click.option(
    "--under-replicated-partitions", is_flag=True, help="Describe only partitions with replicas out of sync."
)
@click.option(
    "--unavailable-partitions", is_flag=True, help="Describe only partitions without a living leader."
)
@click.option(
    "--under-min-isr-partitions", is_flag=True, help="Describe only partitions below min.insync.replicas."
)
@click.option(
    "--at-min-isr-partitions", is_flag=True, help="Describe only partitions exactly at min.insync.replicas."
)
@click.option("--topics-with-overrides", is_flag=True, help="Describe only topics with values of their own.")
@click.option(
    "--partition-size-limit-per-response",
    type=click.IntRange(1, INT_MAX),
    default=2000,
    show_default=True,
    metavar="COUNT",
    help="With --describe: partitions in one answer, where brokers tell them in pages.",
)
@json_option
@click.pass_context
def topics(ctx: click.Context, /, **_given: object) -> None:
    """Create, alter, list, describe and delete topics, with the flags and lines of kafka-topics.sh.

    More partitions change which partition a key belongs to; there is no way back to fewer. Settings of a
    topic are changed by `barnabas configs`.

    \b
    Examples:
      barnabas topics --create --topic orders --partitions 3 --bootstrap-server 127.0.0.1:9092
      barnabas topics --create --topic logs --config retention.ms=86400000 --bootstrap-server 127.0.0.1:9092
      barnabas topics --alter --topic orders --partitions 6 --bootstrap-server 127.0.0.1:9092
      barnabas topics --list --bootstrap-server 127.0.0.1:9092
      barnabas topics --describe --topic orders --bootstrap-server 127.0.0.1:9092
      barnabas topics --delete --topic 'test-.*' --bootstrap-server 127.0.0.1:9092
    """
    given = kafka_names(ctx.params)
    _check(given)
    from barnabas.cli import topic_service

    with reported_as("Error while executing topic command : "):
        topic_service.run(given)


def _check(given: dict[str, object]) -> None:
    """The rules of TopicCommand about which flags go together."""
    if sum(bool(given[action]) for action in _ACTIONS) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if not given["bootstrap-server"]:
        raise click.UsageError("--bootstrap-server must be specified")
    if not (given["list"] or given["describe"] or given["topic"]):
        raise click.UsageError('Missing required argument "[topic]"')
    if given["describe"] and given["if-exists"] and not (given["topic"] or given["topic-id"]):
        raise click.UsageError("--topic or --topic-id is required to describe a topic")
    if given["alter"] and given["config"]:
        raise click.UsageError(
            'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
            " (the kafka-configs CLI supports altering topic configs with a --bootstrap-server option)"
        )
    if given["alter"] and given["partitions"] is None:
        raise click.UsageError('Missing required argument "[partitions]"')
    refuse_json(given, "list", "describe")
    for option in ("config", "partitions", "replica-assignment"):
        refuse_together(given, option, ["list", "describe", "delete"])
    for option in ("replication-factor", "if-not-exists"):
        refuse_together(given, option, [action for action in _ACTIONS if action != "create"])
    if given["create"]:
        refuse_together(given, "replica-assignment", ["partitions", "replication-factor"])
    refuse_together(given, "if-exists", ["create", "list"])
    refuse_together(given, "exclude-internal", ["create", "alter", "delete"])
    for report in _REPORTS:
        refuse_together(given, report, ["create", "alter", "list", "delete", "topics-with-overrides"])
    refuse_together(given, "topics-with-overrides", ["create", "alter", "list", "delete"])
