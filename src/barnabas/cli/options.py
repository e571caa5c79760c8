"""What several commands share:
flags, client options from files and ``key=value``, the admin client, checks.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from barnabas.cli.bootstrap import asks
from barnabas.cli.printing import printable
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import INTERNAL_TOPICS

if TYPE_CHECKING:
    from barnabas.admin import AsyncAdmin

F = TypeVar("F", bound=Callable[..., Any])

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
"""What Java's numbers hold, and the protocol's."""


ARGUMENTS: Final = "barnabas.arguments"
_API_TIMEOUT: Final = "barnabas.api-timeout"
HALF_A_MINUTE: Final = {"default.api.timeout.ms": 30_000, "request.timeout.ms": 15_000}
"""Options of clients where Kafka's script gives up after 30 s, not after the 60 s of its admin client."""


class OldName(NamedTuple):
    """The name that a flag had before Kafka 4.2 renamed it (KIP-1147).

    Both names work. The old one says on stderr, so that what is piped stays data, what Kafka's script says
    on standard output; both together are refused in the script's words.
    """

    flag: str
    warning: str = (
        "Option {old} has been deprecated and will be removed in a future version. Use {new} instead."
    )
    together: str = "{old} and {new} cannot be specified together."


class _OldFlag(click.Option):
    """A flag's old name, whose value goes to the flag of today."""

    def __init__(
        self, declarations: Sequence[str], /, *, today: str, old: OldName, **attributes: Any
    ) -> None:
        super().__init__(declarations, **attributes)
        self._today = today
        self._old = old

    def hand_over(self, ctx: click.Context) -> None:
        """Gives the value to today's flag. Raises UsageError when both were given."""
        assert self.name is not None
        value = ctx.params.pop(self.name)
        if ctx.get_parameter_source(self.name) is not ParameterSource.COMMANDLINE:
            return
        names = {"old": self._old.flag, "new": _flag(ctx.command, self._today)}
        if ctx.get_parameter_source(self._today) is ParameterSource.COMMANDLINE:
            raise click.UsageError(self._old.together.format(**names), ctx)
        click.echo(self._old.warning.format(**names), err=True)
        ctx.params[self._today] = value


def _flag(command: click.Command, name: str) -> str:
    return next(each.opts[0] for each in command.params if each.name == name)


class ToolCommand(click.Command):
    """A command some of whose flags have old names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for flag in self.params:
            if isinstance(flag, _OldFlag):
                flag.hand_over(ctx)
        return rest


def renamed_option(flag: str, name: str, old: OldName | None, **attributes: Any) -> Callable[[F], F]:
    """An option of a `ToolCommand` that may be given under an old name, too."""

    def decorate(command: F) -> F:
        if old is not None:
            shown = attributes | {"help": f"Deprecated: as {flag}."}
            declarations = (old.flag, "old_" + re.sub(r"\W+", "_", old.flag.lstrip("-")))
            command = click.option(*declarations, cls=_OldFlag, today=name, old=old, **shown)(command)
        return click.option(flag, name, **attributes)(command)

    return decorate


class ScriptCommand(ToolCommand):
    """A command that keeps its arguments as they were given (`ARGUMENTS` in the context's meta).

    For scripts whose errors repeat the command line.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)


class ArgparseCommand(ToolCommand):
    """A command whose script reads its flags with argparse4j:
    without any it prints its help and ends with 0.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])


def file_option(flag: str, name: str, what: str, old: OldName | None = None) -> Callable[[F], F]:
    """An option that names a file of properties."""
    existing = click.Path(exists=True, dir_okay=False, path_type=Path)
    return renamed_option(flag, name, old, metavar="FILE", type=existing, help=what)


command_config_option: Final = file_option(
    "--command-config", "command_config", "Options of the admin client."
)


def timeout_option(
    what: str = "How long a request to the cluster may take, in milliseconds.",
) -> Callable[[F], F]:
    return click.option(
        "--timeout",
        "timeout_ms",
        type=click.IntRange(min=1),
        default=10_000,
        show_default=True,
        metavar="MS",
        help=what,
    )


def api_timeout_option(default: int = 60_000, flag: str = "--timeout") -> Callable[[F], F]:
    """How long the cluster may take, for tools whose clients get their options by `client_options`."""

    def remember(context: click.Context, _option: click.Parameter, value: int | None) -> None:
        context.meta[_API_TIMEOUT] = value

    return click.option(
        flag,
        "api_timeout_ms",
        type=click.IntRange(min=1, max=INT_MAX),
        expose_value=False,
        callback=remember,
        metavar="MS",
        help=f"How long the cluster may take to answer, in milliseconds.  [default: {default}]",
    )


def api_timeout_ms() -> int | None:
    """What `api_timeout_option` was given; None where it was not."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_API_TIMEOUT)


def api_limits() -> dict[str, int]:
    """Options of clients that end a call in the time of `api_timeout_option`, none where it was not given. A
    server that is silent leaves half of it for another one.
    """
    timeout_ms = api_timeout_ms()
    if timeout_ms is None:
        return {}
    half = max(1, timeout_ms // 2)
    return {
        "default.api.timeout.ms": timeout_ms,
        "max.block.ms": timeout_ms,
        "request.timeout.ms": half,
        "socket.connection.setup.timeout.ms": half,
        "socket.connection.setup.timeout.max.ms": half,
    }


zk_tls_option: Final = file_option(
    "--zk-tls-config-file", "zk_tls_config_file", "TLS with ZooKeeper: a file with the keys zookeeper.ssl.*."
)


def on_store(command: F) -> F:
    """The options that name a metadata store: ``folder``, ``zookeeper``, ``timeout_ms`` and
    ``zk_tls_config_file``.
    """
    for option in (
        zk_tls_option,
        timeout_option("How long a server may take to answer, in milliseconds."),
        click.option("--zookeeper", metavar="HOST:PORT[,...][/PATH]", help="The ZooKeeper servers."),
        click.option(
            "--store",
            "folder",
            type=click.Path(path_type=Path),
            help="The folder of an embedded store, or its file; for a broker alone its data folder.",
        ),
    ):
        command = option(command)
    return command


def pairs_option(flag: str, name: str, what: str, old: OldName | None = None) -> Callable[[F], F]:
    """An option that is one ``key=value``, and may be repeated."""
    return renamed_option(flag, name, old, multiple=True, metavar="KEY=VALUE", help=what)


def key_values(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` texts as a mapping; a missing value is empty, as for Kafka's scripts."""
    split = (pair.partition("=") for pair in pairs)
    return {key: value for key, _, value in split}


def client_options(
    file: Path | None, pairs: Iterable[str], known: Mapping[str, Any], bootstrap: str, client_id: str
) -> dict[str, Any]:
    """Options for a client: the file's, then the pairs, then the bootstrap servers and the time-out of
    `api_timeout_option`.

    Keys that this client does not have are named on stderr and left out, as Java's clients warn about them;
    a key that asks for security raises ClickException.
    """
    given = {**properties(file), **key_values(pairs)}
    refuse_security(given)
    for key in sorted(set(given).difference(known)):
        click.echo(f"Warning: this client does not obey {printable(key)}", err=True)
    asks(bootstrap)
    asked = {key: value for key, value in {**given, **api_limits()}.items() if key in known}
    return {"client.id": client_id, **asked, "bootstrap.servers": bootstrap}


def admin_options(file: Path | None, bootstrap: str, client_id: str) -> dict[str, Any]:
    from barnabas.client.config import ADMIN_CONFIG

    return client_options(file, (), ADMIN_CONFIG, bootstrap, client_id)


@contextlib.asynccontextmanager
async def connected_admin(
    options: Mapping[str, Any], timeout_ms: float | None = None
) -> "AsyncIterator[AsyncAdmin]":
    """An admin client with these options, connected within the time and closed at the end."""
    admin = new_admin(options)
    try:
        yield await admin.start(timeout_ms=timeout_ms)
    finally:
        await admin.close()


def new_admin(options: Mapping[str, Any]) -> "AsyncAdmin":
    """An admin client with these options, which connects when it is first used."""
    from barnabas.admin import AsyncAdmin

    return AsyncAdmin(**{name.replace(".", "_"): value for name, value in options.items()})


def known_properties(given: Mapping[str, str], defaults: Mapping[str, str | None]) -> dict[str, Any]:
    """The properties of a reader or formatter over their defaults.
    Raises ClickException for an unknown one.
    """
    unknown = sorted(set(given).difference(defaults))
    if unknown:
        raise click.ClickException(f"Unknown property {unknown[0]}; there are {', '.join(defaults)}")
    return {**defaults, **given}


def is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def properties(file: Path | None) -> dict[str, str]:
    """What a file of properties says, nothing without a file.
    Raises ClickException where it cannot be read.
    """
    from barnabas.core.broker_config import read_properties

    if file is None:
        return {}
    try:
        return read_properties(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.ClickException(f"{file} is not a text in UTF-8") from None


def refuse_security(given: Mapping[str, str]) -> None:
    """Raises ClickException for a setting that asks for security, so that nothing is sent without it."""
    from barnabas.client.channel_security import security_asked_for

    problem = security_asked_for(given)
    if problem:
        raise click.ClickException(problem)


class TopicFilter:
    """Topics whose whole name matches (``IncludeList``): commas mean "or", blanks and quotes go away."""

    def __init__(self, raw: str) -> None:
        text = raw.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(text)
        except re.error:
            raise click.ClickException(f"{text} is an invalid regex.") from None

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        internal = exclude_internal and topic in INTERNAL_TOPICS
        return not internal and self._pattern.fullmatch(topic) is not None


def kafka_names(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a command by Kafka's names of its options."""
    return {name.replace("_", "-"): value for name, value in parameters.items()}


def refuse_together(given: Mapping[str, Any], option: str, others: Iterable[str]) -> None:
    """Raises UsageError when `option` was given with one of the others, in the words of Kafka's scripts."""
    if given.get(option):
        for other in others:
            if given.get(other):
                raise click.UsageError(f'Option "[{option}]" can\'t be used with option "[{other}]"')


class ToolError(click.ClickException):
    """An error in the exact words of one of Kafka's scripts: printed as it is."""


@contextlib.contextmanager
def reported_as(prefix: str) -> Iterator[None]:
    """Turns what goes wrong inside into one line with this prefix, as the script of the same name
    prints it.
    """
    try:
        yield
    except click.UsageError:
        raise
    except click.ClickException as error:
        raise ToolError(prefix + error.format_message()) from error
    except BarnabasError as error:
        raise ToolError(f"{prefix}{error}") from error
