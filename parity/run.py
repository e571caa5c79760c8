"""Runs the scenarios against both sides."""

import sys
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from parity import allowed
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
    """The transcripts of all of a judge's scenarios whose name has the word `only` in it. The sides are asked
    at the same time: both spend most of it waiting.
    """
    known = allowed.entries(judge.allowed, mode.name)
    with judge.sides(folder, mode) as (theirs, ours), ThreadPoolExecutor(2) as threads:
        asked = [
            threads.submit(_play_all, judge, only, theirs, partial(allowed.never_answers, known)),
            threads.submit(_play_all, judge, only, ours, lambda _where: False),
        ]
        their_worlds, our_worlds = (each.result() for each in asked)
    return Transcripts(
        [step for world in their_worlds for step in world.steps],
        [step for world in our_worlds for step in world.steps],
        set().union(*(world.asked for world in (*their_worlds, *our_worlds))),
    )


def _play_all(judge: Judge, only: str, side: Side, never_answers: Callable[[str], bool]) -> list[World]:
    worlds = []
    for name, scenario in judge.scenarios.items():
        if only in name:
            started = time.monotonic()
            world = World(side, Normalizer(side.words, refused=side.mode.user == NOBODY), name, never_answers)
            _play(world, scenario)
            took = time.monotonic() - started
            print(f"{side.name}: {name}, {len(world.steps)} answers, {took:.1f} s", file=sys.stderr)
            worlds.append(world)
    return worlds


def _play(world: World, scenario: Callable[[World], None]) -> None:
    try:
        scenario(world)
    except Exception as error:
        if world.side.mode.user == NOBODY:
            # Who is refused everything has nothing to go on with.
            world.ended(error)
            return
        error.add_note(f"in {world!r}")
        raise
    finally:
        world.close()


def uncovered(table: Table, asked: Collection[tuple[int, int]]) -> list[str]:
    """The APIs that Barnabas shows its clients and nobody asked at their lowest or their highest version."""
    return [
        f"{api.key.name} v{version}"
        for api in table.values()
        for version in dict.fromkeys((api.min_version, api.max_version))
        if (api.key, version) not in asked
    ]
