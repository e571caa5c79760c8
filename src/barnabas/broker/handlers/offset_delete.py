"""OffsetDelete (47), v0.

Behaviour: a group forgets its positions in partitions that none of its members reads (KIP-496).
Versions:  only one, not flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import require_group
from barnabas.broker.offset_requests import PartitionCodes, known_partitions
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(ApiKey.OFFSET_DELETE, versions=(0, 0))
@sliced
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Sliced[OffsetDeleteResponse]:
    require_group(context, Operation.DELETE, request.group_id)
    codes = PartitionCodes()
    asked = ((topic.name, topic.partitions) for topic in request.topics)
    known = yield from known_partitions(context, asked, codes)
    # The coordinator is asked even when nothing is left to delete: an error of the group goes before those of
    # topics.
    yield from codes.add(context.broker.group_coordinator.delete_offsets(request.group_id, known))
    topics = yield from codes.topics_of(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    return OffsetDeleteResponse(topics=topics)
