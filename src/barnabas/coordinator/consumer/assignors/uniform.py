"""The ``uniform`` assignor: as even and as sticky as it can be (``UniformAssignor``)."""

from barnabas.coordinator.consumer.assignment import Assignment
from barnabas.coordinator.consumer.assignors.heterogeneous import assign_heterogeneous
from barnabas.coordinator.consumer.assignors.homogeneous import assign_homogeneous
from barnabas.coordinator.consumer.assignors.spec import GroupSpec


def assign_uniformly(group: GroupSpec) -> dict[str, Assignment]:
    """Shares all partitions of all topics; nobody has two more than another who could have them."""
    if not group.members:
        return {}
    return assign_homogeneous(group) if group.homogeneous else assign_heterogeneous(group)
