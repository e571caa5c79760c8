"""Topics, configurations and groups: `python admin_topics.py 127.0.0.1:9092 orders`."""

import sys

from barnabas.admin import Admin, ConfigResource, NewTopic
from barnabas.client import KafkaError


def main(bootstrap_servers: str, topic: str) -> None:
    """Makes a topic, changes it, and looks around."""
    with Admin(bootstrap_servers) as admin:
        try:
            admin.topics.create(NewTopic(topic, partitions=3, configs={"retention.ms": "60000"}))
        except KafkaError as error:
            print("not made:", error)
        resource = ConfigResource.topic(topic)
        admin.configs.alter({resource: {"retention.ms": "3600000"}})
        print("retention.ms is", admin.configs.describe(resource)[resource]["retention.ms"].value)
        described = admin.topics.describe(topic)[topic]
        print(topic, "has", len(described.partitions), "partitions")
        print("brokers:", *[f"{one.host}:{one.port}" for one in admin.cluster.describe().brokers])
        print("groups:", *[one.group_id for one in admin.groups.list()])


if __name__ == "__main__":
    main(*sys.argv[1:])
