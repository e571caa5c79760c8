"""UpdateFeatures (57): finalized feature levels change (KIP-584)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int8, int16, int32


class FeatureUpdateKey(Struct):
    """A feature and its new level; below 1 removes it."""

    feature: str = field("0+")
    max_version_level: int16 = field("0+")
    allow_downgrade: bool = field("0")
    upgrade_type: int8 = field("1+", default=1)


class UpdateFeaturesRequest(Request, api=57, versions="0-2", flexible="0+"):
    """Changes levels, or only checks whether they could be."""

    timeout_ms: int32 = field("0+", default=60000)
    feature_updates: list[FeatureUpdateKey] = field("0+")
    validate_only: bool = field("1+")


class UpdatableFeatureResult(Struct):
    """What became of one feature."""

    feature: str = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")


class UpdateFeaturesResponse(Response, api=57, versions="0-2", flexible="0+"):
    """One error for all, and until v1 one entry a feature."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)
