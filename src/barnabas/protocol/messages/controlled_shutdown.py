"""ControlledShutdown (7): a broker asks the controller to move its leaderships before it stops (KIP-143)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32, int64


class ControlledShutdownRequest(Request, api=7, versions="0-3", flexible="3+"):
    """Announces that the broker is about to stop. Version 0 has a header without client id."""

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = field("0+")
    partition_index: int32 = field("0+")


class ControlledShutdownResponse(Response, api=7, versions="0-3", flexible="3+"):
    """What is left to move; the broker asks again until nothing is."""

    error_code: int16 = field("0+")
    remaining_partitions: list[RemainingPartition] = field("0+")
