"""Which brokers a tool asks first: those of its command line, else of the environment, else this machine's.

Whoever changes a cluster is told which one, and whoever gets an error is told whose it is, where the command
line did not say it: one line on stderr (docs/decisions/0097-where-no-option-names-the-brokers.md).
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from barnabas.cli.printing import printable

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE: Final = "BARNABAS_BOOTSTRAP_SERVERS"
DEFAULT: Final = "localhost:9092"
AS_SCRIPT: Final = "barnabas.as-script"
"""In the context's meta: whether a script with Kafka's name has called. Those have no default."""
_CHOSEN: Final = "barnabas.bootstrap"
_ASKED: Final = "barnabas.bootstrap-asked"


class _Chosen(NamedTuple):
    """Brokers that the command line does not name."""

    servers: str
    why: str
    changes: frozenset[str]


class _BootstrapOption(click.Option):
    def __init__(
        self, declarations: Any, /, *, instead: Iterable[str], has_default: bool, **attributes: Any
    ) -> None:
        super().__init__(declarations, **attributes)
        self._instead = frozenset(instead)
        self._has_default = has_default

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        if self.name in opts or ctx.resilient_parsing or not self._instead.isdisjoint(opts):
            return value, source
        servers = os.environ.get(VARIABLE)
        if servers is not None:
            if not servers.strip():
                # Taken for unset it would be the default: `VARIABLE=$PRODUCTION` with a name misspelt.
                raise click.UsageError(f"{VARIABLE} is empty: name brokers there or with -b, or unset it")
            return servers, ParameterSource.ENVIRONMENT
        if self._has_default and not ctx.meta.get(AS_SCRIPT):
            return DEFAULT, ParameterSource.DEFAULT
        return value, source


def bootstrap_option(
    *,
    required: bool = False,
    has_default: bool = True,
    instead: Iterable[str] = (),
    changes: Iterable[str] = (),
) -> Callable[[F], F]:
    """``--bootstrap-server``.

    `instead` are parameters that may say the same, `changes` those with which the cluster is changed:
    parameters, subcommands, or the command itself.
    """
    changing = frozenset(changes)

    def chosen(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
        servers = with_ports(value)
        assert option.name is not None
        source = context.get_parameter_source(option.name)
        if servers is not None and source is not ParameterSource.COMMANDLINE:
            named = source is ParameterSource.ENVIRONMENT
            why = f"{VARIABLE} says so" if named else f"neither -b nor {VARIABLE} names brokers"
            context.meta[_CHOSEN] = _Chosen(servers, why, changing)
        return servers

    otherwise = f"${VARIABLE}, {DEFAULT}" if has_default else f"${VARIABLE}"
    return click.option(
        "--bootstrap-server",
        "-b",
        cls=_BootstrapOption,
        instead=instead,
        has_default=has_default,
        metavar="HOST[:PORT]",
        required=required,
        callback=chosen,
        help="The brokers to connect to first: host:port, several with commas; a host alone means port 9092."
        f"  [default: {otherwise}]",
    )


def with_ports(servers: str | None) -> str | None:
    """The servers, each with a port: 9092 where it has none."""
    if servers is None:
        return None
    return ",".join(
        one if ":" in one.rpartition("]")[2] or not one.strip() else f"{one}:9092"
        for one in servers.split(",")
    )


def asks(servers: str) -> None:
    """To be called before a client connects to these brokers: names them where the command is to change
    something there.
    """
    context = click.get_current_context(silent=True)
    chosen = None if context is None else context.meta.pop(_CHOSEN, None)
    if context is None or chosen is None or chosen.servers != servers:
        return
    context.meta[_ASKED] = chosen
    given = {name for name, value in context.params.items() if value}
    if not chosen.changes.isdisjoint({context.info_name, context.invoked_subcommand, *given}):
        name_asked(context)


def name_asked(context: click.Context) -> None:
    """Names the brokers that were asked, once, where the command line does not."""
    chosen = context.meta.pop(_ASKED, None)
    if chosen is not None:
        click.echo(printable(f"Asking {chosen.servers}, as {chosen.why}"), err=True)
