"""What tests of Barnabas and of programs on it need: a Kafka in process with faults to plant (`Kafka`,
`Fault`), simulated disks, clocks, whole simulated clusters.

Names are imported when they are first used: a pytest that loads the plug-in and uses none of it pays nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.kafka.cluster import Kafka
    from barnabas.testing.kafka.fault import Fault
    from barnabas.testing.kafka.full_disk import FullDisk
    from barnabas.testing.kafka.planted import FaultTimeoutError, PlantedFault

_HOMES = {
    "Fault": "barnabas.testing.kafka.fault",
    "FaultTimeoutError": "barnabas.testing.kafka.planted",
    "FullDisk": "barnabas.testing.kafka.full_disk",
    "Kafka": "barnabas.testing.kafka.cluster",
    "PlantedFault": "barnabas.testing.kafka.planted",
}

__all__ = ["Fault", "FaultTimeoutError", "FullDisk", "Kafka", "PlantedFault"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
