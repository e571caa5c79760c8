"""Runs the scenarios against both sides."""

import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from parity.compare import Step
from parity.judges import Judge
from parity.modes import NOBODY, PLAIN, Mode
from parity.normal import Normalizer
from parity.sides import Side, Table
from parity.world import World


@dataclass
class Transcripts:
    """What both sides answered, and what they were asked."""

    theirs: list[Step] = field(default_factory=list)
    ours: list[Step] = field(default_factory=list)
    asked: set[tuple[int, int]] = field(default_factory=set)


def run(judge: Judge, folder: Path, only: str = "", mode: Mode = PLAIN) -> Transcripts:
    """The transcripts of all of a judge's scenarios whose name has the word `only` in it."""
    transcripts = Transcripts()
    with judge.sides(folder, mode) as (theirs, ours):
        for side, steps in ((theirs, transcripts.theirs), (ours, transcripts.ours)):
            for name, scenario in judge.scenarios.items():
                if only in name:
                    started = time.monotonic()
                    world = _play(side, name, scenario)
                    took = time.monotonic() - started
                    print(f"{side.name}: {name}, {len(world.steps)} answers, {took:.1f} s", file=sys.stderr)
                    steps += world.steps
                    transcripts.asked |= world.asked
    return transcripts


def _play(side: Side, name: str, scenario: Callable[[World], None]) -> World:
    world = World(side, Normalizer(side.words, refused=side.mode.user == NOBODY), name)
    try:
        scenario(world)
    except Exception as error:
        if side.mode.user == NOBODY:
            # Who is refused everything has nothing to go on with.
            world.ended(error)
            return world
        error.add_note(f"in scenario {name!r} on {side!r}")
        raise
    finally:
        world.close()
    return world


def uncovered(table: Table, asked: Collection[tuple[int, int]]) -> list[str]:
    """The APIs that Barnabas shows its clients and nobody asked at their lowest or their highest version."""
    return [
        f"{api.key.name} v{version}"
        for api in table.values()
        for version in dict.fromkeys((api.min_version, api.max_version))
        if (api.key, version) not in asked
    ]
