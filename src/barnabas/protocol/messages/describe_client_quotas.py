"""DescribeClientQuotas (48): quotas that a filter matches (KIP-546)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import float64, int8, int16, int32


class ComponentData(Struct):
    """A condition on one type of entity: 0 this name, 1 the default, 2 any name."""

    entity_type: str = field("0+")
    match_type: int8 = field("0+")
    match: str | None = field("0+", nullable="0+")


class DescribeClientQuotasRequest(Request, api=48, versions="0-1", flexible="1+"):
    """The filter; `strict` leaves out quotas with further components."""

    components: list[ComponentData] = field("0+")
    strict: bool = field("0+")


class EntityData(Struct):
    """One component of whom a quota is for; a null name is the default."""

    entity_type: str = field("0+")
    entity_name: str | None = field("0+", nullable="0+")


class ValueData(Struct):
    """One quota."""

    key: str = field("0+")
    value: float64 = field("0+")


class EntryData(Struct):
    """The quotas of one entity."""

    entity: list[EntityData] = field("0+")
    values: list[ValueData] = field("0+")


class DescribeClientQuotasResponse(Response, api=48, versions="0-1", flexible="1+"):
    """The quotas that match."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entries: list[EntryData] | None = field("0+", nullable="0+")
