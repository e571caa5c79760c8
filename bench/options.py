"""The options that the comparisons share."""

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from bench.sides import CHECKOUT, TITLES, Trees

R = TypeVar("R")


def parser_of(prog: str, summary: str, rows: Iterable[str], sides: str) -> argparse.ArgumentParser:
    """A parser for --quick, --rows, --sides, --compiled and --before."""
    parser = argparse.ArgumentParser(prog=prog, description=summary)
    parser.add_argument("--quick", action="store_true", help="few short rounds: a look, not a result")
    parser.add_argument("--rows", default=",".join(rows), help="which ones (default: %(default)s)")
    parser.add_argument(
        "--sides",
        default=sides,
        help=f"of {', '.join(TITLES)}, to compare with the first (default: %(default)s);"
        " kafka,control shows how far ratios stray",
    )
    parser.add_argument(
        "--compiled",
        type=Path,
        default=CHECKOUT,
        metavar="PATH",
        help="where the compiled form is: a source tree or a virtual environment (default: this checkout)",
    )
    parser.add_argument(
        "--before",
        type=Path,
        default=CHECKOUT,
        metavar="PATH",
        help="where another commit is, for the side `before`: a source tree or a virtual environment",
    )
    return parser


def trees(asked: argparse.Namespace) -> Trees:
    """Where the sides are that the command line names a place of."""
    return Trees(asked.compiled, asked.before)


def chosen_rows(given: str, rows: Mapping[str, R]) -> dict[str, R]:
    """The rows that are named, in the order of the table."""
    names = _known(given, rows)
    return {name: row for name, row in rows.items() if name in names}


def chosen_sides(given: str) -> list[str]:
    """The sides that are named, in the order given."""
    return _known(given, TITLES)


def _known(given: str, among: Iterable[str]) -> list[str]:
    """The names in `given`; ends the command with status 2 for one that there is not."""
    names = given.split(",")
    if strange := [name for name in names if name not in among]:
        print(f"bench: no {', '.join(strange)}; there are {', '.join(among)}", file=sys.stderr)
        raise SystemExit(2)
    return names
