"""`KafkaCatalog`: what planning asks a cluster."""

import pytest

from barnabas.client.errors import ClientClosedError
from barnabas.core.errors import KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.spark.kafka import KafkaCatalog
from barnabas.spark.options import source_options
from barnabas.spark.planner import Planner


@pytest.mark.parametrize(
    ("given", "level"),
    [({}, 0), ({"kafka.isolation.level": "read_committed"}, 1)],
    ids=["uncommitted", "committed"],
)
def test_ranges_end_where_the_isolation_level_lets_a_consumer_read(background_cluster, given, level):
    cluster = background_cluster
    cluster.add_topic("t")
    options = source_options(
        {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "t", **given}, streaming=False
    )
    catalog = KafkaCatalog(options)
    Planner(options, catalog).batch_ranges()
    catalog.close()

    assert {each.isolation_level for each in cluster.requests(ApiKey.LIST_OFFSETS)} == {level}


def test_a_catalog_that_was_closed_asks_nothing_more(background_cluster):
    background_cluster.add_topic("t")
    options = source_options(
        {"kafka.bootstrap.servers": background_cluster.bootstrap, "subscribe": "t"}, streaming=False
    )
    catalog = KafkaCatalog(options)
    Planner(options, catalog).batch_ranges()
    catalog.close()

    with pytest.raises(ClientClosedError):
        Planner(options, catalog).batch_ranges()


def test_a_topic_says_whether_it_is_compacted(kafka):
    options = source_options(
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "t",
            "fetchOffset.numRetries": "0",
        },
        streaming=False,
    )  # fmt: skip
    catalog = KafkaCatalog(options)
    for policy, is_compacted in (("delete", False), ("compact", True), ("compact,delete", True)):
        topic = kafka.create_topic(configs={"cleanup.policy": policy})
        assert catalog.is_compacted(topic) is is_compacted
    with pytest.raises(KafkaError):
        catalog.is_compacted("nobody-has-made-it")
    catalog.close()
