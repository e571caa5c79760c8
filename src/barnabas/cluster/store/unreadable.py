"""`readable`: what a znode holds; or a line in the log that says why not, and what is done without it.

Every znode that a broker or a controller reads goes through here. A damaged one harms what it describes and
nothing else: the caller gets None, and does what the table below says for the path. Several parts of a broker
read the same znode, some of them often. They share the store, so the log names a znode once for all of them.
"""

from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from barnabas.cluster.store import token_znodes, znodes
from barnabas.cluster.store.contract import MetadataStore
from barnabas.cluster.store.payload import UnreadableZnodeError
from barnabas.core.eventlog import EventLog

_events: Final = EventLog("cluster.znodes")

P = ParamSpec("P")
T = TypeVar("T")

# What is done without a znode, by the beginning of its path; the first row that fits counts.
# fmt: off
_WITHOUT: Final = (
    (znodes.CLUSTER_ID, "the cluster id in meta.properties of the log directories counts"),
    (znodes.CONTROLLER_EPOCH,
        "the next controller takes an epoch far above those in the states of the partitions"),
    (znodes.CONTROLLER, "which broker is the controller is not known until the znode changes or goes"),
    (znodes.FEATURE, "the levels of features that were known before count, and the znode is left as it is"),
    (znodes.PRODUCER_ID_BLOCK, "the next block of producer ids begins far above all that were given out"),
    (f"{znodes.BROKER_IDS}/", "this broker gets no partition to lead or to follow until it registers again"),
    (f"{znodes.TOPICS}/", "this topic is held apart until the znode is mended; the others are served"),
    (f"{znodes.CONFIG_CHANGES}/", "this notice is passed over: what it is about is read by the next start"),
    ("/config/topics/",
        "the topic has the broker's defaults, and none of its records are deleted or compacted"),
    ("/config/", "none of its settings count until it is written again"),
    (znodes.REASSIGN_PARTITIONS, "it is removed, and no partition is reassigned"),
    (znodes.PREFERRED_REPLICA_ELECTION, "it is removed, and no leader is elected"),
    ("/kafka-acl-changes/",
        "this notice is passed over: the rules that it is about are read by the next start"),
    ("/kafka-acl-extended-changes/",
        "this notice is passed over: the rules that it is about are read by the next start"),
    ("/kafka-acl", "everything is denied to everyone but super users on this resource until it is mended"),
    (f"{token_znodes.CHANGES}/", "this notice is passed over: its token is read by the next start"),
    (f"{token_znodes.TOKENS}/", "nobody gets in with this token until the znode is mended"),
    (f"{znodes.ISR_CHANGES}/", "this notice is removed"),
    (f"{znodes.LOG_DIR_EVENTS}/", "this notice is removed"),
)
_STATE: Final = "the controller gives this partition no leader until the znode is mended and a broker starts"
# fmt: on

_reported: Final[WeakKeyDictionary[MetadataStore, dict[str, str]]] = WeakKeyDictionary()
"""Of each store, the znodes that the log has named, with what was wrong."""


def readable(
    store: MetadataStore, path: str, decode: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """What `decode` makes of a znode's data; None where that is unreadable."""
    try:
        value = decode(*args, **kwargs)
    except UnreadableZnodeError as error:
        report_unreadable(store, path, str(error))
        return None
    if _reported.get(store, {}).pop(path, None) is not None:
        _events.info("znode_readable_again", path=path)
    return value


def report_unreadable(store: MetadataStore, path: str, problem: str) -> None:
    """Writes the line about a znode, if it was not written yet."""
    reported = _reported.setdefault(store, {})
    if reported.get(path) != problem:
        reported[path] = problem
        _events.error("znode_unreadable", path=path, problem=problem, without_it=_without(path))


def _without(path: str) -> str:
    if path.startswith(f"{znodes.TOPICS}/") and path.endswith("/state"):
        return _STATE
    return next((done for beginning, done in _WITHOUT if path.startswith(beginning)), "it is passed over")
