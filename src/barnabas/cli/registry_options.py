"""The options that name a schema registry."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from barnabas.operations.schemas.source import SchemaSource

C = TypeVar("C", bound=Callable[..., Any])

_TIMEOUT_S: Final = 2.0
"""A page waits for it."""


def registry_options(command: C) -> C:
    """``--registry`` and ``--registry-login``."""
    login = click.option(
        "--registry-login",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file with USER:PASSWORD for --registry.",
    )
    url = click.option(
        "--registry", metavar="URL", help="A schema registry, to read values of Avro and others by."
    )
    return url(login(command))


def schema_source(registry: str | None, login: Path | None) -> "SchemaSource | None":
    """What reads by the registry's schemas, None where none was named. Raises ClickException."""
    from barnabas.operations.schemas.registry import RegistryClient
    from barnabas.operations.schemas.source import SchemaSource

    if registry is None:
        if login is not None:
            raise click.UsageError("--registry-login: name the registry with --registry")
        return None
    if not registry.startswith(("http://", "https://")) or "@" in registry:
        raise click.UsageError("--registry: it begins with http:// or https://, and has no password in it")
    user = password = ""
    if login is not None:
        try:
            user, colon, password = login.read_text(encoding="utf-8").rstrip("\n").partition(":")
        except (OSError, ValueError) as error:
            raise click.ClickException(f"--registry-login {login} cannot be read: {error}") from error
        if not colon or "\n" in password:
            raise click.ClickException(f"--registry-login {login}: it is one line, USER:PASSWORD")
    return SchemaSource(RegistryClient(registry.rstrip("/"), user, password, timeout_s=_TIMEOUT_S))
