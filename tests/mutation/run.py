"""Plants the bugs of the table a few at a time and tells which ones the tests see.

    python tests/mutation/run.py [FOLDER ...] [--only NAME] [--sample N [--seed S]] [--jobs N]
    [--simulation-seeds N]

A bug is planted in a copy of the source. It is killed when a test or the simulation fails, or has no end. The
tests that its entry names are asked first, then those of its folder and all that import its module, the
nearest first; three files are asked before the others, as most bugs have been noticed then. The first failure
ends the run. One that nothing sees survives. The command fails when fewer than nine in ten are killed, when a
survivor has no reason in the table, or when one that is said to survive is killed.
"""

import argparse
import os
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from mutation_table import Mutation, load
from planting import judge_all

KILLED_SHARE_MIN = 0.9


def main() -> int:
    """Runs what was asked for; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="tables to run; all without any")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="one mutation, like log-3"
    )
    parser.add_argument("--file", action="append", default=[], metavar="PATH", help="those of a source file")
    parser.add_argument(
        "--simulation-seeds", type=int, default=60, metavar="N", help="0 leaves it out (default 60)"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="so many of them, drawn with --seed")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (default 1)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="at a time (default: one a core)"
    )
    options = parser.parse_args()
    try:
        mutations = _chosen(options)
        for mutation in mutations:
            mutation.check_that_it_changes_what_runs()
    except (SyntaxError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    wrong: list[str] = []
    killed, judged, began = 0, 0, time.monotonic()

    def report(mutation: Mutation, killer: str | None) -> None:
        nonlocal killed, judged
        judged += 1
        killed += killer is not None
        outcome = f"killed by {killer}" if killer else f"SURVIVES ({mutation.survives or 'no reason given'})"
        minutes = (time.monotonic() - began) / 60
        print(
            f"[{judged}/{len(mutations)}, {minutes:.1f} min] {mutation.name}: {mutation.why}: {outcome}",
            flush=True,
        )
        if (killer is None) != (mutation.survives is not None):
            wrong.append(f"{mutation.name} {'is killed but said to survive' if killer else 'has no reason'}")

    judge_all(mutations, report, jobs=options.jobs, simulation_seeds=options.simulation_seeds)
    print(f"{killed} of {len(mutations)} killed ({killed / max(1, len(mutations)):.0%})")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong or killed < KILLED_SHARE_MIN * len(mutations) else 0


def _chosen(options: argparse.Namespace) -> list[Mutation]:
    mutations = [
        each
        for each in load(options.folders)
        if (not options.only or each.name in options.only) and (not options.file or each.file in options.file)
    ]
    if options.sample is not None and options.sample < len(mutations):
        return random.Random(options.seed).sample(mutations, options.sample)
    return mutations


if __name__ == "__main__":
    sys.exit(main())
