"""``python -m barnabas.testing.simulate``: runs seeds, says what they found, and replays one.

Examples::

    python -m barnabas.testing.simulate --seeds 200          seeds 0 to 199 on all cores
    python -m barnabas.testing.simulate --seed 17 --trace t  one seed, every event of it in the file t
    python -m barnabas.testing.simulate replication          the model of replication: leaders, followers,
    controllers
    python -m barnabas.testing.simulate transactions         the same with transactions: coordinators, markers

From 200 seeds on a campaign must reach every rare state of its model (`barnabas.testing.sometimes`).
"""

import argparse
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from barnabas.core.processors import cores
from barnabas.node.offload import end_with_the_parent
from barnabas.testing import sometimes

SECONDS: Final = 15.0
"""Virtual seconds of load in a scenario, by default."""
REPLICATION_SECONDS: Final = 8.0
"""The same for the model of replication."""
TRANSACTIONS_SECONDS: Final = 4.0
"""The same for the model of transactions."""


@dataclass(slots=True)
class SeedVerdict:
    """One seed's outcome, as plain values."""

    seed: int
    command: str
    summary: str
    anomalies: list[str]
    digest: str
    virtual_s: float
    processor_s: float = 0.0
    reached: dict[str, int] = field(default_factory=dict)
    """The rare states that it came to, and how often."""

    def __str__(self) -> str:
        """What to show of it: one line, and if it failed, why and how to see it again."""
        shown = [f"  {anomaly}" for anomaly in self.anomalies[:10]]
        return "\n".join([self.summary, *shown, *([f"  replay: {self.command}"] if shown else ())])


def run_seed(seed: int, seconds: float = SECONDS, trace: str | None = None) -> SeedVerdict:
    """Runs one history of nodes on simulated sockets and disks."""
    from barnabas.testing.simulation.scenario import Scenario

    return run_model("python -m barnabas.testing.simulate", Scenario, seed, seconds, trace)


def run_replication_seed(
    seed: int, seconds: float = REPLICATION_SECONDS, trace: str | None = None
) -> SeedVerdict:
    """Runs one history of the model of replication."""
    from barnabas.testing.replication.scenario import ReplicationScenario

    return run_model(
        "python -m barnabas.testing.simulate replication", ReplicationScenario, seed, seconds, trace
    )


def run_transactions_seed(
    seed: int, seconds: float = TRANSACTIONS_SECONDS, trace: str | None = None
) -> SeedVerdict:
    """Runs one history of transactions."""
    from barnabas.testing.transactions.scenario import TransactionScenario

    return run_model(
        "python -m barnabas.testing.simulate transactions", TransactionScenario, seed, seconds, trace
    )


def run_model(
    program: str, model: Callable[..., Any], seed: int, seconds: float, trace: str | None
) -> SeedVerdict:
    """Runs one history of a model. A crash of the model itself is an anomaly too, so that its seed is named.
    `program` replays seeds.
    """
    command = f"{program} --seed {seed} --seconds {seconds:g}"
    with Path(trace).open("w", encoding="utf-8") if trace else nullcontext() as sink:
        scenario = model(seed, seconds, sink)
        try:
            report = scenario.run()
        except Exception:
            now_s = scenario.trace.time_s()
            problem = [*traceback.format_exc().splitlines()[-12:], "after:", *scenario.trace.last]
            summary = f"seed {seed}: the model ended at {now_s:.3f} s"
            return SeedVerdict(seed, command, summary, problem[:40], scenario.trace.digest, now_s)
    return SeedVerdict(
        seed, command, str(report), list(map(str, report.anomalies)), report.digest, report.virtual_s
    )


RUNS: Final[dict[str, tuple[Callable[..., SeedVerdict], float]]] = {
    "nodes": (run_seed, SECONDS),
    "replication": (run_replication_seed, REPLICATION_SECONDS),
    "transactions": (run_transactions_seed, TRANSACTIONS_SECONDS),
}
"""What runs a seed of each model, and its virtual seconds of load."""


def _measured(
    run: Callable[..., SeedVerdict], seed: int, seconds: float, trace: str | None = None
) -> SeedVerdict:
    """Runs a seed, and notes what it cost and which rare states it came to."""
    sometimes.begin()
    began_s = time.process_time()
    verdict = run(seed, seconds, trace)
    verdict.processor_s = time.process_time() - began_s
    verdict.reached = sometimes.reached()
    return verdict


def run_seeds(
    seeds: Sequence[int],
    seconds: float = SECONDS,
    processes: int | None = None,
    run: Callable[..., SeedVerdict] = run_seed,
) -> Iterator[SeedVerdict]:
    """Runs scenarios side by side, one process a core; their verdicts in the order of the seeds."""
    with ProcessPoolExecutor(
        processes or cores(),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=end_with_the_parent,
    ) as pool:
        yield from pool.map(partial(_measured, run, seconds=seconds), seeds, chunksize=4)


def main() -> int:
    """The command; its exit code is 1 if any seed found something."""
    parser = argument_parser("python -m barnabas.testing.simulate", __doc__)
    parser.add_argument(
        "what",
        nargs="?",
        choices=list(RUNS),
        default="nodes",
        help="whole nodes, or the model of replication, or of transactions over it",
    )
    given = parser.parse_args()
    return run_command(given, given.what, *RUNS[given.what])


def argument_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """The options of a command that runs seeds."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--seed", type=int, help="run this one seed, here")
    parser.add_argument("--seeds", type=int, default=200, help="run so many seeds (default: 200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default: 0)")
    parser.add_argument("--processes", type=int, help="side by side (default: one a core)")
    parser.add_argument("--seconds", type=float, help="virtual seconds of load in each")
    parser.add_argument("--trace", metavar="FILE", help="with --seed: write every event to this file")
    parser.add_argument("--verbose", action="store_true", help="a line for each seed, not only for failures")
    return parser


def run_command(
    given: argparse.Namespace, model: str, run: Callable[..., SeedVerdict], seconds: float
) -> int:
    """Does what the options say, and prints the verdicts; the exit code.

    `model` names the list of rare states.
    """
    seconds = given.seconds or seconds
    if given.seed is not None:
        verdicts = iter([_measured(run, given.seed, seconds, given.trace)])
    else:
        verdicts = run_seeds(range(given.first, given.first + given.seeds), seconds, given.processes, run)
    return _show(verdicts, model, verbose=given.verbose or given.seed is not None)


def _show(verdicts: Iterator[SeedVerdict], model: str, *, verbose: bool) -> int:
    count, failed, virtual_s, processor_s = 0, 0, 0.0, 0.0
    reached: Counter[str] = Counter()
    for verdict in verdicts:
        count += 1
        failed += bool(verdict.anomalies)
        virtual_s += verdict.virtual_s
        processor_s += verdict.processor_s
        reached.update(verdict.reached)
        if verbose or verdict.anomalies:
            sys.stdout.write(f"{verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(
        f"{count} seeds, {failed} failed, {virtual_s / 3600:.2f} simulated hours"
        f" in {processor_s / 3600:.3f} processor hours\n"
    )
    for state in sometimes.RARE[model]:
        sys.stdout.write(f"{reached[state]:7} times: {state}\n")
    missed = count >= sometimes.CAMPAIGN_SEEDS and bool(sometimes.never_reached(model, [reached]))
    if missed:
        sys.stdout.write("A rare state was never reached: the workload has to go there.\n")
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
