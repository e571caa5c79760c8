"""Which values a resource has of its own, and which it takes from elsewhere: what may be taken away from it,
and what its undo gives back (``ConfigCommand``).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from barnabas.admin import ConfigEntry, ConfigResource, ResourceType
from barnabas.core.config import Source

_OWN: Final = {
    ResourceType.TOPIC: Source.TOPIC,
    ResourceType.BROKER: Source.DYNAMIC_BROKER,
    ResourceType.CLIENT_METRICS: Source.CLIENT_METRICS,
    ResourceType.GROUP: Source.GROUP,
}


def own_source(resource: ConfigResource) -> Source | None:
    """Where a value comes from that was set for just this resource; None for one of which every value is its
    own (the loggers of a broker).
    """
    if resource == ConfigResource.all_brokers():
        return Source.DYNAMIC_DEFAULT_BROKER
    return _OWN.get(resource.type)


def is_own(resource: ConfigResource, entry: ConfigEntry) -> bool:
    """Whether the value was set for just this resource."""
    own = own_source(resource)
    return own is None or entry.source is own


def unset_keys(
    resource: ConfigResource, described: Mapping[str, ConfigEntry], keys: Iterable[str]
) -> list[str]:
    """The keys of these that the resource has no value of its own of: they cannot be taken away."""
    own = {name for name, entry in described.items() if is_own(resource, entry)}
    return [key for key in keys if key not in own]
