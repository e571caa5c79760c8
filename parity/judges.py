"""The Kafkas that ours is compared with: what each is asked, and which differences from it are meant."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parity.modes import Mode
from parity.scenarios import SCENARIOS, SCENARIOS_OF_4
from parity.sides import Side, Table, beside_kafka_3_9, beside_kafka_4_4, table_of
from parity.world import World

_FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Judge:
    """One genuine Kafka; ours stands beside it in the profile of its name."""

    name: str
    sides: Callable[[Path, Mode], AbstractContextManager[tuple[Side, Side]]]
    """Kafka's side and ours, ready, in a folder, in a mode."""
    scenarios: Mapping[str, Callable[[World], None]]
    allowed: Path
    """The differences that are meant."""

    @property
    def table(self) -> Table:
        """The APIs and versions that ours shows its clients in this profile."""
        return table_of(self.name)


JUDGES: Final[Mapping[str, Judge]] = {
    judge.name: judge
    for judge in (
        Judge("3.9", beside_kafka_3_9, SCENARIOS, _FOLDER / "allowed.toml"),
        Judge("4.4", beside_kafka_4_4, SCENARIOS_OF_4, _FOLDER / "allowed_4_4.toml"),
    )
}
