"""AlterClientQuotas (49): quotas are set or removed (KIP-546)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import float64, int16, int32


class EntityData(Struct):
    """One component of whom a quota is for; a null name is the default."""

    entity_type: str = field("0+")
    entity_name: str | None = field("0+", nullable="0+")


class OpData(Struct):
    """One quota to set or to remove."""

    key: str = field("0+")
    value: float64 = field("0+")
    remove: bool = field("0+")


class AlterClientQuotasRequestEntryData(Struct):
    """Changes for one entity."""

    entity: list[EntityData] = field("0+")
    ops: list[OpData] = field("0+")


class AlterClientQuotasRequest(Request, api=49, versions="0-1", flexible="1+"):
    """Changes quotas, or only checks whether they could be."""

    entries: list[AlterClientQuotasRequestEntryData] = field("0+")
    validate_only: bool = field("0+")


class AlterClientQuotasResponseEntryData(Struct):
    """What became of one entity's quotas."""

    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entity: list[EntityData] = field("0+")


class AlterClientQuotasResponse(Response, api=49, versions="0-1", flexible="1+"):
    """One entry an entity."""

    throttle_time_ms: int32 = field("0+")
    entries: list[AlterClientQuotasResponseEntryData] = field("0+")
