"""The codes that clients get where the coordinator of their transaction does not count a partition to it."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.replica.verification import known_to_committers, known_to_producers

E = ErrorCode


@pytest.mark.parametrize(
    "code",
    [
        E.CONCURRENT_TRANSACTIONS,
        E.NETWORK_EXCEPTION,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
    ],
)
def test_a_producer_tries_again_after_what_passes(code):
    assert known_to_producers(code)[0] is E.NOT_ENOUGH_REPLICAS


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (E.NETWORK_EXCEPTION, E.COORDINATOR_LOAD_IN_PROGRESS),
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    ],
)
def test_a_committer_is_told_of_coordinators(code, told):
    assert known_to_committers(code) is told
