"""UpdateFeatures (57), v0-2.

Behaviour: sets the levels of features, all of them or none. Only the controller answers, when it knows the
new levels itself. A cluster whose /feature a JVM broker of 3.9 may read has no features that could be
finalized: there every update is refused, with the reason of 3.9.
Versions:  v1 the kind of upgrade in place of a flag (KIP-778), and validate only · v2 one error for all.
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.cluster.controller.feature_updates import FeatureUpdateItem
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from barnabas.protocol.upgrade_type import UpgradeType

UPGRADE_TYPES_SINCE: Final = 1
ONE_ERROR_SINCE: Final = 2


def _failed(_request: UpdateFeaturesRequest, error: KafkaError, _version: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


@handles(ApiKey.UPDATE_FEATURES, versions=(0, 2), failed=_failed)
@sliced
def update_features(
    context: RequestContext, request: UpdateFeaturesRequest
) -> Sliced[UpdateFeaturesResponse]:
    context.require_cluster(Operation.ALTER)
    broker = context.broker
    if not broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    if not broker.features.kept:
        return (yield from _refused(request, context.version))
    updates = []
    for each in request.feature_updates:
        updates.append(
            FeatureUpdateItem(each.feature, each.max_version_level, _upgrade_type(each, context.version))
        )
        yield
    epoch = yield broker.controller.update_features(updates, validate_only=request.validate_only)
    # A client that asks this broker next finds the new levels.
    yield broker.features.reached(epoch)
    response = UpdateFeaturesResponse(error_message=None)
    if context.version < ONE_ERROR_SINCE:
        for update in updates:
            response.results.append(
                UpdatableFeatureResult(feature=update.name, error_message=ErrorCode.NONE.name)
            )
            yield
    return response


def _upgrade_type(update: FeatureUpdateKey, version: int) -> int:
    if version >= UPGRADE_TYPES_SINCE:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _refused(request: UpdateFeaturesRequest, version: int) -> Sliced[UpdateFeaturesResponse]:
    """What a broker of 3.9 in ZooKeeper mode answers: it supports no features."""
    results: dict[str, UpdatableFeatureResult] = {}
    for update in request.feature_updates:
        if update.feature not in results:
            results[update.feature] = UpdatableFeatureResult(
                feature=update.feature,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=_reason(update, _upgrade_type(update, version)),
            )
        yield
    return UpdateFeaturesResponse(error_message=None, results=list(results.values()))


def _reason(update: FeatureUpdateKey, upgrade_type: int) -> str:
    """``validateFeatureUpdate``, where no feature is supported or finalized."""
    if not update.feature:
        return "Feature name can not be empty."
    if upgrade_type not in list(UpgradeType):
        return "Received unknown upgrade type."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if upgrade_type != UpgradeType.UPGRADE:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide versionLevel: {update.max_version_level} less than 1 without setting the SAFE"
        " downgradeType in the request."
    )
