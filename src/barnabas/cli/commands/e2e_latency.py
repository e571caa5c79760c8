"""``barnabas e2e-latency``: kafka-e2e-latency.sh."""

import asyncio
from pathlib import Path
from typing import Any, Final

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option, print_facts
from barnabas.cli.options import (
    INT_MAX,
    ToolError,
    api_timeout_option,
    client_options,
    file_option,
)
from barnabas.core.errors import BarnabasError

_RECORD_BYTES_MAX: Final = 1 << 30
_size = click.IntRange(0, _RECORD_BYTES_MAX)


@click.command()
@bootstrap_option(required=True, changes=["e2e-latency"])
@api_timeout_option()
@click.option("--topic", "-t", required=True, metavar="NAME", help="The topic; it is made if need be.")
@click.option(
    "--num-records",
    "count",
    required=True,
    type=click.IntRange(1, INT_MAX),
    metavar="COUNT",
    help="How many.",
)
@click.option(
    "--producer-acks", "acks", required=True, metavar="1|all", help="Whose copy a record waits for."
)
@click.option("--record-size", required=True, type=_size, metavar="BYTES", help="The size of each value.")
@click.option("--record-key-size", type=_size, default=0, metavar="BYTES", help="Of each key; 0 for none.")
@click.option(
    "--num-headers", type=click.IntRange(0, 1000), default=0, metavar="COUNT", help="Headers of each record."
)
@click.option(
    "--record-header-key-size",
    "header_key_size",
    type=_size,
    default=0,
    metavar="BYTES",
    help="Of their keys.",
)
@click.option(
    "--record-header-size",
    "header_size",
    type=click.IntRange(-1, _RECORD_BYTES_MAX),
    default=0,
    metavar="BYTES",
    help="Of their values; -1 for null.",
)
@file_option("--command-config", "command_config", "Options of the producer and of the consumer.")
@json_option
def e2e_latency(
    bootstrap_server: str,
    topic: str,
    count: int,
    acks: str,
    record_size: int,
    record_key_size: int,
    num_headers: int,
    header_key_size: int,
    header_size: int,
    command_config: Path | None,
    as_json: bool,
) -> None:
    """Measure how long a record takes from a producer to a consumer, one at a time, with the flags and lines
    of kafka-e2e-latency.sh of Kafka 4.3.

    Nobody else may write to the topic meanwhile: each record that comes has to be the one that was sent.

    \b
    Examples:
      barnabas e2e-latency --topic latency --num-records 10000 --producer-acks 1 --record-size 100 \\
          --bootstrap-server 127.0.0.1:9092
    """
    if acks not in {"1", "all"}:
        raise ToolError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. Please "
            "use '1' or 'all'."
        )
    from barnabas.cli.end_to_end_latency import Measurement, RecordShape, measure
    from barnabas.client.config import CONSUMER_CONFIG, PRODUCER_CONFIG

    shape = RecordShape(record_size, record_key_size, num_headers, header_key_size, header_size)

    def options(known: Any) -> dict[str, Any]:
        given = client_options(command_config, (), known, bootstrap_server, "barnabas-e2e-latency")
        return {name.replace(".", "_"): value for name, value in given.items()}

    producer = {**options(PRODUCER_CONFIG), "acks": acks, "linger_ms": 0}
    consumer = {**options(CONSUMER_CONFIG), "auto_offset_reset": "latest", "fetch_max_wait_ms": 0}

    def step(number: int, took_s: float) -> None:
        if not as_json:
            click.echo(f"{number}\t{took_s * 1000}")

    try:
        found: Measurement = asyncio.run(measure(topic, count, shape, producer, consumer, step))
    except BarnabasError as error:
        raise ToolError(str(error)) from error
    if as_json:
        print_facts(
            {"records": count, "average_ms": found.average_ms, "percentiles_ms": found.percentiles_ms}
        )
        return
    click.echo(f"Avg latency: {found.average_ms:.4f} ms")
    shown = ", ".join(f"{name} = {int(value)}" for name, value in found.percentiles_ms.items())
    click.echo(f"Percentiles: {shown}")
