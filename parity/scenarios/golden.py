"""Requests that were recorded once, sent again as they were:
those of APIs that Barnabas serves, and nonsense.
"""

import json
from pathlib import Path
from typing import Final

from parity.scenarios.batches import batch
from parity.scenarios.producer_ids import producer_id
from parity.world import World

LINES: Final = Path(__file__).parents[2] / "tests" / "golden" / "wire.jsonl"


def golden_frames(world: World) -> None:
    """Each recorded request once; the topics that they ask for exist."""
    for topic in ("plain", "gz"):
        world.create(topic)
    world.create("t1", 3, cleanup_policy="compact")
    producer_id(world)
    world.append("plain", batch(b"one", b"two", b"three"))
    for number, line in enumerate(map(json.loads, LINES.read_text().splitlines())):
        api = world.table.get(line["api"])
        served = api is not None and api.supports(line["version"])
        if served or line["response_hex"] == "CLOSED" or "too high" in line["note"]:
            world.send(f"{number} {line['note']} / v{line['version']}", bytes.fromhex(line["request_hex"]))
