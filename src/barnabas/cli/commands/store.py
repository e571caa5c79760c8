"""``barnabas store``: the znodes of a cluster. Kafka has zookeeper-shell.sh, which shows the bytes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.facts import json_option, print_facts
from barnabas.cli.options import on_store, properties
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.cluster.store.contract import Stat
    from barnabas.operations.store_reader import StoreReader

_LABEL_WIDTH: Final = 18


@click.group()
def store() -> None:
    """Show what a cluster keeps in ZooKeeper or in the embedded store; changes nothing.

    \b
    Examples:
      barnabas store ls /brokers/ids --store ./barnabas-data
      barnabas store get /controller --store ./store
      barnabas store get /brokers/topics/orders/partitions/0/state --zookeeper 127.0.0.1:2181/kafka
      barnabas store ls / --recursive --zookeeper 127.0.0.1:2181
    """


@store.command()
@click.argument("path", default="/")
@click.option("--recursive", is_flag=True, help="All znodes below, with their paths.")
@json_option
@on_store
def ls(path: str, recursive: bool, as_json: bool, **where: Any) -> None:
    """Print the names of the znodes below PATH, one a line.

    \b
    Examples:
      barnabas store ls /brokers/topics --store ./barnabas-data
      barnabas store ls / --recursive --zookeeper 127.0.0.1:2181/kafka
    """

    async def show(reader: "StoreReader") -> None:
        names = await reader.children(path)
        if recursive:
            below = path.rstrip("/")
            names = [found for name in names for found in await _walk(reader, f"{below}/{name}")]
        if as_json:
            print_facts({"path": path, "znodes": names})
            return
        for name in names:
            click.echo(printable(name))

    _read(path, show, **where)


async def _walk(reader: "StoreReader", path: str) -> list[str]:
    """A path and all below it."""
    from barnabas.cluster.store.contract import NoNodeError

    try:
        names = await reader.children(path)
    except NoNodeError:
        return [path]  # it went away meanwhile
    below = [found for name in names for found in await _walk(reader, f"{path}/{name}")]
    return [path, *below]


@store.command()
@click.argument("path")
@json_option
@on_store
def get(path: str, as_json: bool, **where: Any) -> None:
    """Print a znode: its data, JSON laid out, and its versions.

    czxid and mzxid are the transactions that made it and that wrote it last. An ephemeral znode goes with the
    session that owns it, which is that of a broker.

    \b
    Examples:
      barnabas store get /controller --store ./barnabas-data
      barnabas store get /brokers/ids/1 --json --zookeeper 127.0.0.1:2181/kafka
    """

    async def show(reader: "StoreReader") -> None:
        data, stat = await reader.get(path)
        children = len(await reader.children(path))
        if as_json:
            print_facts({"path": path, "data": _value(data), **stat._asdict(), "children": children})
        else:
            _print_znode(path, data, stat, children)

    _read(path, show, **where)


def _print_znode(path: str, data: bytes | None, stat: "Stat", children: int) -> None:
    lines = {
        "path": path,
        "version": str(stat.version),
        "czxid": f"{stat.czxid:#x}, {_time(stat.created_ms)}",
        "mzxid": f"{stat.mzxid:#x}, {_time(stat.modified_ms)}",
        "ephemeral owner": f"session {stat.ephemeral_owner:#x}" if stat.ephemeral_owner else "none",
        "children": str(children),
    }
    for label, text in lines.items():
        click.echo(f"{label:<{_LABEL_WIDTH}}{printable(text)}")
    value = _value(data)
    click.echo(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False))


def _value(data: bytes | None) -> Any:
    """The data as JSON or as a text that a terminal takes; None where there is none."""
    from barnabas.operations.store_reader import decoded

    value = decoded(data)
    return printable(value) if isinstance(value, str) else value


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _read(
    path: str,
    show: Callable[["StoreReader"], Awaitable[None]],
    folder: Path | None,
    zookeeper: str | None,
    timeout_ms: int,
    zk_tls_config_file: Path | None,
) -> None:
    """Runs `show` with a reader. Raises ClickException for a path or a store that is not there."""
    from barnabas.cluster.store import tree
    from barnabas.cluster.store.contract import NoNodeError
    from barnabas.operations.store_reader import opened

    if (folder is None) == (zookeeper is None):
        raise click.UsageError("Name the store: either --store or --zookeeper")
    try:
        tree.check_path(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from error

    async def look() -> None:
        async with opened(folder, zookeeper, timeout_ms, properties(zk_tls_config_file)) as reader:
            await show(reader)

    try:
        asyncio.run(look())
    except NoNodeError as error:
        raise click.ClickException(f"There is no znode {path}") from error
