"""Which way the level of a feature may go (KIP-778)."""

from enum import IntEnum


class UpgradeType(IntEnum):
    """Numbered as on the wire (``FeatureUpdate.UpgradeType``)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """Metadata may be lost."""
