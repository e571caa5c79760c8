"""What has a coordinator (``FindCoordinatorRequest.CoordinatorType``)."""

from enum import IntEnum


class CoordinatorType(IntEnum):
    """What the key of a FindCoordinator request names."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2
