"""Clients that a worker keeps between tasks: one for the same options, and never too many."""

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.spark.kept import KeptClients


class _Client:
    """A client that says when it is closed."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.closed = False

    def close(self) -> None:
        self.closed = True
        if self.options["client.id"] == "broken":
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)


def options(name: str) -> dict[str, str]:
    return {"bootstrap.servers": "127.0.0.1:9092", "client.id": name}


def test_the_same_options_in_another_order_are_the_same_client():
    kept = KeptClients(_Client)
    first = kept.get(options("a"))
    assert kept.get(dict(reversed(options("a").items()))) is first
    assert kept.get(options("b")) is not first


def test_the_one_that_was_unused_for_longest_is_closed():
    kept = KeptClients(_Client, most=2)
    first, second = kept.get(options("a")), kept.get(options("b"))
    assert kept.get(options("a")) is first
    third = kept.get(options("c"))
    assert (first.closed, second.closed, third.closed) == (False, True, False)
    assert kept.get(options("b")) is not second, "a closed one is not given out again"


def test_one_that_cannot_be_closed_fails_no_other_query(caplog):
    kept = KeptClients(_Client, most=1)
    broken = kept.get(options("broken"))
    assert not kept.get(options("a")).closed
    assert broken.closed
    assert "did not close well" in caplog.text
