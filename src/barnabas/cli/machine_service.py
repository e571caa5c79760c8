"""``barnabas serve --brokers N``: the command line of each broker of a machine, and the parent's own life."""

import asyncio
import codecs
import errno
import os
import secrets
import select
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from barnabas.core.broker_config import WITHOUT_FILE
from barnabas.core.config import Config
from barnabas.core.descriptors import raise_limit, soft_limit
from barnabas.core.errors import ConfigError
from barnabas.core.processors import cores
from barnabas.node.machine.broker_processes import BROKERS_MAX, BrokerProcesses, MachineError
from barnabas.node.service_manager import ServiceManager

if TYPE_CHECKING:
    from barnabas.cli.secure_start import SecureFolder
    from barnabas.node.metrics_endpoint import MetricsEndpoint

PORT: Final = 9092
PORT_MAX: Final = 65535
FIRST_ID: Final = 1
HAND_OVER_BACKOFF_MS: Final = 500
DESCRIPTORS_OF_ONE: Final = 64
"""Of a broker and its first logs. A quarter of the limit is kept from connections (`core.descriptors`)."""
DESCRIPTORS_A_BROKER: Final = 6
"""For each broker of the machine: what the controller and replication have between two, and some clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """What is the same for all brokers, and where the first of them begins."""

    brokers: str
    data: Path | None
    store: Path | None
    zookeeper: str | None
    first_id: int | None
    port: int | None
    bootstrap: int | None
    """The port that all of them share."""
    rack: str | None
    same: Sequence[str]
    """Options that each broker gets as they are."""
    config: Config
    """Of all brokers, as far as it is the same; ``metrics.port`` is the machine's, theirs follow it."""
    folder: "SecureFolder | None"
    """What --secure keeps for them."""


def run(options: MachineOptions) -> None:
    """Runs the machine until a signal. Raises ClickException with one line where it cannot start or go on."""
    count = _count(options.brokers)
    data = options.data or Path(WITHOUT_FILE["log.dirs"])
    first = FIRST_ID if options.first_id is None else options.first_id
    ids = range(first, first + count)
    _refuse_ports(options, count)
    _refuse_fewer(data, ids)
    _refuse_shared(options)
    _refuse_few_descriptors(count)
    data.mkdir(parents=True, exist_ok=True)
    # What all brokers have in memory: here once, and not in each of them. The groups are loaded late there,
    # and the codec by the first host's name that is looked up.
    import barnabas.coordinator.consumer.assignors
    import barnabas.coordinator.consumer.groups
    import barnabas.node.broker_node

    if hasattr(select, "epoll"):  # else brokers run on asyncio's own loop
        import barnabas.network.event_loop
    if options.config["metrics.port"] >= 0:
        import barnabas.node.broker_metrics  # noqa: F401
    codecs.lookup("idna")
    asyncio.run(_run([*ids], options, data))


def _count(text: str) -> int:
    if text == "auto":
        return min(cores(), BROKERS_MAX)
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= BROKERS_MAX):
        raise click.ClickException(
            f"--brokers {text}: a number up to {BROKERS_MAX}, or auto: one for each core"
        )
    return int(text)


def _refuse_ports(options: MachineOptions, count: int) -> None:
    """Ports that no broker could have, or two would, before the first of them starts."""
    first = PORT if options.port is None else options.port
    listening = range(first, first + count) if first else range(0)
    metrics = options.config["metrics.port"]
    measuring = range(metrics, metrics + 1 + count) if metrics > 0 else range(0)
    taken = [*listening, *measuring, *([options.bootstrap] if options.bootstrap else [])]
    if max(taken, default=0) > PORT_MAX:
        raise click.ClickException(f"--brokers {count}: the last of their ports would be {max(taken)}")
    twice = [port for port in set(taken) if taken.count(port) > 1]
    if twice:
        raise click.ClickException(
            f"port {min(twice)} is asked for twice: brokers listen on {_span(listening)}"
            + (f", metrics take {_span(measuring)}" if measuring else "")
            + (f", --bootstrap is {options.bootstrap}" if options.bootstrap else "")
        )


def _refuse_shared(options: MachineOptions) -> None:
    """A --bootstrap at which somebody listens already. Brokers share it with each other and no other machine:
    clients would find either cluster.
    """
    if options.bootstrap is None:
        return
    from barnabas.node.dynamic_listeners import parse_listeners

    host = parse_listeners(options.config).for_clients.host or "0.0.0.0"
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, options.bootstrap, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # Old connections are in nobody's way. Without SO_REUSEPORT this fails where one listens with it.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        where = f"--bootstrap {options.bootstrap}"
        if error.errno == errno.EADDRINUSE:
            raise click.ClickException(
                f"{where}: somebody listens at this port already, as another machine of brokers would;"
                " give each machine a port of its own, or end the other one"
            ) from error
        raise click.ClickException(f"{where} at {host}: {error.strerror}") from error


def _refuse_few_descriptors(count: int) -> None:
    """Brokers that start and then have no descriptor left for each other or for a client: each has
    connections to all others, both ways.
    """
    raise_limit()
    limit, needed = soft_limit(), DESCRIPTORS_OF_ONE + DESCRIPTORS_A_BROKER * count
    if limit < needed:
        raise click.ClickException(
            f"--brokers {count}: each of them needs {needed} open files and sockets at least, and may have"
            f" {limit} here (ulimit -Hn): raise the hard limit, best to 100000 (limits.conf, LimitNOFILE="
            " of a systemd unit, --ulimit nofile= of a container), or start fewer"
        )


def _span(ports: range) -> str:
    return f"{ports[0]}-{ports[-1]}" if ports else "free ports"


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


def arguments_of(
    broker_id: int, place: int, known_port: int | None, options: MachineOptions, data: Path, parent: int
) -> list[str]:
    """The command line of one broker; `place` counts from 0. One that comes back has its port already."""
    port = PORT if options.port is None else options.port
    metrics = options.config["metrics.port"]
    where = (
        ["--zookeeper", options.zookeeper] if options.zookeeper else ["--store", str(options.store or data)]
    )
    command = ["serve", "--with-parent", str(parent)]
    command += ["--id", str(broker_id), "--data", str(data / str(broker_id)), *where]
    command += ["--port", str(known_port or (port + place if port else 0))]
    # Where the whole machine ends, the last replicas of a partition have nobody to hand it over to.
    command += ["--set", f"controlled.shutdown.retry.backoff.ms={HAND_OVER_BACKOFF_MS}", *options.same]
    command += ["--set", f"broker.rack={options.rack or socket.gethostname()}"]
    if options.bootstrap is not None:
        command += ["--set", f"barnabas.bootstrap.port={options.bootstrap}"]
    if metrics > 0:
        command += ["--set", f"metrics.port={metrics + 1 + place}"]
    return command


def _live(arguments: Sequence[str], token: str | None) -> NoReturn:
    """A broker's life as ``barnabas serve``, in a child; `token` is that of its metrics."""
    from barnabas.cli.main import main

    if token is not None:
        from barnabas.node.metrics_access import MACHINE_TOKEN

        os.environ[MACHINE_TOKEN] = token
    sys.argv = ["barnabas", *arguments]
    main()


async def _serve_metrics(
    machine: BrokerProcesses, config: Config, secret: bytes
) -> "tuple[MetricsEndpoint | None, str | None]":
    """The endpoint of the machine and its URL, if metrics are served. Raises ClickException."""
    port: int = config["metrics.port"]
    if port < 0:
        return None, None
    from barnabas.node.dynamic_listeners import parse_listeners
    from barnabas.node.machine.machine_metrics import MachineMetrics
    from barnabas.node.metrics_access import metrics_access, metrics_host
    from barnabas.node.metrics_endpoint import MetricsEndpoint

    try:
        access = metrics_access(lambda: config)
        endpoint = MetricsEndpoint(MachineMetrics(lambda: machine.states, access, secret), access)
        host = metrics_host(config, parse_listeners(config).listeners, access)
        url = await endpoint.start(host, port)
        # A host's name was looked up in a thread, which would stay; who forks must have one thread.
        await asyncio.get_running_loop().shutdown_default_executor()
    except OSError as error:
        raise click.ClickException(f"metrics.port {port}: {error.strerror}") from error
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    return endpoint, url


async def _run(ids: list[int], options: MachineOptions, data: Path) -> None:
    manager = ServiceManager()
    parent = os.getpid()
    secret = secrets.token_bytes(32)

    def live(each: int, port: int | None) -> NoReturn:
        token = None
        if options.config["metrics.port"] >= 0:
            # The parent has it loaded then. In a child alone it would be 9 MB of each broker.
            from barnabas.node.machine.machine_metrics import token_of

            token = token_of(secret, each)
        _live(arguments_of(each, ids.index(each), port, options, data, parent), token)

    machine = BrokerProcesses(ids, live)
    endpoint, metrics_url = await _serve_metrics(machine, options.config, secret)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stopped.is_set():
            machine.kill()
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    starting = asyncio.ensure_future(machine.start())
    ended = asyncio.ensure_future(stopped.wait())
    await asyncio.wait({starting, ended}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await machine.stop()
        _end_with(machine)
        return
    try:
        starting.result()
    except MachineError as error:
        raise click.ClickException(str(error)) from error
    addresses = [*machine.addresses.values()]
    shared = [machine.bootstrap] if machine.bootstrap else []
    more = "".join(f" bootstrap={address}" for address in shared)
    more += f" metrics={metrics_url}" if metrics_url else ""
    click.echo(f"ready {','.join(addresses)} brokers={len(ids)} data={data}{more}")
    if options.folder is not None:
        click.echo(options.folder.lines(shared or addresses, shared=bool(shared)))
    sys.stdout.flush()
    manager.ready(f"{len(ids)} brokers at {','.join(shared or addresses)}")
    failed = asyncio.ensure_future(machine.failed())
    await asyncio.wait({ended, failed}, return_when=asyncio.FIRST_COMPLETED)
    for task in (ended, failed):
        task.cancel()
    manager.stopping()
    await machine.stop()
    if endpoint is not None:
        await endpoint.close()
    manager.close()
    _end_with(machine)


def _end_with(machine: BrokerProcesses) -> None:
    """Raises ClickException where a broker could not go on, or did not end in order."""
    if machine.failure is not None:
        raise click.ClickException(machine.failure)
