"""Asks Apache Kafka, 3.9 or 4.4, and Barnabas the same, and says where they differ.

python -m parity [--profile 3.9|4.4] [--only WORD] [--show] [--mode plain|denied|secure]
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from parity import allowed
from parity.compare import Difference, compare
from parity.judges import JUDGES, Judge
from parity.modes import MODES, PLAIN
from parity.run import Transcripts, run, uncovered
from parity.sides import UnavailableError


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m parity", description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", choices=JUDGES, default="3.9", help="beside which Kafka (default: 3.9)")
    parser.add_argument("--only", default="", metavar="WORD", help="scenarios whose name has this word in it")
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="plain",
        help="denied: by a user who may do nothing; secure: over SASL_SSL, by one who may do everything",
    )
    parser.add_argument("--show", action="store_true", help="print the differences that are allowed as well")
    asked = parser.parse_args()
    if asked.profile != "3.9" and asked.mode != PLAIN.name:
        parser.error("the other modes are for profile 3.9: rules and their authorizer are Kafka 3.9's")
    return asked


def main() -> int:
    """0: what differs is explained; 1: something is not; 2: Apache Kafka is not to be had."""
    asked = arguments()
    judge = JUDGES[asked.profile]
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="barnabas-parity-"))
    try:
        transcripts = run(judge, folder, asked.only, MODES[asked.mode])
    except UnavailableError as missing:
        print(f"parity: JUDGE DID NOT SPEAK: {missing}", file=sys.stderr)
        return 2
    found = compare(transcripts.theirs, transcripts.ours)
    problems = _report(judge, found, transcripts, asked.mode, whole=not asked.only, show=asked.show)
    print(
        f"{len(transcripts.theirs)} answers compared, {len(found)} differences, "
        f"{problems} problems, {time.monotonic() - started:.0f} s"
    )
    if not problems:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"the brokers' logs are in {folder}")
    return 1 if problems else 0


def _report(
    judge: Judge, found: list[Difference], transcripts: Transcripts, mode: str, *, whole: bool, show: bool
) -> int:
    """Prints what is wrong; how many problems there are."""
    entries = allowed.entries(judge.allowed, mode)
    unexplained, unused = allowed.judge(found, entries)
    for difference in found if show else unexplained:
        print(f"{'DIFFERENT' if difference in unexplained else 'allowed'} {difference}")
    if not whole:
        return len(unexplained)
    unused = allowed.missed(unused, mode)
    for entry in unused:
        print(f"NO LONGER DIFFERENT {entry.where}: {entry.field} (take it out of {judge.allowed.name})")
    gaps = uncovered(judge.table, transcripts.asked) if mode == PLAIN.name else []
    for gap in gaps:
        print(f"NOT ASKED {gap}")
    return len(unexplained) + len(unused) + len(gaps)


if __name__ == "__main__":
    sys.exit(main())
