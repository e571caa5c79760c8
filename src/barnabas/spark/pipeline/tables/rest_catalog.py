"""A catalog of Iceberg behind HTTP, which PyIceberg would wait for as long as it is silent."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from requests import Session

SILENT_S: Final = 60
"""How long a catalog may be silent."""


def bound_catalogs() -> None:
    """Has PyIceberg open catalogs behind HTTP with a time-out, whichever way they are configured."""
    AVAILABLE_CATALOGS[CatalogType.REST] = _opened


def _opened(name: str, properties: Mapping[str, Any]) -> Catalog:
    return _BoundedCatalog(name, **properties)


class _BoundedCatalog(RestCatalog):  # type: ignore[misc]
    """PyIceberg gives its requests no time-out and has no property for one."""

    def _create_session(self) -> Session:
        return _bounded(super()._create_session())

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        # It asks for a token before the session is handed out.
        return super()._create_legacy_oauth2_auth_manager(_bounded(session))


def _bounded(session: Session) -> Session:
    session.request = partial(Session.request, session, timeout=SILENT_S)  # type: ignore[method-assign]
    return session
