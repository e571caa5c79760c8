"""ApiVersions (18), v0-5.

Behaviour: answers with the table of handlers, so a client learns what works here and nothing else.
Versions:  v3 flexible, the client says what it is (KIP-511); its answer has the header of v0.
           A version above ours is answered in v0 form by the dispatcher.
           Features and the epoch of the finalized ones are told since v3.
           v4 tells of features with the level 0 too (KIP-1022) · v5 the client may say which cluster and
           which node it means to talk to, and learns that it must start from its bootstrap servers again when
           it has come to another one (KIP-1242).
Of ours:   what brokers say to each other is told to a broker of this program, in every profile.
Not implemented: nothing.
"""

import re
from typing import Final

from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import NO_BROKER
from barnabas.network.api_versions import BROKER_SOFTWARE_NAME
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

LEVEL_ZERO_SINCE: Final = 4
"""Older clients take a level of 0 for an error."""
IDENTITY_SINCE: Final = 5

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@handles(ApiKey.API_VERSIONS, versions=(0, 5))
def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """The APIs of this broker and their versions."""
    if context.version >= 3 and not _says_what_it_is(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if context.version >= 3:
        context.peer.software = (request.client_software_name, request.client_software_version)
    if context.version >= IDENTITY_SINCE and (mistake := _mistaken_identity(context, request)):
        return ApiVersionsResponse(error_code=mistake)
    features = context.broker.features
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
            for api in context.broker.api_table.values()
            if api.advertised or request.client_software_name == BROKER_SOFTWARE_NAME
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in features.supported.items()
            if low > 0 or context.version >= LEVEL_ZERO_SINCE
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized.items()
            if level > 0
        ],
        finalized_features_epoch=features.epoch,
    )


def _says_what_it_is(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text) for text in (request.client_software_name, request.client_software_version)
    )


def _mistaken_identity(context: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
    """NONE where the client means this broker, or does not say whom it means."""
    if (request.cluster_id is None) != (request.node_id == NO_BROKER):
        return ErrorCode.INVALID_REQUEST
    if request.cluster_id is None or (
        request.cluster_id == context.broker.cluster_id and request.node_id == context.broker.broker_id
    ):
        return ErrorCode.NONE
    return ErrorCode.REBOOTSTRAP_REQUIRED
