"""``barnabas serve``: one broker in the foreground."""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import select
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.terminal_lines import line_formatter
from barnabas.core.broker_config import BROKER_CONFIG, WITHOUT_FILE, broker_config, read_properties
from barnabas.core.config import Config, config_text
from barnabas.core.descriptors import raise_limit
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import KAFKA_LOGGERS, EventLog
from barnabas.core.extras import extra
from barnabas.core.kafka_words import KafkaFormatter, our_loggers
from barnabas.core.odd_keys import warn_of_odd_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.cli.secure_start import SecureFolder
    from barnabas.testing.kafka.remote_control import RemoteControl

_log = EventLog("serve")

LEVELS = ["debug", "info", "warning", "error"]


def _loggers_and_level(text: str) -> tuple[list[str], str]:
    """A value of --log: a logger of ours, or one of Kafka's and so those that stand for it.
    Raises BadParameter.
    """
    logger, _, level = text.partition("=")
    loggers = [logger] if logger.partition(".")[0] == "barnabas" else our_loggers(logger)
    if not loggers:
        raise click.BadParameter(
            f"{logger!r} is no logger of the broker: it is barnabas or barnabas.PART, "
            f"{', '.join(KAFKA_LOGGERS)}, or a"
            " class of Kafka's in docs/logs.md"
        )
    if level.lower() not in LEVELS:
        raise click.BadParameter(f"{text!r} is not LOGGER=LEVEL with a level of {', '.join(LEVELS)}")
    return loggers, level.upper()


_EVERYWHERE: Final = ("0.0.0.0", "[::]")
"""What listens on every address, and is none to come to."""


def _list_config(context: click.Context, _option: click.Parameter, word: str | None) -> None:
    """Prints the keys whose name has the word in it, of all for "", and ends."""
    if word is None or context.resilient_parsing:
        return
    # The whole name of a key means that key alone.
    found = [word] if word in BROKER_CONFIG else sorted(name for name in BROKER_CONFIG if word in name)
    if not found:
        raise click.UsageError(f"No key of the broker has {word!r} in its name", context)
    for key in map(BROKER_CONFIG.__getitem__, found):
        default = config_text(key, key.default)
        shown = "no default" if default is None else f"default {default or 'empty'}"
        click.echo(f"{key.name} ({key.type.name.lower()}, {shown}, {key.scope.value})")
        click.echo(f"    {f'Not obeyed: {key.not_obeyed}' if key.not_obeyed else key.doc}")
    context.exit()


@click.command()
@click.option(
    "--list-config",
    is_flag=False,
    flag_value="",
    is_eager=True,
    expose_value=False,
    callback=_list_config,
    metavar="[KEY]",
    help="Show all keys of --set and --config with defaults, or those with this in their name, and exit.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder for the log and the metadata.  [default: barnabas-data, or log.dirs of --config]",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.  [default: 9092]"
)
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="The address that clients are told to come to.  [default: --host and --port]",
)
@click.option("--id", "broker_id", type=click.IntRange(min=0), help="Id of this broker.  [default: 0]")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file in the form of Kafka's server.properties.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    help="Folder of the metadata store that brokers on one machine share.  [default: the first log "
    "directory]",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,...][/PATH]",
    help="Keep the metadata in ZooKeeper, below this path; for brokers on several machines.",
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="One configuration value; wins over all."
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="warning",
    show_default=True,
    help="What goes to stderr.",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="LOGGER=LEVEL",
    callback=lambda _context, _option, values: [_loggers_and_level(each) for each in values],
    help="The level of one logger, by the name that its lines have, or by Kafka's "
    "(kafka.controller.KafkaController). Off without it: state.change.logger (what the "
    "controller sends and brokers do; debug names each partition), kafka.request.logger (debug: each "
    "request).",
)
@click.option(
    "--event-loop",
    type=click.Choice(["asyncio", "uvloop"]),
    default="asyncio",
    show_default=True,
    help="What waits for the sockets; uvloop has to be installed.",
)
@click.option(
    "--control",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="For tests: plant faults and move time through this port of 127.0.0.1 (barnabas control); 0 takes a "
    "free one.",
)
@click.option(
    "--brokers",
    metavar="N|auto",
    help="Run so many brokers, each a process of its own; auto is one for each core. Their ids, ports and "
    "folders below --data count up.",
)
@click.option(
    "--bootstrap",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="With --brokers: a port that all of them share. A client that is given this one address finds them "
    "while any of them lives.",
)
@click.option(
    "--secure",
    is_flag=True,
    help="TLS, log-ins and access rules: makes keys and a first user in the data folder, and says how to "
    "connect.",
)
@click.option("--user", metavar="NAME", help="With --secure: the first user's name.  [default: admin]")
@click.option("--rack", metavar="NAME", help="With --brokers: the rack of all.  [default: the host's name]")
@click.option(
    "--systemd",
    is_flag=True,
    help="Print a unit of systemd that runs this command, and exit.",
)
@click.option(
    "--with-parent", type=int, hidden=True, help="End when this process is not the parent any more."
)
def serve(
    data: Path | None,
    host: str | None,
    port: int | None,
    advertise: str | None,
    broker_id: int | None,
    config_file: Path | None,
    store: Path | None,
    zookeeper: str | None,
    settings: tuple[str, ...],
    log_level: str,
    logs: list[tuple[list[str], str]],
    event_loop: str,
    control: int | None,
    brokers: str | None,
    bootstrap: int | None,
    secure: bool,
    user: str | None,
    rack: str | None,
    systemd: bool,
    with_parent: int | None,
) -> None:
    """Run one broker in the foreground, until SIGTERM or Ctrl-C.

    Prints one line that begins with "ready" and names the listeners when clients may come. The data survives
    restarts; any Kafka client works.

    \b
    Examples:
      barnabas serve
      barnabas serve --port 0 --data /tmp/try
      barnabas serve --host 0.0.0.0 --advertise 10.0.0.7
      barnabas serve --list-config log.retention
      barnabas serve --config server.properties --set log.retention.hours=24

    \b
    With TLS, passwords and access rules; the user's settings are then in ./data/client.properties:
      barnabas serve --secure --data ./data

    \b
    A broker for each core of the machine, or four, on ports from 9092 on, with one metadata store:
      barnabas serve --brokers auto
      barnabas serve --brokers 4 --port 19092 --bootstrap 9092 --data ./data

    \b
    The same by hand:
      barnabas serve --id 1 --port 19091 --data ./data-1 --store ./store
      barnabas serve --id 2 --port 19092 --data ./data-2 --store ./store

    \b
    A broker of a cluster on ZooKeeper, which may have Apache Kafka 3.9 brokers too:
      barnabas serve --id 7 --data ./data --host 10.0.0.7 --zookeeper zk1:2181,zk2:2181/kafka
    """
    if systemd:
        from barnabas.cli.systemd_unit import unit_text

        unit = unit_text(sys.argv[1:], data, store, config_file, settings, machine=brokers is not None)
        click.echo(unit, nl=False)
        return
    lines = logging.StreamHandler()
    lines.setFormatter(line_formatter(lines.stream))
    logging.basicConfig(level=log_level.upper(), handlers=[lines])
    for loggers, level in [(list(KAFKA_LOGGERS), "WARNING"), *logs]:
        for logger in loggers:
            logging.getLogger(logger).setLevel(level)
    if user is not None and not secure:
        raise click.UsageError("--user is for --secure")
    try:
        file = _from_file(config_file)
        given = file | _from_options(data, host, port, broker_id, config_file, secure=secure)
        _name_metadata_store(given, store, zookeeper)
        given |= _from_settings(settings)
        given |= _advertised(advertise, host, given)
        config = broker_config(given)
        _make_private(config)
        folder = _secured(config, user, secure=secure, make=with_parent is None)
        if folder is not None:
            folder.refuse_own(file if config_file is not None else ())
            config = broker_config(folder.settings() | given)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    if brokers is not None:
        _run_rack(config, folder)
        return
    if rack is not None:
        raise click.UsageError("--rack is for --brokers; of one broker it is --set broker.rack=NAME")
    if bootstrap is not None:
        raise click.UsageError(
            "--bootstrap is for --brokers; of one broker it is --set barnabas.bootstrap.port=PORT"
        )
    if config["barnabas.log.names"] == "kafka":
        lines.setFormatter(KafkaFormatter(config["broker.id"]))
    warn_of_odd_keys(config, [*config.unknown, *config.explicit()])
    raise_limit()
    _run(config, event_loop, control, with_parent, folder)


def _secured(config: Config, user: str | None, *, secure: bool, make: bool) -> "SecureFolder | None":
    """What --secure keeps for these brokers; None without it. Raises ConfigError, also where it was left out
    though the data was made with it.
    """
    # What the broker loads anyway.
    from barnabas.cli.secure_start import SecureFolder, refuse_without

    if not secure:
        refuse_without(config)
        return None
    folder = SecureFolder(config)
    if make:
        folder.make(config, user)
    return folder


def _make_private(config: Config) -> None:
    """What this process and its children make is for its own user: records, keys, and locks that keep it from
    starting.
    """
    os.umask(os.umask(0o077) | int(config["barnabas.data.umask"], 8))


def _run_rack(config: Config, folder: "SecureFolder | None") -> None:
    """Several brokers: the settings are good, and each child checks its own."""
    from barnabas.cli import machine_service

    context = click.get_current_context()
    given = context.params
    if given["control"] is not None:
        raise click.UsageError("--control is for one broker")
    if given["config_file"] is not None and given["data"] is None:
        raise click.UsageError("--brokers needs --data: each broker has a folder of its own below it")
    same: list[str] = []
    for option, value in (
        ("--host", given["host"]),
        ("--advertise", given["advertise"]),
        ("--config", given["config_file"]),
        ("--log-level", given["log_level"]),
        ("--event-loop", given["event_loop"]),
    ):
        if value is not None:
            same += [option, str(value)]
    if folder is not None:
        same.append("--secure")
    for setting in given["settings"]:
        same += ["--set", setting]
    for loggers, level in given["logs"]:
        for logger in loggers:
            same += ["--log", f"{logger}={level.lower()}"]
    machine_service.run(
        machine_service.MachineOptions(
            brokers=given["brokers"],
            data=given["data"],
            store=given["store"],
            zookeeper=given["zookeeper"],
            first_id=given["broker_id"],
            port=given["port"],
            bootstrap=given["bootstrap"],
            rack=given["rack"] or config["broker.rack"],
            same=same,
            config=config,
            folder=folder,
        )
    )


def _from_file(config_file: Path | None) -> dict[str, str]:
    """What the file says; without one, Kafka's shipped values."""
    if config_file is None:
        return dict(WITHOUT_FILE)
    try:
        return read_properties(config_file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config_file} is not a text in UTF-8") from error
    except OSError as error:
        raise ConfigError(f"{config_file} cannot be read: {error.strerror}") from error


def _from_options(
    data: Path | None,
    host: str | None,
    port: int | None,
    broker_id: int | None,
    config_file: Path | None,
    *,
    secure: bool,
) -> dict[str, str]:
    given = {}
    if data is not None:
        given["log.dirs"] = str(data)
    if broker_id is not None:
        given["broker.id"] = str(broker_id)
    if host is not None or port is not None or config_file is None or secure:
        protocol = "SASL_SSL" if secure else "PLAINTEXT"
        given["listeners"] = f"{protocol}://{host or '127.0.0.1'}:{9092 if port is None else port}"
    return given


def _advertised(advertise: str | None, host: str | None, given: dict[str, str]) -> dict[str, str]:
    """Where clients are told to come. Raises ConfigError where they would be told of no address."""
    if advertise is None:
        if host in _EVERYWHERE and "advertised.listeners" not in given:
            raise ConfigError(
                f"--host {host} listens on every address, and clients have to be told one of them:"
                " add --advertise HOST[:PORT]"
            )
        return {}
    listeners = given.get("listeners", "PLAINTEXT://:9092")
    if "," in listeners:
        raise ConfigError("--advertise is for one listener; with several, set advertised.listeners")
    name, _, address = listeners.partition("://")
    host_given, colon, port = advertise.rpartition(":")
    if not colon or port.endswith("]"):
        host_given, port = advertise, address.rpartition(":")[2]
    if not host_given or not port.isdecimal():
        raise ConfigError(f"--advertise {advertise}: write it as HOST or HOST:PORT")
    return {"advertised.listeners": f"{name}://{host_given}:{port}"}


def _name_metadata_store(given: dict[str, str], store: Path | None, zookeeper: str | None) -> None:
    """Has the configuration name the store of the two options; a file may have named another."""
    if store is not None and zookeeper is not None:
        raise ConfigError("--store and --zookeeper name two metadata stores: give one of them")
    if zookeeper is not None:
        if not zookeeper.strip():
            raise ConfigError("--zookeeper names no server: write it as host:port, or host:port/path")
        given["zookeeper.connect"] = zookeeper
    if store is not None:
        from barnabas.node.environment import METADATA_FILE

        given.pop("zookeeper.connect", None)
        given["barnabas.metadata.path"] = str(store / METADATA_FILE)


def _from_settings(settings: tuple[str, ...]) -> dict[str, str]:
    given = {}
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {setting}: write it as key=value")
        given[key.strip()] = value
    return given


def _run(
    config: Config, event_loop: str, control: int | None, parent: int | None, folder: "SecureFolder | None"
) -> None:
    if event_loop == "uvloop":
        with extra("uvloop", "--event-loop uvloop"):
            import uvloop  # type: ignore[import-not-found, unused-ignore]
        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    elif not hasattr(select, "epoll"):  # macOS
        factory = asyncio.SelectorEventLoop
    else:
        from barnabas.network.event_loop import BrokerEventLoop

        factory = functools.partial(BrokerEventLoop, config["barnabas.busy.poll.us"] / 1e6)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(config, control, parent, folder))


async def _end_without(parent: int, end: "Callable[[], None]") -> None:
    """A broker of a machine ends when the machine's parent is gone."""
    from barnabas.node.machine.broker_processes import parent_is_gone

    await parent_is_gone(parent)
    _log.warning("serve.parent_gone", parent=parent)
    end()


def _tell_parent(word: str) -> None:
    """How the start gets on, to the parent of a machine, if it is still there."""
    with contextlib.suppress(OSError):
        click.echo(word)
        sys.stdout.flush()


def _controlled(config: Config, loop: asyncio.AbstractEventLoop, port: int) -> "RemoteControl":
    """A broker with a control port."""
    from barnabas.testing.kafka.remote_control import RemoteControl

    return RemoteControl(config, loop, port)


async def _serve(
    config: Config, control: int | None, parent: int | None, folder: "SecureFolder | None"
) -> None:
    """Runs a node from its start to a signal; every failure to start is one line."""
    # What a start makes stays; the node switches the collector on again when it runs.
    gc.disable()
    from barnabas.node.broker_node import BrokerNode, StartError
    from barnabas.node.service_manager import ServiceManager
    from barnabas.node.start_progress import StartProgress

    manager = ServiceManager()
    progress = StartProgress()
    manager.starting(lambda: progress.got_on(os.getsid(0)))

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    controlled = None if control is None else _controlled(config, loop, control)
    node = BrokerNode(
        config,
        None if controlled is None else controlled.environment,
        on_progress=progress.take if parent is None else _tell_parent,
    )

    def end() -> None:
        stop.set()
        node.interrupt_start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    watching = None if parent is None else asyncio.ensure_future(_end_without(parent, end))
    try:
        await node.start()
    except (StartError, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    if stop.is_set():
        await node.stop()
        return
    listeners = ",".join(str(endpoint) for endpoint in node.endpoints)
    more = f" bootstrap={node.bootstrap}" if node.bootstrap else ""
    more += f" metrics={node.metrics_url}" if node.metrics_url else ""
    if controlled is not None:
        try:
            more += f" control={controlled.open(node)}"
        except OSError as error:
            await node.stop()
            raise click.ClickException(f"--control {control}: {error.strerror}") from error
    click.echo(f"ready {listeners} broker={node.broker_id} data={','.join(map(str, node.log_dirs))}{more}")
    if folder is not None:
        click.echo(folder.lines([str(endpoint) for endpoint in node.endpoints]))
    sys.stdout.flush()
    manager.ready(f"broker {node.broker_id} at {listeners}")
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(node.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    reason = failed.result() if failed.done() else None
    for task in (stopped, failed, *([watching] if watching else [])):
        task.cancel()
    manager.stopping()
    if controlled is not None:
        await asyncio.to_thread(controlled.close)
    await node.stop()
    manager.close()
    if reason is not None:
        raise click.ClickException(reason)
