"""Which leaders an election is about (``ElectionType``)."""

from enum import IntEnum


class ElectionType(IntEnum):
    """What ElectLeaders asks for, numbered as on the wire."""

    PREFERRED = 0
    """The first replica of each partition, where it is in sync."""
    UNCLEAN = 1
    """Any live replica for partitions without a leader; records may be lost."""
