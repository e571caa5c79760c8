"""UpdateMetadata requests as the handler gives them to a cache that a test holds."""

from barnabas.broker.handlers.update_metadata import delta_of
from barnabas.core.slices import in_one_piece


def delta(request):
    """What the request brings."""
    return in_one_piece(delta_of(request))


def apply(cache, request):
    """The partitions that the request deleted."""
    return cache.apply(delta(request))
