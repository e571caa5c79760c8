"""``barnabas serve``: one broker in the foreground."""

import asyncio
import functools
import gc
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.core.broker_config import SHIPPED_VALUES, broker_config, read_properties
from barnabas.core.config import Config
from barnabas.core.descriptors import raise_limit
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import EventFormatter, EventLog

if TYPE_CHECKING:
    from collections.abc import Callable

_log = EventLog("serve")

LEVELS = ["debug", "info", "warning", "error"]


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder for the log and the metadata.  [default: barnabas-data, or log.dirs of --config]",
)
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.  [default: 9092]"
)
@click.option("--id", "broker_id", type=click.IntRange(min=0), help="Id of this broker.  [default: 0]")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file in the form of Kafka's server.properties.",
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
    "--event-loop",
    type=click.Choice(["asyncio", "uvloop"]),
    default="asyncio",
    show_default=True,
    help="What waits for the sockets; uvloop has to be installed.",
)
def serve(
    data: Path | None,
    host: str | None,
    port: int | None,
    broker_id: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
    log_level: str,
    event_loop: str,
) -> None:
    """Run one broker in the foreground, until SIGTERM or Ctrl-C.

    Prints one line that begins with "ready" and names the listeners when clients may come. The data survives
    restarts; any Kafka client works.

    \b
    Examples:
      barnabas serve
      barnabas serve --port 0 --data /tmp/try
      barnabas serve --config server.properties --set log.retention.hours=24
    """
    lines = logging.StreamHandler()
    lines.setFormatter(EventFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=log_level.upper(), handlers=[lines])
    try:
        given = _given(data, host, port, broker_id, config_file, settings)
        config = broker_config(given)
    except ConfigError as error:
        raise click.ClickException(str(error)) from error
    for key in sorted(config.unknown):
        _log.warning("config.unknown", key=key, meaning="this broker does not obey it")
    raise_limit()
    _run(config, event_loop)


def _given(
    data: Path | None,
    host: str | None,
    port: int | None,
    broker_id: int | None,
    config_file: Path | None,
    settings: tuple[str, ...],
) -> dict[str, str]:
    """The configuration as texts: the file or Kafka's shipped values, then the options, then ``--set``."""
    if config_file is None:
        given = {"broker.id": "0", "log.dirs": "barnabas-data", **SHIPPED_VALUES}
    else:
        try:
            given = read_properties(config_file.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{config_file} is not a text in UTF-8") from error
        except OSError as error:
            raise ConfigError(f"{config_file} cannot be read: {error.strerror}") from error
    if data is not None:
        given["log.dirs"] = str(data)
    if broker_id is not None:
        given["broker.id"] = str(broker_id)
    if host is not None or port is not None or config_file is None:
        given["listeners"] = f"PLAINTEXT://{host or '127.0.0.1'}:{9092 if port is None else port}"
    for setting in settings:
        key, separator, value = setting.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--set {setting}: write it as key=value")
        given[key.strip()] = value
    return given


def _run(config: Config, event_loop: str) -> None:
    if event_loop == "uvloop":
        try:
            import uvloop  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise click.ClickException(
                "--event-loop uvloop needs it installed: pip install 'barnabas[uvloop]'"
            ) from error
        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    else:
        from barnabas.network.event_loop import BrokerEventLoop

        factory = functools.partial(BrokerEventLoop, config["barnabas.busy.poll.us"] / 1e6)
    # What the broker and its children make is for its own user: records, and locks that keep it from starting.
    os.umask(os.umask(0o077) | int(config["barnabas.data.umask"], 8))
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_serve(config))


async def _serve(config: Config) -> None:
    """Runs a node from its start to a signal; every failure to start is one line."""
    # What a start makes stays; the node switches the collector on again when it runs.
    gc.disable()
    from barnabas.node.broker_node import BrokerNode, StartError

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    node = BrokerNode(config)

    def end() -> None:
        stop.set()
        node.interrupt_start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        await node.start()
    except (StartError, ConfigError) as error:
        raise click.ClickException(str(error)) from error
    if stop.is_set():
        await node.stop()
        return
    listeners = ",".join(str(endpoint) for endpoint in node.endpoints)
    click.echo(f"ready {listeners} broker={node.broker_id} data={','.join(map(str, node.log_dirs))}")
    sys.stdout.flush()
    stopped = asyncio.ensure_future(stop.wait())
    failed = asyncio.ensure_future(node.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    reason = failed.result() if failed.done() else None
    for task in (stopped, failed):
        task.cancel()
    await node.stop()
    if reason is not None:
        raise click.ClickException(reason)
