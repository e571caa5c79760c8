"""The metadata store fails at one of the steps of a change: what the client hears, and what the log says."""

import logging
import random

import pytest

from barnabas.cluster.metadata.config_admin import ConfigAdmin
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.metadata.topics import TopicAdmin, TopicDefaults
from barnabas.cluster.store.contract import SessionExpiredError, StoreUnavailableError
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.dynamic_broker_config import DynamicBrokerConfig
from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Pending
from barnabas.core.topic_config import topic_defaults
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TOPIC = 2


def new(name):
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1)


class FailingStore(MemoryStore):
    """Calls with a number from `fails` have no effect and fail with `error`."""

    fails = range(0)
    error = SessionExpiredError
    calls = 0

    def _refused(self, path):
        self.calls += 1
        return Pending.failed(self.error(path)) if self.calls - 1 in self.fails else None

    def get(self, path, watch=None):
        return self._refused(path) or super().get(path, watch)

    def exists(self, path, watch=None):
        return self._refused(path) or super().exists(path, watch)

    def children(self, path, watch=None):
        return self._refused(path) or super().children(path, watch)

    def multi(self, operations):
        return self._refused(operations[0].path) or super().multi(operations)


class Changes:
    """A broker over a store of its own, with the topic `there.is`."""

    def __init__(self, world):
        self.world = world
        self.store = FailingStore(MemoryEnsemble(world.clock.time_ms), world.clock.call_soon)
        self._done(self.store.start())
        self._done(ensure_persistent_paths(self.store))
        defaults = TopicDefaults(1, 1, topic_defaults(world.config))
        world.services.topics = TopicAdmin(self.store, world.cache, defaults, random.Random(1))
        world.services.config_admin = ConfigAdmin(
            1, ConfigStore(self.store, world.clock), world.cache, DynamicBrokerConfig(world.config)
        )
        self.ask(CreateTopicsRequest(topics=[new("there.is")], timeout_ms=0), 7)
        world.create("there.is")
        self.store.calls = 0

    def _done(self, pending):
        self.world.clock.advance()
        return pending.result()

    def ask(self, request, version):
        """The one result of the answer."""
        response = self.world.send(request, version)
        [result] = next(
            found
            for name in ("topics", "results", "responses")
            if (found := getattr(response, name, None)) is not None
        )
        return result


REQUESTS = {
    "CreateTopics": (CreateTopicsRequest(topics=[new("new_one")], timeout_ms=0), 7),
    "DeleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name="there.is")], timeout_ms=0), 6),
    "CreatePartitions": (
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name="there.is", count=2, assignments=None)], timeout_ms=0
        ),
        3,
    ),
    "IncrementalAlterConfigs": (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="there.is",
                    configs=[AlterableConfig(name="segment.bytes", config_operation=0, value="2000")],
                )
            ]
        ),
        1,
    ),
}
STEPS = {"CreateTopics": 5, "DeleteTopics": 2, "CreatePartitions": 2, "IncrementalAlterConfigs": 3}
"""How often each asks the store."""
DONE = {ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT}
"""The second where nothing is waited for, as no controller is there."""


@pytest.mark.parametrize("error", [SessionExpiredError, StoreUnavailableError])
@pytest.mark.parametrize(
    ("name", "step"), [(name, step) for name, steps in STEPS.items() for step in range(steps)]
)
def test_a_store_that_fails_at_a_step_is_said_once_in_the_log(world, caplog, name, step, error):
    changes = Changes(world)
    changes.store.error, changes.store.fails = error, [step]
    with caplog.at_level(logging.ERROR):
        result = changes.ask(*REQUESTS[name])

    # ``ApiError.fromThrowable``: what went wrong inside is no business of the client's.
    assert result.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    message = getattr(result, "error_message", None)
    assert message in (None, "", ErrorCode.UNKNOWN_SERVER_ERROR.message)
    [line] = [each for each in caplog.records if error.__name__ in each.getMessage()]
    assert line.exc_info is None
    # Nothing is left that keeps it from being done when the store is there again.
    assert changes.ask(*REQUESTS[name]).error_code in DONE


@pytest.mark.parametrize("name", STEPS)
def test_these_are_all_steps(world, name):
    changes = Changes(world)

    assert changes.ask(*REQUESTS[name]).error_code in DONE
    assert changes.store.calls == STEPS[name]
