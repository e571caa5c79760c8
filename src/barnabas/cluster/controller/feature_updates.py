"""Features go to another level (``FeatureControlManager.updateFeatures``, KIP-584 and KIP-778).

All updates of a request are made, or none. Kafka keeps levels in records of its controllers' log; here they
are in /feature, where Kafka 3.9 had them. A level of 0 stays there as 0: a cluster whose /feature has no
level at all is one that was made before there were levels, and gets the highest ones.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.cluster.controller.term import Term
from barnabas.cluster.metadata.features import Levels, Range
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import SetData
from barnabas.cluster.store.unreadable import readable
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.pending import Steps, steps
from barnabas.protocol.upgrade_type import UpgradeType


class FeatureUpdateItem(NamedTuple):
    """A level that is asked for; `upgrade_type` is an `UpgradeType`, or what a client gave for one."""

    name: str
    level: int
    upgrade_type: int


@steps
def process_update_features(
    term: Term, updates: Sequence[FeatureUpdateItem], *, validate_only: bool
) -> Steps[int]:
    """The epoch of the levels from now on. Raises INVALID_UPDATE_VERSION."""
    data, stat = yield term.store.store.get(znodes.FEATURE)
    levels = readable(term.store.store, znodes.FEATURE, znodes.decode_features, data)
    if levels is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{znodes.FEATURE} is unreadable")
    changed = updated_levels(levels, updates, term.config.features, term.config.broker_id)
    if validate_only or changed == levels:
        return int(stat.version)
    written = yield term.store.write(SetData(znodes.FEATURE, znodes.encode_feature(changed), stat.version))
    return int(written[0].version)


def updated_levels(
    levels: Levels, updates: Sequence[FeatureUpdateItem], supported: Mapping[str, Range], controller_id: int
) -> dict[str, int]:
    """The levels after the updates; of two updates of one feature the last counts. Raises
    INVALID_UPDATE_VERSION for the first that cannot be.
    """
    changed = dict(levels)
    for update in {each.name: each for each in updates}.values():
        refusal = _refusal(levels, update, supported, controller_id)
        if refusal is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: Invalid update"
                f" version {update.level} for feature {update.name}. {refusal}",
            )
        changed[update.name] = update.level
    return changed


def _refusal(
    levels: Levels, update: FeatureUpdateItem, supported: Mapping[str, Range], controller_id: int
) -> str | None:
    """``updateFeature``: why a feature cannot have this level."""
    name, level, upgrade_type = update
    current = levels.get(name, 0)
    if upgrade_type not in list(UpgradeType):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    # A broker of later times may have left one here that nobody knows now: that one may be taken away.
    if name not in supported and not (level == 0 and name in levels):
        if level == 0:
            return f"Feature {name} not found."
        return f"Local controller {controller_id} does not support this feature."
    if name in supported and level > supported[name][1]:
        low, high = supported[name]
        return f"Local controller {controller_id} only supports versions {low}-{high}"
    if level < current and upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
            " unsafe downgrade."
        )
    if level > current and upgrade_type != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
