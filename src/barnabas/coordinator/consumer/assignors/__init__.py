"""The assignors of consumer groups: which member is to read which partition (``PartitionAssignor``)."""

from typing import Final

from barnabas.coordinator.consumer.assignors.range import assign_ranges
from barnabas.coordinator.consumer.assignors.spec import Assignor
from barnabas.coordinator.consumer.assignors.uniform import assign_uniformly
from barnabas.core.coordinator_config import RANGE_ASSIGNOR, UNIFORM_ASSIGNOR

UNIFORM: Final = "uniform"
RANGE: Final = "range"

ASSIGNORS: Final[dict[str, Assignor]] = {UNIFORM: assign_uniformly, RANGE: assign_ranges}
_NAMES: Final = {UNIFORM_ASSIGNOR: UNIFORM, RANGE_ASSIGNOR: RANGE}


def assignor_name(configured: str) -> str:
    """What ``group.consumer.assignors`` calls an assignor, by its name or Kafka's class."""
    return _NAMES.get(configured, configured)
