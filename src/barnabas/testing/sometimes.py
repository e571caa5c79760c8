"""`sometimes`: rare states that a campaign of simulations must reach at least once.

A simulation finds nothing in a state that it never comes to. What injects faults, or looks on, says
`sometimes(state)` when a run is in one of these; each verdict carries what its seed reached, and a campaign
of `CAMPAIGN_SEEDS` in which one was never reached fails. Then the workload has to go there. Nothing of the
product calls this.

Two rare states are tried one by one elsewhere: a cleaner that dies between any two of its steps
(`tests/log/test_log_cleaner_crash.py`), and a start that dies at any change of the disk
(`tests/log/test_log_recovery.py`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

CAMPAIGN_SEEDS: Final = 200

RARE: Final[dict[str, tuple[str, ...]]] = {
    "nodes": (
        "a leader dies with five batches of one producer unanswered",
        "a broker is killed while it starts",
        "the power is cut while a segment is new",
        "a log rolls on a full disk",
    ),
    "replication": (
        "a leader dies with five batches of one producer unanswered",
        "a leader dies while its ISR is to shrink or grow",
        "the only replica in sync dies",
        "a replica leads whose log goes on beyond its high watermark",
        "a follower is cut below a snapshot",
        "a leader of the past goes on when another leads",
        "a replica dies that a reassignment adds",
        "a controller dies while topics are being deleted",
        "a session is lost while a LeaderAndIsr is under way",
    ),
    "groups": (
        "a coordinator moves while a rebalance is under way",
        "a coordinator dies while a rebalance is under way",
    ),
}
"""By model."""

_reached: Counter[str] = Counter()


def sometimes(state: str) -> None:
    """This run is in a rare state."""
    assert any(state in states for states in RARE.values()), f"{state!r} is on no list"
    _reached[state] += 1


def begin() -> None:
    """A run begins that has reached nothing."""
    _reached.clear()


def reached() -> dict[str, int]:
    """How often each state was reached since `begin`."""
    return dict(_reached)


def never_reached(model: str, runs: Iterable[Mapping[str, int]]) -> list[str]:
    """The rare states of a model that none of these runs came to."""
    found = {state for run in runs for state in run}
    return [state for state in RARE[model] if state not in found]
