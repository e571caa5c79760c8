"""Features of the cluster, which one with ZooKeeper has none of."""

import time
from typing import Final

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from parity.world import World

PATIENCE_S: Final = 5
"""For what a broker hears later than it was decided."""


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


def features_of_4(world: World) -> None:
    """Updates of features that the cluster has, each put back to the highest level at the end."""
    kinds = {-1: (1, 4), 0: (1, 2, 3), 1: (1, 2), 2: (1, 3), 3: (0, 1, 2)}
    for name in ("transaction.version", "group.version", "a"):
        for level, kind in ((level, kind) for level, of_level in kinds.items() for kind in of_level):
            update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            asked = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
            world.ask(f"{name} to {level} by {kind}, only checked", asked, 1, 2)
    for downgrade in (True, False):
        down = FeatureUpdateKey(
            feature="transaction.version", max_version_level=-1, allow_downgrade=downgrade
        )
        world.ask(f"to -1, downgrade {downgrade}", UpdateFeaturesRequest(feature_updates=[down]), 0)
    nameless = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(max_version_level=1)])
    world.ask("without name", nameless, 0, 1, 2)
    world.ask("nothing", UpdateFeaturesRequest(), 0, 1, 2)

    def several(*wanted: tuple[str, int, int], check: bool = False) -> UpdateFeaturesRequest:
        updates = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in wanted
        ]
        return UpdateFeaturesRequest(feature_updates=updates, validate_only=check)

    def told() -> dict[str, int]:
        request = ApiVersionsRequest(client_software_name="parity", client_software_version="1")
        return {each.name: each.max_version_level for each in world.prepare(request, 4).finalized_features}

    def finalized(what: str, transactions: int | None) -> None:
        # Kafka's broker learns a moment later what its controller has decided.
        deadline = time.monotonic() + PATIENCE_S
        while (names := told()).get("transaction.version") != transactions and time.monotonic() < deadline:
            time.sleep(0.02)
        world.in_order(
            what, [f"{name} {names.get(name)}" for name in ("group.version", "transaction.version")]
        )

    world.ask("one of two cannot be", several(("transaction.version", 1, 2), ("a", 1, 1)), 1, 2)
    finalized("after one of two", 2)
    world.ask("two of one name", several(("transaction.version", 1, 2), ("transaction.version", 0, 2)), 1, 2)
    world.ask("both", several(("transaction.version", 1, 2), ("group.version", 0, 3)), 1)
    finalized("after both", 1)
    world.ask("the same again", several(("transaction.version", 1, 1), ("group.version", 0, 3)), 2)
    world.ask("taken away", several(("transaction.version", 0, 2)), 2)
    finalized("after it was taken away", None)
    world.ask("up again", several(("transaction.version", 2, 1), ("group.version", 1, 1)), 2)
    finalized("in the end", 2)
