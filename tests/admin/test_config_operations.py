"""Operations on single keys (KIP-339):
lists grow and shrink, and an operation may be repeated in one call.
"""

import pytest

from barnabas.admin import Admin, AlterConfigOp, AlterOp, ConfigResource, NewTopic
from barnabas.core.errors import ErrorCode, KafkaError


def test_elements_are_added_to_a_list_and_taken_from_it(broker, topic_name):
    name = topic_name("operations")
    resource = ConfigResource.topic(name)
    key = "leader.replication.throttled.replicas"
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1, replication_factor=1))

        def changed(*operations):
            admin.configs.alter({resource: [AlterConfigOp(key, *operation) for operation in operations]})
            return admin.configs.describe(resource)[resource][key].value

        assert changed(("0:1,0:2", AlterOp.APPEND)) == "0:1,0:2"
        assert changed(("1:1", AlterOp.APPEND)) == "0:1,0:2,1:1"
        assert changed(("0:2", AlterOp.SUBTRACT)) == "0:1,1:1"
        assert changed(("*",)) == "*"
        assert changed((None, AlterOp.DELETE)) == ""
        with pytest.raises(KafkaError) as refused:
            changed(("*",), (None, AlterOp.DELETE))
        assert refused.value.code is ErrorCode.INVALID_REQUEST
