"""Listing and removing znodes where one that is not there is no error."""

from typing import Final

from barnabas.cluster.store.contract import MetadataStore, NoNodeError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps

_events: Final = EventLog("cluster.znodes")


@steps
def children_if_there(store: MetadataStore, path: str) -> Steps[list[str]]:
    """The names below a path; none where it does not exist."""
    try:
        names: list[str] = yield store.children(path)
    except NoNodeError:
        return []
    return names


@steps
def delete_if_there(store: MetadataStore, path: str) -> Steps[None]:
    """Removes a znode that another broker may remove at the same time."""
    try:
        yield store.delete(path)
    except NoNodeError:
        _events.debug("znode_removed_by_another", path=path)
