"""Handlers of requests that may name very much.

A request of a hundred megabytes has room for millions of entries, and the loop that works them off keeps the
groups of everybody alive. A handler whose work grows with its request is therefore written as
`core.slices.Sliced`, with a ``yield`` after each entry::

    @handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), failed=_failed)
    @sliced
    def describe_groups(context, request) -> Sliced[DescribeGroupsResponse]:
        described = []
        for group_id in request.groups:
            described.append(_describe(context, group_id))
            yield  # others may be served here
        return DescribeGroupsResponse(groups=described)

Between two slices the connection is held: a client's later commit is not done in the middle of an earlier
one. What it reads may change between two slices, as it may for Kafka's handler threads: each entry is
answered by what was true when it was looked at. Where the whole answer must be of one moment (a commit, a
snapshot of the cluster) the handler says so.
"""

import functools
from collections.abc import Callable
from typing import TypeVar, cast

from barnabas.broker.context import RequestContext
from barnabas.core.pending import Pending
from barnabas.core.slices import AT_ONCE, Sliced, in_slices

T = TypeVar("T")
Q = TypeVar("Q")
R = TypeVar("R")


def sliced(
    handler: Callable[[RequestContext, Q], Sliced[R]],
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    """Turns a handler written as `Sliced` into one that answers small requests at once, and others in
    slices.
    """
    return _in_slices(handler, at_once=AT_ONCE)


def sliced_by_time(
    handler: Callable[[RequestContext, Q], Sliced[R]],
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    """As `sliced`, where each entry may wait for the disk: even a few must not do so in one piece."""
    return _in_slices(handler, at_once=1)


def in_turn(
    handler: Callable[[RequestContext, Q], Sliced[R]],
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    """As `sliced`, for what only the controller asks: no two such requests are worked on at the same time."""
    return _in_control_queue(handler, at_once=AT_ONCE)


def in_turn_by_time(
    handler: Callable[[RequestContext, Q], Sliced[R]],
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    """As `in_turn`, where each entry may wait for the disk."""
    return _in_control_queue(handler, at_once=1)


def _in_slices(
    handler: Callable[[RequestContext, Q], Sliced[R]], *, at_once: int
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    @functools.wraps(handler)
    def handle(context: RequestContext, request: Q) -> R | Pending[R]:
        work = handler(context, request)
        return in_slices(work, context.broker.clock, holder=context.peer, at_once=at_once)

    return handle


def _in_control_queue(
    handler: Callable[[RequestContext, Q], Sliced[R]], *, at_once: int
) -> Callable[[RequestContext, Q], R | Pending[R]]:
    @functools.wraps(handler)
    def handle(context: RequestContext, request: Q) -> R | Pending[R]:
        queue = context.broker.replica_manager.control_queue
        return queue.run(handler(context, request), holder=context.peer, at_once=at_once)

    return handle


def alone(context: RequestContext, awaited: Pending[T]) -> Sliced[T]:
    """The Pending's value; until it is there, the connection is held.

    For changes of the cluster that a client may count on in its next request without waiting for the answer:
    a topic that it deletes, or writes to, behind the request that creates it. Kafka handles one request of a
    connection at a time, and also waits with the next one.
    """
    if awaited.done:
        return awaited.result()
    context.peer.hold()
    try:
        return cast("T", (yield awaited))
    finally:
        context.peer.release()
