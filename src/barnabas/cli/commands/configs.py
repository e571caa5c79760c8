"""``barnabas configs``: kafka-configs.sh."""

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option
from barnabas.cli.options import (
    ARGUMENTS,
    ScriptCommand,
    api_timeout_option,
    command_config_option,
    kafka_names,
    zk_tls_option,
)


@click.command(cls=ScriptCommand)
@bootstrap_option(instead=("zookeeper", "store"), changes=["alter"])
@api_timeout_option(30_000)
@command_config_option
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/PATH]",
    help="Without a broker: credentials of users, in ZooKeeper.",
)
@zk_tls_option
@click.option(
    "--store",
    metavar="FOLDER",
    help="Without a broker: the same in an embedded store; for a broker alone its data folder.",
)
@click.option("--describe", is_flag=True, help="Show what was changed while the cluster ran.")
@click.option("--alter", is_flag=True, help="Set values, or put them back to their defaults.")
@click.option("--all", is_flag=True, help="With --describe: all keys, those of files and defaults too.")
@click.option(
    "--entity-type",
    multiple=True,
    metavar="TYPE",
    help="topics, brokers, users, clients (or both), ips, broker-loggers, client-metrics, groups.",
)
@click.option("--entity-name", multiple=True, metavar="NAME", help="The name, or the broker's id.")
@click.option("--entity-default", is_flag=True, help="Of brokers, users, clients, ips: what holds for all.")
@click.option("--topic", "-t", metavar="NAME", help="Short for --entity-type topics --entity-name NAME.")
@click.option("--broker", metavar="ID", help="Short for --entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="Short for --entity-type brokers --entity-default.")
@click.option("--user", metavar="NAME", help="Short for --entity-type users --entity-name NAME.")
@click.option("--user-defaults", is_flag=True, help="Short for --entity-type users --entity-default.")
@click.option("--client", metavar="ID", help="Short for --entity-type clients --entity-name ID.")
@click.option("--client-defaults", is_flag=True, help="Short for --entity-type clients --entity-default.")
@click.option("--ip", metavar="ADDRESS", help="Short for --entity-type ips --entity-name ADDRESS.")
@click.option("--ip-defaults", is_flag=True, help="Short for --entity-type ips --entity-default.")
@click.option(
    "--broker-logger", metavar="ID", help="Short for --entity-type broker-loggers --entity-name ID."
)
@click.option(
    "--client-metrics", metavar="NAME", help="Short for --entity-type client-metrics --entity-name NAME."
)
@click.option("--group", metavar="NAME", help="Short for --entity-type groups --entity-name NAME.")
@click.option(
    "--add-config",
    multiple=True,
    metavar="K=V,K=[V,V]",
    help="With --alter: values to set; brackets around one with commas.",
)
@click.option("--add-config-file", metavar="FILE", help="With --alter: a file of properties to set.")
@click.option(
    "--delete-config", multiple=True, metavar="K,K", help="With --alter: keys to put back to their defaults."
)
@json_option
@click.pass_context
def configs(ctx: click.Context, /, **_given: object) -> None:
    """Show and change settings of topics and brokers, quotas of users, clients and addresses, and credentials
    of users, with the flags and lines of kafka-configs.sh.

    \b
    Examples:
      barnabas configs --describe --topic orders --all --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --topic orders --add-config retention.ms=60000,cleanup.policy=[compact,delete]
          \\ --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --topic orders --delete-config retention.ms --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --broker-defaults --add-config log.retention.ms=3600000 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --group billing --add-config consumer.session.timeout.ms=50000 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas configs --describe --entity-type brokers --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --user alice --add-config producer_byte_rate=1048576 \\
          --bootstrap-server 127.0.0.1:9092
      barnabas configs --alter --user alice --add-config 'SCRAM-SHA-256=[iterations=8192,password=...]' \\
          --bootstrap-server 127.0.0.1:9092

    \b
    Before a broker runs, or while it does:
      barnabas configs --alter --entity-type users --entity-name alice \\
          --add-config 'SCRAM-SHA-512=[password=...]' --zookeeper 127.0.0.1:2181
    """
    from barnabas.cli import config_flags

    given = config_flags.named_in_order(kafka_names(ctx.params), ctx.meta[ARGUMENTS])
    config_flags.check(given)
    if not given["bootstrap-server"]:
        from barnabas.cli import config_store_service

        config_store_service.run(given)
        return
    from barnabas.cli import config_service

    config_service.run(given, ctx.meta[ARGUMENTS])
