"""Compares Spark's official Kafka connector with ours, on Apache Kafka 3.9 and on Barnabas.

python -m parity.connectors [--jobs a,b] [--brokers kafka,barnabas] [--quick] [--show]
"""

import argparse
import sys

from parity.connectors import differences
from parity.connectors.run import BROKERS, JOBS, run
from parity.sides import UnavailableError


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m parity.connectors", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--jobs", type=_of(JOBS), default=list(JOBS), metavar="a,b", help=", ".join(JOBS))
    parser.add_argument(
        "--brokers", type=_of(BROKERS), default=list(BROKERS), metavar="a,b", help=", ".join(BROKERS)
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the short form: fewer cases a job, the official connector on the first broker only",
    )
    parser.add_argument("--show", action="store_true", help="print the differences that are allowed as well")
    return parser.parse_args()


def _of(known):
    """A type of arguments: some of these names, by commas, in their order."""

    def parse(text: str) -> list[str]:
        asked = [name.strip() for name in text.split(",")]
        if unknown := [name for name in asked if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: take from {', '.join(known)}")
        return [name for name in known if name in asked]

    return parse


def main() -> int:
    """0: what differs is explained; 1: something is not; 2: the judges are not to be had."""
    asked = arguments()
    explained = differences.entries()
    outcomes: list[differences.Outcome] = []
    problems = 0
    try:
        for outcome in run(asked.jobs, asked.brokers, thorough=not asked.quick):
            outcomes.append(outcome)
            problems += _report(outcome, explained, show=asked.show)
    except UnavailableError as missing:
        print(f"parity.connectors: JUDGE DID NOT SPEAK: {missing}", file=sys.stderr)
        return 2
    for entry in differences.unused(explained, outcomes):
        print(f"NO LONGER DIFFERENT {entry.job} / {entry.name} (take it out of {differences.ENTRIES.name})")
        problems += 1
    compared = sum(outcome.results for outcome in outcomes)
    print(f"{len(asked.jobs)} jobs, {compared} results compared, {problems} problems")
    return 1 if problems else 0


def _report(outcome: differences.Outcome, explained: list[differences.Entry], *, show: bool) -> int:
    """Prints the line of one job on one broker and what is wrong; how many problems there are."""
    wrong = [one for one in outcome.differences if not any(entry.fits(one) for entry in explained)]
    allowed = len(outcome.differences) - len(wrong)
    said = f"{len(wrong)} of {outcome.results} DIFFERENT" if wrong else f"{outcome.results} results equal"
    said += f", {allowed} of them by a difference that is allowed" if allowed else ""
    print(f"{outcome.job:14} on {outcome.broker:8}  {said}  ({outcome.seconds:.1f} s)", flush=True)
    for difference in outcome.differences if show else wrong:
        print(f"  {'DIFFERENT' if difference in wrong else 'allowed'} {difference}", flush=True)
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
