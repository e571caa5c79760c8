"""``barnabas reassign-partitions --disallow-replication-factor-change`` (KIP-860), and the admin's call."""

import json

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition

T0 = TopicPartition("t", 0)
REFUSED = "The replication factor is changed from 1 to 2"


def test_a_plan_that_changes_the_number_of_replicas_is_refused_where_it_must_not(
    two_brokers, barnabas, tmp_path
):
    bootstrap = two_brokers[0].bootstrap
    file = tmp_path / "plan.json"
    file.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]})
    )
    flags = ("--bootstrap-server", bootstrap, "--execute", "--reassignment-json-file", str(file))

    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("t", assignment={0: [1]}))
        done = barnabas("reassign-partitions", *flags, "--disallow-replication-factor-change")
        assert done.exit_code == 1
        assert (done.stdout + done.stderr).splitlines()[-2:] == [
            "Error reassigning partition(s):",
            f"t-0: {REFUSED}",
        ]
        with pytest.raises(KafkaError, match=REFUSED) as caught:
            admin.partitions.reassign({T0: [1, 2]}, allow_replication_factor_change=False)
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert admin.partitions.reassignments() == {}
        assert barnabas("reassign-partitions", *flags).exit_code == 0
