"""``barnabas serve --brokers N``: the command line of each broker of a machine, and the parent's own life."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from barnabas.core.broker_config import WITHOUT_FILE
from barnabas.core.processors import cores
from barnabas.node.broker_processes import BROKERS_MAX, BrokerProcesses, RackError
from barnabas.node.service_manager import ServiceManager

PORT: Final = 9092
FIRST_ID: Final = 1
HAND_OVER_BACKOFF_MS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RackOptions:
    """What is the same for all brokers, and where the first of them begins."""

    brokers: str
    data: Path | None
    store: Path | None
    zookeeper: str | None
    first_id: int | None
    port: int | None
    rack: str | None
    same: Sequence[str]
    """Options that each broker gets as they are."""
    metrics_port: int | None
    """Of the first broker; None where no metrics are served."""
    lines: Callable[[Sequence[str]], str] | None
    """What follows the ready line, from the listeners of all brokers; None for nothing."""


def run(options: RackOptions) -> None:
    """Runs the machine until a signal. Raises ClickException with one line where it cannot start or go on."""
    count = _count(options.brokers)
    data = options.data or Path(WITHOUT_FILE["log.dirs"])
    first = FIRST_ID if options.first_id is None else options.first_id
    ids = range(first, first + count)
    _refuse_fewer(data, ids)
    data.mkdir(parents=True, exist_ok=True)
    asyncio.run(_run([*ids], options, data))


def _count(text: str) -> int:
    if text == "auto":
        return min(cores(), BROKERS_MAX)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= BROKERS_MAX):
        raise click.ClickException(
            f"--brokers {text}: a number up to {BROKERS_MAX}, or auto: one for each core"
        )
    return int(text)


def _refuse_fewer(data: Path, ids: range) -> None:
    """Brokers that are left out would take their partitions with them."""
    folders = [each.name for each in data.iterdir() if each.is_dir()] if data.is_dir() else []
    there = sorted(int(name) for name in folders if name.isascii() and name.isdigit())
    left_out = [number for number in there if number not in ids]
    if left_out:
        raise click.ClickException(
            f"{data} has data of broker {', '.join(map(str, left_out))}, left out by --brokers {len(ids)}: "
            "start all of them, move their partitions away with barnabas reassign-partitions, then remove "
            "the folders"
        )


def command_of(
    broker_id: int, place: int, known_port: int | None, options: RackOptions, data: Path
) -> list[str]:
    """The command line of one broker; `place` counts from 0. One that comes back has its port already."""
    port = PORT if options.port is None else options.port
    metrics = options.metrics_port
    where = (
        ["--zookeeper", options.zookeeper] if options.zookeeper else ["--store", str(options.store or data)]
    )
    command = [sys.executable, "-m", "barnabas", "serve", "--with-parent", str(os.getpid())]
    command += ["--id", str(broker_id), "--data", str(data / str(broker_id)), *where]
    command += ["--port", str(known_port or (port + place if port else 0))]
    # Where the whole machine ends, the last replicas of a partition have nobody to hand it over to.
    command += ["--set", f"controlled.shutdown.retry.backoff.ms={HAND_OVER_BACKOFF_MS}", *options.same]
    command += ["--set", f"broker.rack={options.rack or socket.gethostname()}"]
    if metrics is not None and metrics > 0:
        command += ["--set", f"metrics.port={metrics + place}"]
    return command


async def _run(ids: list[int], options: RackOptions, data: Path) -> None:
    manager = ServiceManager()
    rack = BrokerProcesses(ids, lambda each, port: command_of(each, ids.index(each), port, options, data))
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stopped.is_set():
            rack.kill()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    starting = asyncio.ensure_future(rack.start())
    ended = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({starting, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await rack.stop()
        return
    try:
        starting.result()
    except RackError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"ready {','.join(rack.addresses.values())} brokers={len(ids)} data={data}")
    if options.lines is not None:
        click.echo(options.lines([*rack.addresses.values()]))
    sys.stdout.flush()
    manager.ready(f"{len(ids)} brokers at {','.join(rack.addresses.values())}")
    failed = asyncio.ensure_future(rack.failed())
    await asyncio.wait({ended, failed}, return_when=asyncio.FIRST_COMPLETED)
    reason = failed.result() if failed.done() else None
    for task in (ended, failed):
        task.cancel()
    manager.stopping()
    await rack.stop()
    manager.close()
    if reason is not None:
        raise click.ClickException(reason)
