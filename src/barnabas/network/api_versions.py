"""Which versions a node and this client have in common (``NodeApiVersions``)."""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Request
from barnabas.protocol.messages.api_versions import ApiVersion, FinalizedFeatureKey

SOFTWARE_NAME: Final = "barnabas"
BROKER_SOFTWARE_NAME: Final = "barnabas-broker"
"""What a client, and a broker as a client of brokers, say that they are (KIP-511)."""

NO_FEATURES: Final = -1
"""The epoch of the features of a node that knows of none."""

CLIENT_THROTTLES_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.DELETE_RECORDS: 1,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.ALTER_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.DELETE_GROUPS: 1,
    ApiKey.ELECT_LEADERS: 0,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 0,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0,
    ApiKey.OFFSET_DELETE: 0,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: 0,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}
"""From which version on the client waits by itself after a throttled response (KIP-219,
``AbstractResponse.shouldClientThrottle``); the broker has answered at once and mutes the connection."""


def client_throttles(api: ApiKey, version: int) -> bool:
    """Whether throttle_time_ms of this response is for the client to obey."""
    return version >= CLIENT_THROTTLES_FROM.get(api, version + 1)


class NodeApiVersions:
    """What one node serves, and the levels of features that it knows (KIP-584)."""

    __slots__ = ("_ranges", "finalized", "finalized_epoch")

    def __init__(
        self,
        api_keys: Iterable[ApiVersion],
        finalized: Iterable[FinalizedFeatureKey] = (),
        finalized_epoch: int = NO_FEATURES,
    ) -> None:
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in api_keys}
        self.finalized = {each.name: each.max_version_level for each in finalized}
        self.finalized_epoch = finalized_epoch
        """Grows with each change of them; `NO_FEATURES` where the node tells none."""

    def range_of(self, api: ApiKey) -> tuple[int, int]:
        """The node's lowest and highest version.
        Raises UnsupportedVersionError if it does not serve the API.
        """
        if api not in self._ranges:
            raise UnsupportedVersionError(f"The node does not support {api.name}")
        return self._ranges[api]

    def latest_usable(self, request: type[Request], low: int, high: int) -> int:
        """The highest version that both sides know, within [low, high]. Raises UnsupportedVersionError."""
        assert request.api is not None, "only requests have versions"
        oldest, newest = self.range_of(request.api)
        if max(low, oldest) > min(high, newest):
            raise UnsupportedVersionError(
                f"The node does not support {request.api.name} with version in range [{low},{high}]. "
                f"The supported range is [{oldest},{newest}]."
            )
        return min(high, newest)

    def __repr__(self) -> str:
        return f"<NodeApiVersions {len(self._ranges)} APIs>"
