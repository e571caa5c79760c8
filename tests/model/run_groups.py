"""Runs seeds of the model of groups, says what they found, and replays one.

python tests/model/run_groups.py --seeds 2000       seeds 0 to 1999 on all cores
python tests/model/run_groups.py --seed 17 --trace t  one seed, every event of it in the file t
"""

import sys

from group_model.scenario import Scenario

from barnabas.testing import simulate

PROGRAM = "python tests/model/run_groups.py"
SECONDS = 25.0
"""Virtual seconds of load in a history, by default."""


def run_seed(seed, seconds=SECONDS, trace=None):
    return simulate.run_model(PROGRAM, Scenario, seed, seconds, trace)


if __name__ == "__main__":
    given = simulate.argument_parser(PROGRAM, __doc__).parse_args()
    sys.exit(simulate.run_command(given, "groups", run_seed, SECONDS))
