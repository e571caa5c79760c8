"""What the commands share that compare their rows in one go:
start the sides, compare, print, say whether all is met.
"""

import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from bench import options, report
from bench.mood import mood_meter
from bench.rounds import FULL, QUICK, Row
from bench.sides import Side, Trees, UnavailableError


def run(
    asked: Namespace,
    rows: Mapping[str, Row],
    started: Callable[[Path, Sequence[str], Trees], AbstractContextManager[Sequence[Side]]],
) -> int:
    """Compares the rows and sides that were `asked` for (`options.parser_of`); the command's exit code.

    `started` has the sides run, in a folder, from these places. 0 when every budget is met,
    1 otherwise, 2 when there is nothing to compare with.
    """
    chosen, sides = options.chosen_rows(asked.rows, rows), options.chosen_sides(asked.sides)
    folder = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
    try:
        with mood_meter() as meter, started(folder, sides, options.trees(asked)) as running:
            found = report.compare(chosen, running, QUICK if asked.quick else FULL, meter)
    except UnavailableError as missing:
        print(f"bench: nothing to compare with: {missing}", file=sys.stderr)
        return 2
    print(report.table(found), flush=True)
    return 0 if found.all_met else 1
