"""What a newcomer touches first: names that can be found, help that opens, waits as elsewhere in Python."""

import asyncio
import inspect
import pydoc
from concurrent.futures import Future
from typing import Any

import pytest

import barnabas.admin
import barnabas.client
from barnabas.admin import Admin, AsyncAdmin
from barnabas.client import AsyncConsumer, AsyncProducer, Consumer, Delivery, Producer
from barnabas.client.producer_batch import ProducerBatch
from barnabas.core.ids import TopicPartition
from barnabas.records.compression import Codec

FACES = [(Producer, AsyncProducer), (Consumer, AsyncConsumer), (Admin, AsyncAdmin)]


def test_dir_shows_what_is_public() -> None:
    shown = dir(barnabas.client)
    assert set(barnabas.client.__all__) <= set(shown)
    assert {"Producer", "Consumer", "KafkaError", "ConfigError", "TopicPartition"} <= set(shown)


@pytest.mark.parametrize("name", barnabas.client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(barnabas.client, name).__name__ == name


@pytest.mark.parametrize(("face", "twin"), FACES)
def test_methods_of_a_face_can_be_looked_at_on_the_class(face: type, twin: type) -> None:
    assert pydoc.plain(pydoc.render_doc(face))
    for name, method in inspect.getmembers(face, inspect.isfunction):
        if name.startswith("_"):
            continue
        assert inspect.getdoc(method), name
        assert not inspect.iscoroutinefunction(method), name
        assert next(iter(inspect.signature(method).parameters)) == "self", name


@pytest.mark.parametrize(("face", "twin"), [*FACES[:2]])
def test_a_face_has_every_public_method_of_its_twin(face: type, twin: type) -> None:
    own_loop = {"start", "abort", "try_send", "try_send_section", "make_ready"}
    public = {name for name, _ in inspect.getmembers(twin, inspect.isfunction) if not name.startswith("_")}
    assert public - own_loop <= set(dir(face))


async def _nouns_without_their_verbs() -> dict[str, set[str]]:
    twin = AsyncAdmin("127.0.0.1:1")
    with_face = Admin("127.0.0.1:1")
    try:
        return {
            noun: {name for name in dir(verbs) if not name.startswith("_")}
            - set(dir(getattr(with_face, noun)))
            for noun, verbs in vars(twin).items()
            if not noun.startswith("_")
        }
    finally:
        with_face.close()
        await twin.close()


def test_the_admin_client_has_every_verb_of_its_twin() -> None:
    missing = asyncio.run(_nouns_without_their_verbs())
    assert missing
    assert not any(missing.values()), missing


def test_the_old_name_of_the_admin_client_is_kept() -> None:
    assert barnabas.admin.BlockingAdmin is Admin


def _delivery() -> tuple[Delivery, ProducerBatch]:
    batch = ProducerBatch(TopicPartition("t", 0), Codec.NONE, 0.0)
    batch.builder.append(0, None, b"v", (), 100)
    return Delivery(batch, 0, 0), batch


@pytest.mark.parametrize("waiting", [{"timeout": 0.01}, {"timeout_ms": 10}])
def test_a_wait_that_is_over_raises_what_futures_raise(waiting: dict[str, Any]) -> None:
    delivery, _ = _delivery()
    with pytest.raises(TimeoutError, match=r"No acknowledgement from t-0 in 0\.01 s"):
        delivery.result(**waiting)
    with pytest.raises(TimeoutError):
        Future[int]().result(timeout=0.01)
    with pytest.raises(TimeoutError):
        delivery.exception(0.01)


def test_a_delivery_has_a_result_or_an_exception_as_futures_have() -> None:
    stored, batch = _delivery()
    batch.complete(7, -1)
    assert stored.result(timeout=10).offset == 7
    assert stored.exception(timeout=10) is None
    failed, batch = _delivery()
    batch.fail(ValueError("no"))
    assert str(failed.exception()) == "no"
    with pytest.raises(ValueError, match="no"):
        failed.result(10)
