"""Puts Apache Kafka 3.9, Barnabas (pure and compiled), kfake and a floor in C side by side on this machine:
rates, costs, ratios.

python -m bench [--quick] [--rows one,many,...] [--sides kafka,pure,compiled,kfake,floor] [--compiled PATH]
[--write]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench import options, report
from bench.mood import mood_meter
from bench.rounds import FULL, QUICK
from bench.rows import ROWS
from bench.sides import UnavailableError, running_sides


def arguments() -> argparse.Namespace:
    """The command line."""
    summary = __doc__.partition("\n")[0]
    parser = options.parser_of("python -m bench", summary, ROWS, "kafka,pure,compiled,kfake,floor")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def main() -> int:
    """Runs the rows; 0 when every budget is met, 1 otherwise, 2 when there is nothing to compare with."""
    asked = arguments()
    rows, sides = options.chosen_rows(asked.rows, ROWS), options.chosen_sides(asked.sides)
    effort = QUICK if asked.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
    try:
        with mood_meter() as meter, running_sides(folder, sides, options.trees(asked)) as running:
            found = report.compare(rows, running, effort, meter)
    except UnavailableError as missing:
        print(f"bench: nothing to compare with: {missing}", file=sys.stderr)
        return 2
    print(report.table(found))
    if asked.write:
        print(f"\nwritten to {report.write(found, effort)}")
    return 0 if found.all_met else 1


if __name__ == "__main__":
    sys.exit(main())
