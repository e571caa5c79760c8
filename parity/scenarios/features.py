"""Features of the cluster, which one with ZooKeeper has none of."""

from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from parity.world import World


def update_features(world: World) -> None:
    """Updates of every kind."""
    for level in (-1, 0, 1, 20):
        plain = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
        world.ask(f"to {level}", UpdateFeaturesRequest(feature_updates=[plain]))
        down = FeatureUpdateKey(feature="metadata.version", max_version_level=level, allow_downgrade=True)
        world.ask(f"down to {level}", UpdateFeaturesRequest(feature_updates=[down]), 0)
        for kind in (-1, 0, 2, 3, 4):
            typed = FeatureUpdateKey(feature="a", max_version_level=level, upgrade_type=kind)
            world.ask(f"to {level} by {kind}", UpdateFeaturesRequest(feature_updates=[typed]), 1)
    world.ask("without name", UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(max_version_level=1)]))
    world.ask("nothing", UpdateFeaturesRequest())
    several = [FeatureUpdateKey(feature=name, max_version_level=1) for name in ("a", "b")]
    world.ask("several", UpdateFeaturesRequest(feature_updates=several, validate_only=True), 1)
    world.ask("several", UpdateFeaturesRequest(feature_updates=several), 0)
