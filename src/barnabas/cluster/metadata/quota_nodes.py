"""Znodes of users, client ids and addresses go with their last setting
(``AdminZkClient.tryCleanQuotaNodes``).
"""

from typing import Final

from barnabas.cluster.store import znodes
from barnabas.cluster.store.absent import delete_if_there
from barnabas.cluster.store.contract import MetadataStore, NoNodeError, NotEmptyError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.pending import Steps, steps

WITH_QUOTAS: Final = frozenset(("users", "clients", "ips"))
"""The types of which a cluster may have very many: each user's, each client id's."""


@steps
def clean_quota_nodes(store: MetadataStore, entity_type: str, entity: str) -> Steps[bool]:
    """Removes the znode of an entity that has no settings any longer; of a user's client those above it too
    that are left without settings and without others below them.

    False where it stays: a user may have clients with quotas of their own.
    """
    path = znodes.config_path(entity_type, entity)
    if not (yield _remove(store, path)):
        return False
    if "/" in entity:
        clients = path.rpartition("/")[0]
        user = clients.rpartition("/")[0]
        if (yield _remove(store, clients)) and (yield _is_empty(store, user)):
            yield _remove(store, user)
    return True


@steps
def _remove(store: MetadataStore, path: str) -> Steps[bool]:
    """Whether the znode is not there any longer; it stays where something is below it."""
    try:
        yield delete_if_there(store, path)
    except NotEmptyError:
        return False
    return True


@steps
def _is_empty(store: MetadataStore, path: str) -> Steps[bool]:
    """Whether an entity has no settings; one that is unreadable may have some."""
    try:
        data, _ = yield store.get(path)
    except NoNodeError:
        return False
    return readable(store, path, znodes.decode_config, data) == {}
