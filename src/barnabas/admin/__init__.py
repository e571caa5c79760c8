"""The admin client of a Kafka cluster, any vendor's: topics, offsets, configurations, the cluster."""

from barnabas.admin.admin import Admin, BlockingAdmin
from barnabas.admin.types import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    NewTopic,
    ResourceType,
    TopicDescription,
    TopicListing,
)

__all__ = [
    "Admin",
    "BlockingAdmin",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "CreatedTopic",
    "NewTopic",
    "ResourceType",
    "TopicDescription",
    "TopicListing",
]
