"""Compares Spark's official Kafka connector with ours, on Apache Kafka 3.9 and on Barnabas.

python -m parity.connectors [--jobs "offsets,stream sink"] [--quick]
"""

import argparse
import sys
import time

from parity.connectors.run import DIFFERENCES, JOBS, entries, run
from parity.sides import UnavailableError


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m parity.connectors", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"which, by commas: {', '.join(JOBS)}")
    parser.add_argument("--quick", action="store_true", help="leave out the official connector on our broker")
    parser.add_argument("--show", action="store_true", help="print the differences that are allowed as well")
    asked = parser.parse_args()
    asked.jobs = [job.strip() for job in asked.jobs.split(",")]
    if unknown := set(asked.jobs) - set(JOBS):
        parser.error(f"there is no job {', '.join(sorted(unknown))}: take from {', '.join(JOBS)}")
    return asked


def main() -> int:
    """0: what differs is explained; 1: something is not; 2: the judges are not to be had."""
    asked = arguments()
    explained = entries()
    unused = [entry for entry in explained if any(entry.job == job for job in asked.jobs)]
    problems = 0
    try:
        for job, found, seconds in _timed(run(asked.jobs, thorough=not asked.quick)):
            wrong = [one for one in found if not any(entry.fits(one) for entry in explained)]
            unused = [entry for entry in unused if not any(entry.fits(one) for one in found)]
            problems += len(wrong)
            allowed = f", {len(found) - len(wrong)} differences allowed" if len(found) > len(wrong) else ""
            print(f"{job:16} {'DIFFERENT' if wrong else 'equal'}{allowed}, {seconds:.1f} s", flush=True)
            for difference in found if asked.show else wrong:
                print(difference)
    except UnavailableError as missing:
        print(f"parity.connectors: JUDGE DID NOT SPEAK: {missing}", file=sys.stderr)
        return 2
    if not asked.quick:
        for entry in unused:
            print(f"NO LONGER DIFFERENT {entry.job} / {entry.name} (take it out of {DIFFERENCES.name})")
            problems += 1
    print(f"{len(asked.jobs)} jobs, {problems} problems")
    return 1 if problems else 0


def _timed(jobs):
    started = time.monotonic()
    for job, found in jobs:
        yield job, found, time.monotonic() - started
        started = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
