"""OffsetDelete (47), v0.

Behaviour: a group forgets its positions in partitions that none of its members reads (KIP-496).
Versions:  only one, not flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.group_requests import PartitionCodes, known_partitions, require_group
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@handles(ApiKey.OFFSET_DELETE, versions=(0, 0))
@sliced
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Sliced[OffsetDeleteResponse]:
    """Deletes a group's positions."""
    require_group(context, Operation.DELETE, request.group_id)
    codes = PartitionCodes()
    asked = ((topic.name, topic.partitions) for topic in request.topics)
    known = yield from known_partitions(context, asked, codes)
    # The coordinator is asked even when nothing is left to delete: an error of the group goes before those of topics.
    wanted = OffsetDeleteRequest(
        group_id=request.group_id,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=partitions) for name, partitions in known.items()
        ],
    )
    answer = context.broker.group_coordinator.offset_delete(wanted)
    response = (yield answer) if isinstance(answer, Pending) else answer
    if response.error_code or not codes.topics:
        return response
    yield from codes.add_all(response.topics)
    topics = yield from codes.topics_of(OffsetDeleteResponseTopic, OffsetDeleteResponsePartition)
    return OffsetDeleteResponse(topics=topics)
