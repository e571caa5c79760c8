"""The stations of a coordinator for people (a table, or plain lines) and for programs (JSON)."""

import json
import sys
from collections.abc import Sequence

import click

from barnabas.operations.coordinator_explanation import Line, as_dict, lines
from barnabas.operations.coordinator_stations import Stations


def print_stations(stations: Stations, *, as_json: bool) -> None:
    """JSON when asked for, else a table on a terminal and plain lines in a pipe."""
    if as_json:
        click.echo(json.dumps(as_dict(stations), indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        _print_table(lines(stations))
    else:
        for station, text in lines(stations):
            click.echo(f"{station:<18}{text}")


def _print_table(rows: Sequence[Line]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=True)
    table.add_column("station", no_wrap=True)
    table.add_column("there")
    for station, text in rows:
        table.add_row(station, Text(text))
    Console().print(table)
