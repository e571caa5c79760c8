"""``barnabas control``: faults, waits and moves at the control port of a broker in a test."""

import json
from typing import Any
from urllib.parse import quote

import click

_AT = "BARNABAS_CONTROL"


@click.group()
@click.option(
    "--at",
    envvar=_AT,
    required=True,
    metavar="[HOST:]PORT",
    help=f"The port that `barnabas serve --control` has named.  [env var: {_AT}]",
)
@click.pass_context
def control(ctx: click.Context, at: str) -> None:
    """Plant faults in a broker that was started with --control, and wait for what happens there.

    The same over HTTP, for tests in any language: docs/testing-your-program.md.

    \b
    Examples:
      barnabas serve --control 9099
      barnabas control --at 9099 fault add apis=Produce topic=orders error=NOT_LEADER_OR_FOLLOWER count=2
      barnabas control --at 9099 fault wait 1
      barnabas control --at 9099 group wait readers --state Stable --members 2
      barnabas control --at 9099 disk fill
      barnabas control --at 9099 move-leader --topic orders --partition 0 --broker 2
    """
    host, _, port = at.removeprefix("http://").rstrip("/").rpartition(":")
    if not port.isdecimal():
        raise click.UsageError(f"--at {at}: write it as PORT or HOST:PORT")
    ctx.obj = f"http://{host or '127.0.0.1'}:{port}"


@control.group()
def fault() -> None:
    """Plant, list, wait for and remove faults."""


@fault.command("add")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@click.pass_obj
def add(at: str, fields: tuple[str, ...]) -> None:
    """Plant a fault: apis, topic, partition, id, client_id, node, when, error, delay_ms, cut, count, skip,
    brokers.

    Prints its number, by which it is waited for and removed.
    """
    given = {}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise click.UsageError(f"{field}: write it as field=value")
        given[name] = value
    planted = _ask(at, "POST", "/faults", given)
    click.echo(f"{planted['id']}: {planted['fault']}")


@fault.command("list")
@click.pass_obj
def list_faults(at: str) -> None:
    """Print all faults, with how many requests each has hit."""
    for planted in _ask(at, "GET", "/faults"):
        click.echo(f"{planted['id']}: {planted['fault']} hits={planted['hits']}")


@fault.command("wait")
@click.argument("number", type=int)
@click.option("--hits", type=click.IntRange(min=1), help="How many requests.  [default: the fault's count]")
@click.option("--timeout", "timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.pass_obj
def wait_for_fault(at: str, number: int, hits: int | None, timeout_s: float) -> None:
    """Return when a fault has hit so many requests; exit code 1 when it has not in time."""
    query = f"timeout_s={timeout_s:g}" + ("" if hits is None else f"&hits={hits}")
    click.echo(f"hits={_ask(at, 'GET', f'/faults/{number}/wait?{query}', wait_s=timeout_s)['hits']}")


@fault.command("remove")
@click.argument("number", type=int, required=False)
@click.pass_obj
def remove(at: str, number: int | None) -> None:
    """Take a fault away, or all of them."""
    _ask(at, "DELETE", "/faults" if number is None else f"/faults/{number}")


@control.group()
def group() -> None:
    """Wait for groups."""


@group.command("wait")
@click.argument("group_id")
@click.option("--state", default="Stable", show_default=True, help="The state to wait for.")
@click.option("--members", type=click.IntRange(min=0), help="How many members it is to have.")
@click.option("--timeout", "timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.pass_obj
def wait_for_group(at: str, group_id: str, state: str, members: int | None, timeout_s: float) -> None:
    """Return when a group is in a state; exit code 1 when it is not in time."""
    query = f"state={quote(state)}&timeout_s={timeout_s:g}"
    query += "" if members is None else f"&members={members}"
    found = _ask(at, "GET", f"/groups/{quote(group_id, safe='')}/wait?{query}", wait_s=timeout_s)
    click.echo(f"{found['group']} {found['state']} members={found['members']}")


@control.group()
def disk() -> None:
    """Have the broker's disk be full, and free it."""


@disk.command("fill")
@click.pass_obj
def fill_disk(at: str) -> None:
    """From now on no write finds room; what is there is served."""
    _ask(at, "POST", "/disk", {"full": True})


@disk.command("wait")
@click.option("--hits", type=click.IntRange(min=1), default=1, show_default=True, help="How many writes.")
@click.option("--timeout", "timeout_s", type=float, default=10.0, show_default=True, help="Seconds.")
@click.pass_obj
def wait_for_disk(at: str, hits: int, timeout_s: float) -> None:
    """Return when so many writes found no room; exit code 1 when they did not in time."""
    query = f"hits={hits}&timeout_s={timeout_s:g}"
    click.echo(f"hits={_ask(at, 'GET', f'/disk/wait?{query}', wait_s=timeout_s)['hits']}")


@disk.command("free")
@click.pass_obj
def free_disk(at: str) -> None:
    """There is room again."""
    _ask(at, "POST", "/disk", {"full": False})


@control.command("move-leader")
@click.option("--topic", required=True, help="The topic.")
@click.option("--partition", type=click.IntRange(min=0), default=0, show_default=True, help="The partition.")
@click.option("--broker", type=click.IntRange(min=0), required=True, help="The broker that is to lead.")
@click.pass_obj
def move_leader(at: str, topic: str, partition: int, broker: int) -> None:
    """Make a broker the leader of a partition; returns when it leads."""
    _ask(at, "POST", "/leaders", {"topic": topic, "partition": partition, "broker": broker})


@control.command("advance")
@click.argument("seconds", type=click.FloatRange(min=0))
@click.pass_obj
def advance(at: str, seconds: float) -> None:
    """Move the broker's time on: what was to happen meanwhile happens now."""
    _ask(at, "POST", "/time", {"advance_s": seconds})


def _ask(at: str, method: str, path: str, given: dict[str, Any] | None = None, wait_s: float = 30.0) -> Any:
    """The answer of the control port. Raises ClickException with what it says, or where nothing answers."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    body = None if given is None else json.dumps(given).encode()
    request = Request(  # noqa: S310 - the address begins with http:
        at + path, body, {"Content-Type": "application/json"}, method=method
    )
    try:
        with urlopen(request, timeout=wait_s + 30) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        try:
            text = json.load(error)["error"]
        except (ValueError, KeyError, TypeError):
            text = f"{at} answers {error.code}: is it a control port?"
        raise click.ClickException(text) from None
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(f"no control port at {at}: {reason}") from None
