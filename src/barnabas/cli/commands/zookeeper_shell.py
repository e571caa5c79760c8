"""``barnabas zookeeper-shell``: the commands of ZooKeeper's shell that look at znodes, with its lines."""

import asyncio
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.options import properties, timeout_option
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.cluster.store.contract import Stat
    from barnabas.operations.store_reader import StoreReader

_FLAGS: Final = {"ls": {"-s", "-R"}, "get": {"-s"}, "stat": set[str]()}
"""The commands, and the flags that each takes."""
_END: Final = {"quit", "close"}


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("server", metavar="HOST:PORT[,...][/PATH]")
@click.argument("words", metavar="[COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-zk-tls-config-file",
    "zk_tls_config_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TLS with ZooKeeper: a file with the keys zookeeper.ssl.*.",
)
@timeout_option("How long a server may take to answer, in milliseconds.")
def zookeeper_shell(
    server: str, words: tuple[str, ...], zk_tls_config_file: Path | None, timeout_ms: int
) -> None:
    """Run one command of ZooKeeper's shell, or those on standard input, one a line; changes nothing.

    The commands are `ls [-s] [-R] PATH`, `get [-s] PATH` and `stat PATH`. Of what ZooKeeper knows of a znode
    the versions of its children and of its ACL are not shown. `barnabas store get` lays the data out.

    \b
    Examples:
      barnabas zookeeper-shell 127.0.0.1:2181 ls /brokers/ids
      barnabas zookeeper-shell 127.0.0.1:2181/kafka get -s /controller
      echo 'get /controller_epoch' | barnabas zookeeper-shell 127.0.0.1:2181
    """
    from barnabas.operations.store_reader import opened

    if words:
        _check(words)

    async def run() -> bool:
        click.echo(f"Connecting to {printable(server)}")
        async with opened(None, server, timeout_ms, properties(zk_tls_config_file)) as reader:
            click.echo("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null")
            if words:
                return await _run(reader, words)
            for line in sys.stdin or ():
                given = shlex.split(line)
                if given and given[0] in _END:
                    break
                if given:
                    await _run_typed(reader, tuple(given))
            return True

    if not asyncio.run(run()):
        sys.exit(1)


async def _run_typed(reader: "StoreReader", words: tuple[str, ...]) -> None:
    """One command of several: what is wrong with it ends it alone."""
    try:
        _check(words)
        await _run(reader, words)
    except click.ClickException as error:
        click.echo(printable(error.format_message()), err=True)


def _check(words: tuple[str, ...]) -> None:
    """Raises UsageError for what is no command here."""
    command, *rest = words
    if command not in _FLAGS:
        raise click.UsageError(f"{command} is none of {', '.join(_FLAGS)}: this shell changes nothing")
    flags, paths = rest[:-1], rest[-1:]
    if not paths or not paths[0].startswith("/") or not set(flags) <= _FLAGS[command]:
        taken = "".join(f" [{flag}]" for flag in sorted(_FLAGS[command]))
        raise click.UsageError(f"{command}{taken} PATH, with a path that begins with /")


async def _run(reader: "StoreReader", words: tuple[str, ...]) -> bool:
    """Prints what the command finds; False where there is no such znode."""
    from barnabas.cluster.store.contract import NoNodeError

    command, *flags, path = words
    try:
        data, stat = await reader.get(path)
        names = await reader.children(path)
        if command == "get":
            click.echo(printable("null" if data is None else data.decode(errors="replace")))
        elif command == "ls" and "-R" in flags:
            await _print_tree(reader, path)
        elif command == "ls":
            click.echo(f"[{', '.join(map(printable, names))}]")
    except NoNodeError:
        click.echo(f"Node does not exist: {printable(path)}", err=True)
        return False
    if command == "stat" or "-s" in flags:
        _print_stat(stat, len(data or b""), len(names))
    return True


async def _print_tree(reader: "StoreReader", path: str) -> None:
    click.echo(printable(path))
    await _print_below(reader, path)


async def _print_below(reader: "StoreReader", path: str) -> None:
    """All children of a znode, then what is below each of them (``ZKUtil.visitSubTreeDFS``)."""
    children = [f"{path.rstrip('/')}/{name}" for name in await reader.children(path)]
    for child in children:
        click.echo(printable(child))
    for child in children:
        await _print_below(reader, child)


def _print_stat(stat: "Stat", length: int, children: int) -> None:
    for name, value in (
        ("cZxid", f"{stat.czxid:#x}"),
        ("ctime", _date(stat.created_ms)),
        ("mZxid", f"{stat.mzxid:#x}"),
        ("mtime", _date(stat.modified_ms)),
        ("dataVersion", stat.version),
        ("ephemeralOwner", f"{stat.ephemeral_owner:#x}"),
        ("dataLength", length),
        ("numChildren", children),
    ):
        click.echo(f"{name} = {value}")


def _date(ms: int) -> str:
    """As ``java.util.Date`` prints itself: in the time zone of this machine."""
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%a %b %d %H:%M:%S %Z %Y")
