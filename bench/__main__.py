"""Puts Apache Kafka 3.9 and Barnabas side by side on this machine and prints their ratios.

python -m bench [--quick] [--rows one,many,latency,perf,cpu,start,memory] [--control] [--write]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench import report
from bench.rounds import FULL, QUICK, Effort
from bench.sides import kafka_harness, two_sides

from bench.rows import ROWS, Figure  # isort: skip - it needs the harness that `sides` puts on the path


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short rounds: a look, not a result")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)} (default: all)")
    parser.add_argument(
        "--control", action="store_true", help="Apache Kafka against itself: how far ratios stray"
    )
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args()


def main() -> int:
    """Runs the rows; 0 when every budget is met, 1 otherwise, 2 when there is nothing to compare with."""
    asked = arguments()
    rows = asked.rows.split(",")
    strange = [row for row in rows if row not in ROWS]
    if strange:
        print(f"bench: no row {', '.join(strange)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    effort = QUICK if asked.quick else FULL
    try:
        kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA)
    except kafka_harness.UnavailableError as missing:
        print(f"bench: nothing to compare with: {missing}", file=sys.stderr)
        return 2
    figures = measure(rows, effort, control=asked.control)
    print(report.control_table(figures) if asked.control else report.table(figures))
    if asked.control:
        return 0
    if asked.write:
        print(f"\nwritten to {report.write(figures, effort)}")
    return 0 if all(figure.met for figure in figures) else 1


def measure(rows: list[str], effort: Effort, *, control: bool) -> list[Figure]:
    """The figures of these rows, in the order of the table; says on stderr how long each took."""
    shown = report.control_table if control else report.table
    figures: list[Figure] = []
    folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
    with two_sides(folder, control=control) as sides:
        for row in [row for row in ROWS if row in rows]:
            started = time.monotonic()
            found = ROWS[row](sides, effort)
            took = f"{time.monotonic() - started:.0f} s"
            print(f"{row}, {took}:\n{shown(found)}", file=sys.stderr, flush=True)
            figures += found
    return sorted(figures, key=lambda figure: figure.row)


if __name__ == "__main__":
    sys.exit(main())
