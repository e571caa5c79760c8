"""``barnabas timeline``: what happened to a cluster, from a console's folder. No script of Kafka's."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from barnabas.cli.facts import json_option, plain, print_facts
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.console.views.timeline import TimelineView


@click.command()
@json_option
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default=Path("barnabas-console"),
    show_default=True,
    help="The console's folder.",
)
@click.option("--cluster", default="cluster", show_default=True, help="What the console calls the cluster.")
@click.option(
    "--kind", "kinds", multiple=True, help="leader, isr, config, group, action, alert ...; repeatable."
)
@click.option("--resource", default="", metavar="TEXT", help="A part of what it is about.")
@click.option(
    "--from", "start", default="-24h", show_default=True, metavar="TIME", help="In ms, or such as -90m."
)
@click.option("--to", "end", metavar="TIME", help="In ms, or such as -90m; now when left out.")
@click.option("--count", type=click.IntRange(1, 1000), default=200, show_default=True, help="How many.")
@click.option("--positions", metavar="MS:ENTRIES", help="Where an earlier answer stopped.")
def timeline(
    as_json: bool,
    data: Path,
    cluster: str,
    kinds: tuple[str, ...],
    resource: str,
    start: str,
    end: str | None,
    count: int,
    positions: str | None,
) -> None:
    """Print what happened, the newest first: leaders, in-sync replicas, configurations, groups, what was done
    from the console, alerts. It reads the folder of a console, which may be running.

    \b
    Examples:
      barnabas timeline --from -2h --resource orders
      barnabas timeline --data /var/lib/barnabas-console --cluster prod --kind isr --kind leader --json
    """
    from barnabas.console.actions.audit import AuditLog
    from barnabas.console.alerts.book import AlertBook
    from barnabas.console.alerts.notices import Addresses, Notifier
    from barnabas.console.history.history import ClusterHistory
    from barnabas.console.views import timeline as timelines
    from barnabas.operations.clock import now_ms

    now = now_ms()
    wanted = timelines.TimelineQuery(
        timelines.time_of(start, now),
        timelines.time_of(end, now) if end else now,
        frozenset(kinds),
        resource,
        count,
        positions,
    )
    history = ClusterHistory(data / "history", cluster)
    if not history.folder.is_dir():
        raise click.ClickException(f"{data} has no history of a cluster {cluster!r}: name it with --cluster")
    incidents = AlertBook(history.folder, cluster, Notifier(Addresses())).past()
    found = timelines.timeline(
        wanted,
        history.changes(wanted.start_ms, timelines.end_of(wanted), timelines.CHANGES_MAX),
        AuditLog(data).entries(cluster, timelines.ACTIONS_MAX),
        incidents,
    )
    if as_json:
        print_facts(plain(found))
    else:
        _print(found)


def _print(found: "TimelineView") -> None:
    from barnabas.console.units import when

    for one in found.entries:
        change = f"{one.before} -> {one.after}" if one.before else one.after
        who = f" by {one.who}" if one.who else ""
        click.echo(printable(f"{when(one.at_ms)}  {one.kind:<10}  {one.subject}: {change}{who}"))
    for note in found.left_out:
        click.echo(printable(note), err=True)
    if found.next:
        click.echo(f"older: --positions {found.next}", err=True)
