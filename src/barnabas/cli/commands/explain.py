"""``barnabas explain``: how Kafka comes to its decisions, on a live cluster.
No script of Kafka's does this.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, print_facts
from barnabas.cli.options import (
    admin_options,
    command_config_option,
    connected_admin,
    file_option,
    key_values,
    on_store,
    pairs_option,
    properties,
    timeout_option,
)
from barnabas.cli.printing import printable
from barnabas.core.broker_config import broker_config


@click.group()
def explain() -> None:
    """Explain what a live cluster, of any vendor, decides and why.

    \b
    Examples:
      barnabas explain coordinator billing --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator payments-1 --type transaction --bootstrap-server 127.0.0.1:9092
      barnabas explain partition orders 0 --store ./store --bootstrap-server 127.0.0.1:9092
      barnabas explain transaction payments-1 --bootstrap-server 127.0.0.1:9092
      barnabas explain listener --config server.properties
      barnabas explain request fetch --topic orders --partition 0 --bootstrap-server 127.0.0.1:9092
    """


def _print(found: Sequence[tuple[str, str]], width: int, *, as_json: bool) -> None:
    """A line for each station, or one object."""
    if as_json:
        print_facts({"stations": [{"station": station, "found": text} for station, text in found]})
        return
    for station, text in found:
        click.echo(printable(f"{station:<{width}}{text}"))


@explain.command()
@click.argument(
    "api", type=click.Choice(["api-versions", "metadata", "find-coordinator", "list-offsets", "fetch"])
)
@bootstrap_option(required=True)
@click.option("--topic", "-t", help="The topic that list-offsets, fetch and metadata ask for.")
@click.option(
    "--partition", "number", type=click.IntRange(min=0), default=0, show_default=True, help="Its partition."
)
@click.option(
    "--group", "-g", default="barnabas-explain", show_default=True, help="The group of find-coordinator."
)
@click.option(
    "--broker",
    type=click.IntRange(min=0),
    metavar="ID",
    help="Ask this broker, also where another one leads.",
)
@click.option(
    "--metrics", "metrics_url", metavar="URL", help="Where that broker serves its metrics (metrics.port)."
)
@command_config_option
@timeout_option()
@json_option
def request(
    api: str,
    bootstrap_server: str,
    topic: str | None,
    number: int,
    group: str,
    broker: int | None,
    metrics_url: str | None,
    command_config: Path | None,
    timeout_ms: int,
    as_json: bool,
) -> None:
    """Send one request that changes nothing, and print its way: broker, listener, channel, queue, handler,
    purgatory, answer.

    The client's own times are of this request. With --metrics each station also shows what the broker
    measured there, for the last requests of that kind (the median and the 99th of a hundred, in
    milliseconds). To see one line a request in the broker's own log, start it with --log
    kafka.request.logger=debug. find-coordinator is not sent where __consumer_offsets is not there: the broker
    would create it.

    \b
    Examples:
      barnabas explain request metadata --bootstrap-server 127.0.0.1:9092
      barnabas explain request fetch --topic orders --partition 0 --bootstrap-server 127.0.0.1:9092
      barnabas explain request list-offsets --topic orders --bootstrap-server 127.0.0.1:9092 \\
          --metrics http://127.0.0.1:9404/metrics
    """
    from barnabas.core.ids import TopicPartition
    from barnabas.operations.listener_stations import listener_of
    from barnabas.operations.request_stations import KINDS, Subject, lines, read_times, walk

    kind = KINDS[api]
    if kind.of_partition and topic is None:
        raise click.UsageError(f"{api} is about a partition: give --topic")
    subject = Subject(None if topic is None else TopicPartition(topic, number), group)
    options = admin_options(command_config, bootstrap_server, "barnabas-explain")

    async def walked() -> list[tuple[str, str]]:
        found = await walk(options, kind, subject, broker=broker, timeout_ms=timeout_ms)
        async with connected_admin(options, timeout_ms) as admin:
            listener = await listener_of(admin, found.broker, timeout_ms)
        times = None if metrics_url is None else read_times(metrics_url, kind, timeout_ms / 1000)
        return lines(found, listener, times)

    _print(asyncio.run(walked()), 12, as_json=as_json)


@explain.command()
@click.argument("topic")
@click.argument("number", metavar="PARTITION", type=click.IntRange(min=0))
@bootstrap_option(required=True)
@on_store
@command_config_option
@json_option
def partition(
    topic: str,
    number: int,
    bootstrap_server: str,
    folder: Path | None,
    zookeeper: str | None,
    timeout_ms: int,
    zk_tls_config_file: Path | None,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """Print who leads a partition, since which leader epoch, which replicas are not in sync, and what each
    broker knows.

    The controller tells the replicas of a partition by LeaderAndIsr, and all brokers by UpdateMetadata. This
    asks every broker for its metadata, so that one that was not told shows. With --store or --zookeeper it
    also reads the partition's znode: which controller's epoch stands in it, how often it was written, and
    when last.

    \b
    Examples:
      barnabas explain partition orders 0 --bootstrap-server 127.0.0.1:9092
      barnabas explain partition orders 0 --bootstrap-server 127.0.0.1:9092 --store ./store
      barnabas explain partition orders 0 --bootstrap-server 127.0.0.1:9092 --zookeeper 127.0.0.1:2181/kafka
    """
    from barnabas.operations.partition_stations import lines, look
    from barnabas.operations.store_reader import opened

    if folder is not None and zookeeper is not None:
        raise click.UsageError("Name one store: either --store or --zookeeper")
    options = admin_options(command_config, bootstrap_server, "barnabas-explain")
    named = folder is not None or zookeeper is not None

    async def explained() -> list[tuple[str, str]]:
        async with connected_admin(options, timeout_ms) as admin:
            if not named:
                return lines(await look(admin, topic, number, None, timeout_ms))
            async with opened(folder, zookeeper, timeout_ms, properties(zk_tls_config_file)) as reader:
                return lines(await look(admin, topic, number, reader, timeout_ms))

    _print(asyncio.run(explained()), 18, as_json=as_json)


@explain.command()
@click.argument("transactional_id", metavar="ID")
@bootstrap_option(required=True)
@click.option("--topic", "-t", metavar="NAME", help="Look at the partitions of this topic, too.")
@command_config_option
@timeout_option()
@json_option
def transaction(
    transactional_id: str,
    bootstrap_server: str,
    topic: str | None,
    command_config: Path | None,
    timeout_ms: int,
    as_json: bool,
) -> None:
    """Print where the transaction of a transactional id stands, which partitions and groups it has, which
    broker each marker waits for that is not written yet, and what holds back the readers of its partitions.

    The last line says what to do. A transaction that hangs is in partitions that its coordinator does not
    count to it: name the topic where readers wait with --topic, or search a broker with `barnabas
    transactions find-hanging`.

    \b
    Examples:
      barnabas explain transaction payments-1 --bootstrap-server 127.0.0.1:9092
      barnabas explain transaction payments-1 --topic orders --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.operations.transaction_explanation import lines
    from barnabas.operations.transaction_stations import look

    options = admin_options(command_config, bootstrap_server, "barnabas-explain")

    async def explained() -> list[tuple[str, str]]:
        async with connected_admin(options, timeout_ms) as admin:
            return lines(await look(admin, transactional_id, topic, timeout_ms))

    found = asyncio.run(explained())
    _print(found, max(18, *(len(station) + 2 for station, _ in found)), as_json=as_json)


@explain.command()
@file_option("--config", "config_file", "The configuration of a broker, as for `barnabas serve`.")
@pairs_option("--set", "settings", "One configuration value, as for `barnabas serve`; repeatable.")
@bootstrap_option(instead=("config_file", "settings"))
@click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="The running broker to ask.")
@command_config_option
@timeout_option()
@json_option
def listener(
    config_file: Path | None,
    settings: tuple[str, ...],
    bootstrap_server: str | None,
    broker: int | None,
    command_config: Path | None,
    timeout_ms: int,
    as_json: bool,
) -> None:
    """Print which listener, and which endpoint of this broker, each of the four paths of requests takes, and
    why.

    The paths are those from the controller to a broker, from a broker to the controller, between brokers, and
    from clients. The configuration comes from a file, or from a running broker.

    \b
    Examples:
      barnabas explain listener --config server.properties
      barnabas explain listener --set listeners=IN://:9091,OUT://:9092 --set inter.broker.listener.name=IN \\
          --set listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT
      barnabas explain listener --bootstrap-server 127.0.0.1:9092 --broker 0
    """
    from barnabas.operations.listener_stations import lines, of_broker

    if (broker is None) == (config_file is None and not settings):
        raise click.UsageError("Give either --config or --set, or --bootstrap-server with --broker")
    if (bootstrap_server is None) != (broker is None):
        raise click.UsageError("A running broker is asked with both --bootstrap-server and --broker")
    if bootstrap_server is None or broker is None:
        given = broker_config({**properties(config_file), **key_values(settings)})
        found = lines(given, given.explicit())
    else:
        options = admin_options(command_config, bootstrap_server, "barnabas-explain")

        async def asked() -> list[tuple[str, str]]:
            async with connected_admin(options, timeout_ms) as admin:
                return lines(*await of_broker(admin, broker, timeout_ms))

        found = asyncio.run(asked())
    _print(found, 22, as_json=as_json)


@explain.command()
@click.argument("key", metavar="GROUP")
@bootstrap_option(required=True)
@click.option(
    "--type",
    "kind",
    type=click.Choice(["group", "transaction"]),
    default="group",
    show_default=True,
    help="Whether GROUP is a group or a transactional id.",
)
@click.option("--create", is_flag=True, help="Ask even when that creates the internal topic.")
@json_option
@command_config_option
@timeout_option()
@click.pass_context
def coordinator(
    ctx: click.Context,
    key: str,
    bootstrap_server: str,
    kind: str,
    create: bool,
    as_json: bool,
    command_config: Path | None,
    timeout_ms: int,
) -> None:
    """Print the stations from a group's name to its coordinator's endpoint.

    They are: the hash of the name, the number of partitions of the internal topic, the partition, its leader
    and where the leader can be reached as the cluster's metadata says, and what FindCoordinator answers.
    Where the two differ, the last line says so.

    A broker that gets a FindCoordinator creates the internal topic if it is not there. This command looks
    first, in a way that creates nothing, and asks no broker while the topic does not exist, except with
    --create.

    Exit code 1 when belief and answer differ or the broker names no coordinator, 0 otherwise.

    \b
    Examples:
      barnabas explain coordinator billing --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator billing --json --bootstrap-server 127.0.0.1:9092
      barnabas explain coordinator payments-1 --type transaction --create --bootstrap-server 127.0.0.1:9092
    """
    from barnabas.admin import CoordinatorType
    from barnabas.cli.coordinator_report import print_stations
    from barnabas.operations.coordinator_stations import Agreement, Stations, visit

    options = admin_options(command_config, bootstrap_server, "barnabas-explain")

    async def look() -> Stations:
        async with connected_admin(options, timeout_ms) as admin:
            wanted = CoordinatorType[kind.upper()]
            return await visit(admin, key, wanted, create=create, timeout_ms=timeout_ms)

    stations = asyncio.run(look())
    print_stations(stations, as_json=as_json)
    if stations.verdict in {Agreement.DIFFER, Agreement.REFUSED}:
        ctx.exit(1)
