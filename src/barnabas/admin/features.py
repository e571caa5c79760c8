"""``admin.features``: which features brokers support, and the levels that the cluster has agreed on
(KIP-584).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from barnabas import __version__
from barnabas.admin.context import AdminContext, error_of, whole_ms
from barnabas.client import named
from barnabas.client.keyed_call import raise_first
from barnabas.core.errors import BarnabasError
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.upgrade_type import UpgradeType

_SOFTWARE: Final = "barnabas"


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """The level that a feature is to have; 0 takes the feature away."""

    level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """Features by name: the lowest and the highest supported level, the finalized one, and the epoch of
    these.
    """

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    finalized_epoch: int | None


class Features:
    """Feature levels. Clusters with ZooKeeper have none that could be changed."""

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(
        self, *, broker: int | None = None, timeout_ms: float | None = None
    ) -> FeatureMetadata:
        """What a broker supports, and the finalized levels it knows; any broker, where none is named.

        Raises KafkaError, ClientTimeoutError, and BarnabasError where no broker has the id.
        """
        cluster = self._context.cluster
        if broker is not None:
            named.one(broker, int, "a broker is named by int")
            if broker not in cluster.metadata.brokers:
                await cluster.refresh()
            if broker not in cluster.metadata.brokers:
                ids = ", ".join(map(str, sorted(cluster.metadata.brokers)))
                raise BarnabasError(f"no broker has the id {broker}: there are {ids}")
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__)
        response = await self._context.send_to(
            broker, request, ApiVersionsResponse, self._context.deadline(timeout_ms)
        )
        error = error_of(response.error_code)
        if error is not None:
            raise error
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            supported={
                each.name: (each.min_version, each.max_version) for each in response.supported_features
            },
            finalized={each.name: each.max_version_level for each in response.finalized_features},
            finalized_epoch=None if epoch < 0 else epoch,
        )

    async def update(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Sets levels, or only checks whether they could be set. Raises the first error of a feature."""
        raise_first(await self.try_update(updates, validate_only=validate_only, timeout_ms=timeout_ms))

    async def try_update(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, BarnabasError | None]:
        """As `update`, with an error per feature."""
        deadline = self._context.deadline(timeout_ms)
        updates = named.by_name(updates, "updates of features")
        named.several(updates.values(), FeatureUpdate, "an update of a feature is FeatureUpdate(level)")
        response = await self._context.send_to_controller(
            UpdateFeaturesRequest(
                timeout_ms=whole_ms(deadline.left_s * 1000),
                feature_updates=[
                    FeatureUpdateKey(
                        feature=name, max_version_level=update.level, upgrade_type=update.upgrade_type
                    )
                    for name, update in updates.items()
                ],
                validate_only=validate_only,
            ),
            UpdateFeaturesResponse,
            deadline,
            lambda answer: (answer.error_code,),
        )
        error = error_of(response.error_code, response.error_message)
        if error is not None:
            return dict.fromkeys(updates, error)
        results = {each.feature: error_of(each.error_code, each.error_message) for each in response.results}
        return {name: results.get(name) for name in updates}
