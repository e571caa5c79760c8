"""Who may do what with which znode, under ``zookeeper.set.acl`` (``ZkData.defaultAcls``).

The client that made a znode may do everything with it: under its name that is every broker, as all of them
log in as the same user. Everybody else may read, but not what has credentials.
"""

from typing import Final

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from barnabas.cluster.store import acl_znodes, token_znodes, znodes

OLD_CONSUMERS: Final = "/consumers"
"""Open: consumers before Kafka 0.9 write below it."""

SECURE_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.ISR_CHANGES,
    znodes.PRODUCER_ID_BLOCK,
    znodes.LOG_DIR_EVENTS,
    znodes.ancestors(token_znodes.TOKENS)[-1],
    "/kafka-acl-extended",
    "/migration",
    znodes.FEATURE,
    *(
        path
        for pair in zip(acl_znodes.ROOTS.values(), acl_znodes.NOTICES.values(), strict=True)
        for path in pair
    ),
)
"""What there is of Kafka's, outermost paths (``ZkData.SecureRootPaths``)."""

_SENSITIVE: Final = ("/config/users", "/config/brokers", token_znodes.TOKENS)
"""What has credentials (``ZkData.SensitiveRootPaths``)."""


def default_acls(path: str, *, secure: bool) -> list[ACL]:
    """The ACL that a znode is made with; the path below the chroot."""
    if not secure or path == OLD_CONSUMERS:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(_SENSITIVE):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
