"""``barnabas features``: kafka-features.sh."""

from pathlib import Path

import click

from barnabas.cli.bootstrap import bootstrap_option
from barnabas.cli.facts import json_option
from barnabas.cli.options import ToolError, api_timeout_option, command_config_option

_metadata = click.option(
    "--metadata", metavar="VERSION", help="The metadata.version to have, such as 3.9-IV0."
)
_levels = click.option(
    "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="A feature's level; repeatable."
)
_release = click.option(
    "--release-version",
    "release",
    metavar="VERSION",
    help="The levels that a release of Kafka has, such as 4.0.",
)
_unsafe = click.option("--unsafe", is_flag=True, help="Go down even where metadata may be lost.")
_dry_run = click.option("--dry-run", is_flag=True, help="Check it, and change nothing.")


@click.group()
@bootstrap_option(instead=["bootstrap_controller"], changes=("upgrade", "downgrade", "disable"))
@api_timeout_option()
@click.option(
    "--bootstrap-controller", metavar="HOST:PORT", help="Controllers of KRaft; this client asks brokers only."
)
@command_config_option
@click.pass_context
def features(
    ctx: click.Context,
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: Path | None,
) -> None:
    """Show and change the feature levels of a cluster, with the lines of kafka-features.sh.

    A cluster on the embedded store has group.version and transaction.version; one with ZooKeeper has no
    levels, and refuses every change.

    \b
    Examples:
      barnabas features --bootstrap-server 127.0.0.1:9092 describe
    """
    if (bootstrap_server is None) == (bootstrap_controller is None):
        raise click.UsageError("exactly one of --bootstrap-server, --bootstrap-controller is required")
    if bootstrap_server is None:
        raise click.UsageError(
            "--bootstrap-controller: this client asks brokers only; give --bootstrap-server"
        )
    ctx.obj = (bootstrap_server, command_config)


@features.command("describe")
@click.option("--node-id", type=int, metavar="ID", help="The broker to ask; any, where it is not given.")
@json_option
@click.pass_obj
def describe(where: tuple[str, Path | None], node_id: int | None, as_json: bool) -> None:
    """Print each feature with its supported levels and the finalized one."""
    from barnabas.cli import feature_service

    feature_service.describe(*where, node_id=node_id, as_json=as_json)


@features.command("upgrade")
@_metadata
@_levels
@_release
@_dry_run
@click.pass_obj
def upgrade(
    where: tuple[str, Path | None],
    metadata: str | None,
    features: tuple[str, ...],
    release: str | None,
    dry_run: bool,
) -> None:
    """Raise levels."""
    from barnabas.cli import feature_service
    from barnabas.protocol.upgrade_type import UpgradeType

    updates = feature_service.level_updates(metadata, features, UpgradeType.UPGRADE, release)
    feature_service.update("upgrade", updates, *where, dry_run=dry_run)


@features.command("downgrade")
@_metadata
@_levels
@_release
@_unsafe
@_dry_run
@click.pass_obj
def downgrade(
    where: tuple[str, Path | None],
    metadata: str | None,
    features: tuple[str, ...],
    release: str | None,
    unsafe: bool,
    dry_run: bool,
) -> None:
    """Lower levels."""
    from barnabas.cli import feature_service

    kind = feature_service.downgrade_type(unsafe=unsafe)
    updates = feature_service.level_updates(metadata, features, kind, release)
    feature_service.update("downgrade", updates, *where, dry_run=dry_run)


@features.command("disable")
@click.option("--feature", "names", multiple=True, metavar="NAME", help="A feature; repeatable.")
@_unsafe
@_dry_run
@click.pass_obj
def disable(where: tuple[str, Path | None], names: tuple[str, ...], unsafe: bool, dry_run: bool) -> None:
    """Take features away; the same as a downgrade to level 0."""
    from barnabas.admin.features import FeatureUpdate
    from barnabas.cli import feature_service

    update = FeatureUpdate(0, feature_service.downgrade_type(unsafe=unsafe))
    updates = dict.fromkeys(names, update)
    for name in names:
        if names.count(name) > 1:
            raise ToolError(f"Feature {name} was specified more than once.")
    feature_service.update("disable", updates, *where, dry_run=dry_run)


@features.command("version-mapping")
@click.option(
    "--release-version", "release", metavar="VERSION", help="Such as 4.0; the latest of 4.3 by default."
)
def version_mapping(release: str | None) -> None:
    """Print the level that each feature has in a release of Kafka."""
    from barnabas.cli.feature_releases import mapping_lines

    for line in mapping_lines(release):
        click.echo(line)


@features.command("feature-dependencies")
@click.option(
    "--feature",
    "wanted",
    multiple=True,
    required=True,
    metavar="NAME=LEVEL",
    help="A feature's level; repeatable.",
)
def feature_dependencies(wanted: tuple[str, ...]) -> None:
    """Print what a feature's level needs of other features."""
    from barnabas.cli.feature_releases import dependency_lines
    from barnabas.cli.feature_service import name_and_level

    for line in dependency_lines(map(name_and_level, wanted)):
        click.echo(line)
