"""What ``barnabas features`` does once its flags are understood (``FeatureCommand``)."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from barnabas.admin.features import FeatureMetadata, FeatureUpdate
from barnabas.cli.facts import print_facts
from barnabas.cli.feature_releases import METADATA, levels_of_release
from barnabas.cli.options import ToolError, admin_options, connected_admin
from barnabas.core.errors import BarnabasError
from barnabas.protocol.upgrade_type import UpgradeType

_SHORT_MAX: Final = 2**15 - 1
_RELEASES: Final = {
    "3.0": (1,),
    "3.1": (0,),
    "3.2": (0,),
    "3.3": (0, 1, 2, 3),
    "3.4": (0,),
    "3.5": (0, 1, 2),
    "3.6": (0, 1, 2),
    "3.7": (0, 1, 2, 3, 4),
    "3.8": (0,),
    "3.9": (0,),
    "4.0": (0, 1),
}
"""``MetadataVersion`` of 3.9:
the inter-broker versions of each release, in the order of their levels from 1 on.
"""
_VERSIONS: Final = [f"{release}-IV{number}" for release, numbers in _RELEASES.items() for number in numbers]
_LEVELS: Final = {version: level for level, version in enumerate(_VERSIONS, 1)}
_FIRST_SUPPORTED, _LAST_SUPPORTED = _LEVELS["3.3-IV0"], _LEVELS["3.9-IV0"]


def downgrade_type(*, unsafe: bool) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE


def level_updates(
    metadata: str | None, features: Sequence[str], upgrade_type: UpgradeType, release: str | None = None
) -> dict[str, FeatureUpdate]:
    """What ``--metadata`` and each ``--feature`` ask for, or ``--release-version``.

    Raises ToolError in the words of Kafka's script.
    """
    if release is not None:
        if metadata is not None or features:
            raise ToolError("Can not specify `release-version` with other feature flags.")
        up = upgrade_type is UpgradeType.UPGRADE
        levels = levels_of_release(release)
        return {name: FeatureUpdate(level, upgrade_type) for name, level in levels.items() if level or not up}
    wanted = [] if metadata is None else [(METADATA, _metadata_level(metadata))]
    updates: dict[str, FeatureUpdate] = {}
    for name, level in (*wanted, *map(name_and_level, features)):
        if level == 0 and upgrade_type is UpgradeType.UPGRADE:
            raise ToolError(
                "The upgradeType flag should be set to SAFE_DOWNGRADE or UNSAFE_DOWNGRADE when the provided"
                f" maxVersionLevel:{level} is < 1."
            )
        if level < 0:
            raise ToolError("Cannot specify a negative version level.")
        if name in updates:
            raise ToolError(f"Feature {name} was specified more than once.")
        updates[name] = FeatureUpdate(level, upgrade_type)
    return updates


def _metadata_level(text: str) -> int:
    """The level of ``3.9-IV0``; ``3.9``, or ``3.9.2``, stands for the last of its release."""
    release = ".".join(text.split(".")[:2])
    for version, level in reversed(_LEVELS.items()):
        if release in {version, version.partition("-")[0]}:
            return level
    supported = ", ".join(_VERSIONS[_FIRST_SUPPORTED - 1 : _LAST_SUPPORTED])
    raise ToolError(f"Unsupported metadata.version {text}. Supported metadata.version are {supported}")


def name_and_level(text: str) -> tuple[str, int]:
    """``NAME=LEVEL``. Raises ToolError."""
    failure = f"Can't parse feature=level string {text}: "
    name, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise ToolError(f"{failure}equals sign not found.")
    try:
        number = int(level)
    except ValueError:
        number = _SHORT_MAX + 1
    if not -_SHORT_MAX <= number + 1 <= _SHORT_MAX + 1:
        raise ToolError(f"{failure}unable to parse {level} as a short.")
    return name, number


def describe(bootstrap: str, command_config: Path | None, *, node_id: int | None, as_json: bool) -> None:
    """A line for each feature that a broker supports, or one object. Raises ToolError."""
    if node_id is not None and node_id < 0:
        raise ToolError(f"Invalid node id {node_id}: must be non-negative.")

    async def ask() -> FeatureMetadata:
        async with connected_admin(admin_options(command_config, bootstrap, "features")) as admin:
            return await admin.features.describe(broker=node_id)

    try:
        found = asyncio.run(ask())
    except BarnabasError as error:
        raise ToolError(str(error)) from error
    if as_json:
        rows = [
            {"name": name, "min_level": low, "max_level": high, "finalized_level": found.finalized.get(name)}
            for name, (low, high) in sorted(found.supported.items())
        ]
        print_facts({"finalized_epoch": found.finalized_epoch, "features": rows})
        return
    epoch = "-" if found.finalized_epoch is None else found.finalized_epoch
    for name, (lowest, highest) in sorted(found.supported.items()):
        low, high, final = (_shown(name, level) for level in (lowest, highest, found.finalized.get(name, 0)))
        click.echo(
            f"Feature: {name}\tSupportedMinVersion: {low}\tSupportedMaxVersion: {high}"
            f"\tFinalizedVersionLevel: {final}\tEpoch: {epoch}"
        )


def _shown(name: str, level: int) -> str:
    if name != METADATA:
        return str(level)
    return _VERSIONS[level - 1] if 0 < level <= len(_VERSIONS) else f"UNKNOWN {level}"


def update(
    verb: str,
    updates: Mapping[str, FeatureUpdate],
    bootstrap: str,
    command_config: Path | None,
    *,
    dry_run: bool,
) -> None:
    """Asks for the levels and prints what became of each feature. Raises ToolError where one was refused."""
    if not updates:
        raise ToolError(f"You must specify at least one feature to {verb}")
    if not all(name.strip() for name in updates):
        raise ToolError("Provided feature can not be empty.")

    async def ask() -> dict[str, BarnabasError | None]:
        async with connected_admin(admin_options(command_config, bootstrap, "features")) as admin:
            return await admin.features.try_update(updates, validate_only=dry_run)

    try:
        results = asyncio.run(ask())
    except BarnabasError as error:
        results = dict.fromkeys(updates, error)
    failures = 0
    for name in sorted(results):
        level = "" if verb == "disable" else f" to {updates[name].level}"
        refused = results[name]
        if refused is None:
            click.echo(f"{name} {'can be' if dry_run else 'was'} {verb}d{level}.")
        else:
            failures += 1
            click.echo(f"{'Can' if dry_run else 'Could'} not {verb} {name}{level}. {refused}")
    if failures:
        raise ToolError(f"{failures} out of {len(updates)} operation(s) failed.")
