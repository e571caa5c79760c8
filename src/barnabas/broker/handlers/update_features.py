"""UpdateFeatures (57), v0-1.

Behaviour: refuses every update, each with its reason. A Kafka 3.9 broker in ZooKeeper mode supports no
features, so there is none that could be finalized, and none that could be taken back (KIP-584). Only the
controller answers.
Versions:  v1 the kind of upgrade in place of a flag (KIP-778).
Not implemented: nothing.
"""

from typing import Final

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
UPGRADE_TYPES_SINCE: Final = 1


def _failed(_request: UpdateFeaturesRequest, error: KafkaError, _version: int) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


@handles(ApiKey.UPDATE_FEATURES, versions=(0, 1), failed=_failed)
@sliced
def update_features(
    context: RequestContext, request: UpdateFeaturesRequest
) -> Sliced[UpdateFeaturesResponse]:
    context.require_cluster(Operation.ALTER)
    if not context.broker.controller.is_active:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    results: dict[str, UpdatableFeatureResult] = {}
    for update in request.feature_updates:
        if update.feature not in results:
            results[update.feature] = UpdatableFeatureResult(
                feature=update.feature,
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=_reason(update, context.version),
            )
        yield
    return UpdateFeaturesResponse(error_message=None, results=list(results.values()))


def _reason(update: FeatureUpdateKey, version: int) -> str:
    """``validateFeatureUpdate``, where no feature is supported or finalized."""
    upgrade_type = update.upgrade_type
    if version < UPGRADE_TYPES_SINCE:
        upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if not update.feature:
        return "Feature name can not be empty."
    if upgrade_type not in {UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE}:
        return "Received unknown upgrade type."
    if update.max_version_level >= 1:
        return "Could not apply finalized feature update because the provided feature is not supported."
    if upgrade_type != UPGRADE:
        return "Can not delete non-existing finalized feature."
    return (
        f"Can not provide versionLevel: {update.max_version_level} less than 1 without setting the SAFE"
        " downgradeType in the request."
    )
