"""Codecs ahead of time do what those made at first use do: the same bytes, the same objects, the same errors.

The modules that the build would compile are written and run as Python here; in the compiled form the compiled
ones are judged as well.
"""

from importlib import import_module
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_tools import filled, messages

from barnabas.broker.handlers import api_table
from barnabas.broker.profiles import PROFILE_4_4
from barnabas.core.chunks import FileSlice, materialize
from barnabas.protocol.ahead import HOT, PACKAGE, module_text
from barnabas.protocol.api import ApiKey
from barnabas.protocol.encoder import COPY_MAX
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.message import Message, Request, Response, finished, with_head
from barnabas.protocol.native import WINDOW, NativeMessage
from barnabas.protocol.registry import REQUESTS
from barnabas.protocol.schema import Struct, resolved
from barnabas.protocol.wire import TAGS_MAX, uvarint

SOME = settings(
    max_examples=12,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def written(name):
    """A module of native classes as the compiler gets it, run as Python; or compiled already."""
    compiled = import_module(f"{PACKAGE}.{name}")
    if compiled.__file__.endswith(".so"):
        return compiled
    module = ModuleType(f"written.{name}")
    exec(compile(module_text(name), f"<{name} written ahead>", "exec"), vars(module))
    return module


MODULES = {name: written(name) for name in HOT}


def classes(side):
    """Hot messages with the versions that are written ahead."""
    return [
        pytest.param(cls, version, id=f"{cls.__name__} v{version}")
        for name, (first, last) in HOT.items()
        for cls in vars(MODULES[name]).values()
        if isinstance(cls, type) and issubclass(cls, NativeMessage) and cls is not NativeMessage
        if issubclass(cls, Request) == (side == "requests")
        for version in range(max(first, cls.min_version), min(last, cls.max_version) + 1)
    ]


def test_the_hot_versions_are_those_that_are_served():
    """One that was forgotten would take the slow way, and nothing would say so."""
    served = {}
    for key, api in api_table(PROFILE_4_4).items():
        module = REQUESTS[key].__module__.rsplit(".", 1)[1]
        # Before Produce 3 there are no batches of magic 2, so such requests carry nothing that is stored.
        served[module] = (
            max(api.min_version, 3) if key == ApiKey.PRODUCE else api.min_version,
            api.max_version,
        )

    assert {name: served[name] for name in HOT} == HOT


@pytest.mark.parametrize("name", HOT)
def test_a_native_class_has_the_fields_and_options_of_its_schema(name):
    schemas, natives = import_module(f"{PACKAGE}.{name}"), MODULES[name]
    declared = [
        key
        for key, cls in vars(schemas).items()
        if hasattr(cls, "__fields__") and cls.__module__ == schemas.__name__
    ]
    for key in declared:
        schema, native = getattr(schemas, key), getattr(natives, key)
        assert list(map(facts, resolved(native).values())) == list(map(facts, resolved(schema).values()))
        assert all(getattr(native, option, None) == getattr(schema, option, None) for option in OPTIONS)
        assert repr(native()) == f"{key}()"


OPTIONS = ("api", "min_version", "max_version", "flexible_from", "keeps_unknown_tags", "__doc__", "__name__")


def facts(field):
    """All that is known of a field; structs by their names, as each form has its own."""
    kind = field.kind if field.struct is None else field.kind.__name__
    return (
        field.name,
        field.versions,
        field.default,
        field.nullable,
        field.tag,
        field.ignorable,
        field.is_array,
        kind,
    )


def test_a_native_message_is_taken_for_what_it_stands_for():
    module = MODULES["produce"]

    assert issubclass(module.ProduceRequest, Request)
    assert not issubclass(module.ProduceResponse, Request)
    assert isinstance(module.ProduceResponse(), Response)
    assert isinstance(module.TopicProduceData(), Struct)
    assert not isinstance(module.TopicProduceData(), Message)


def test_native_structs_are_compared_shown_and_refused_like_others():
    module = MODULES["produce"]
    one, same, other = (module.PartitionProduceData(index=index) for index in (3, 3, 4))

    assert one == same
    assert one != other
    assert one != module.TopicProduceData()
    assert one != module.PartitionProduceData(index=3, unknown_tags={1: b""})
    assert repr(one) == "PartitionProduceData(index=3)"
    for wrong in (lambda: hash(one), lambda: module.PartitionProduceData(speed=1)):
        with pytest.raises(TypeError):
            wrong()


def test_lists_of_native_structs_are_not_shared():
    module = MODULES["produce"]
    module.TopicProduceData().partition_data.append(module.PartitionProduceData())

    assert module.TopicProduceData().partition_data == []


def outcome(codec, *arguments):
    """What a codec gives, or the error."""
    try:
        return codec(*arguments)
    except ProtocolError as error:
        return (str(error), error.field, error.offset)


def same_outcome(cls, version, frame, offset=0):
    expected = outcome(cls.decoder(version), frame, offset)
    assert outcome(cls.decode, frame, version, offset) == expected
    return expected


@pytest.mark.parametrize(("cls", "version"), classes("requests"))
@SOME
@given(data=st.data())
def test_requests_are_decoded_to_the_same_objects(cls, version, data):
    message = data.draw(messages(cls, version))
    encoded = materialize(finished(message.encode_in_steps(version)))

    for frame in (encoded, bytearray(encoded), memoryview(encoded)):
        same_outcome(cls, version, frame)
    same_outcome(cls, version, memoryview(b"before" + encoded + b"behind"), 6)


@pytest.mark.parametrize(("cls", "version"), classes("requests"))
def test_requests_cut_off_anywhere_are_refused_with_the_same_words(cls, version):
    for message in (filled(cls, version), cls()):
        encoded = materialize(finished(message.encode_in_steps(version)))
        for size in range(len(encoded)):
            message, _, offset = same_outcome(cls, version, memoryview(encoded[:size]))
            assert 0 <= offset <= size


@pytest.mark.parametrize(("cls", "version"), classes("requests"))
@SOME
@given(data=st.data())
def test_noise_in_requests_has_the_same_outcome(cls, version, data):
    message = data.draw(messages(cls, version))
    encoded = bytearray(materialize(finished(message.encode_in_steps(version))))
    for _ in range(3):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(
            st.sampled_from([0, 1, 127, 128, 255])
        )

    same_outcome(cls, version, memoryview(encoded))


@pytest.mark.parametrize("size", [126, 127, 16_383, 32_767, 32_768, 70_000])
def test_a_string_is_no_longer_than_a_classic_one_can_be(size):
    frame = b"\0\2" + uvarint(size + 1) + b"k" * size + b"\0"

    found = same_outcome(MODULES["find_coordinator"].FindCoordinatorRequest, 4, frame)

    assert (len(found) == 3) == (size > 32_767)


@pytest.mark.parametrize("count", [0, 1, TAGS_MAX, TAGS_MAX + 1])
def test_unknown_tags_of_requests_are_passed_over_up_to_a_bound(count):
    frame = b"\0\1" + uvarint(count) + b"".join(uvarint(200 + tag) + b"\1x" for tag in range(count))

    found = same_outcome(MODULES["find_coordinator"].FindCoordinatorRequest, 4, frame)

    assert (len(found) == 3) == (count > TAGS_MAX)


def produce(version, *records):
    """A request with one partition for each batch, in topics of two."""
    module = MODULES["produce"]
    partitions = [
        module.PartitionProduceData(index=index, records=batch) for index, batch in enumerate(records)
    ]
    topics = [
        module.TopicProduceData(name=f"topic-{start}", partition_data=partitions[start : start + 2])
        for start in range(0, len(partitions), 2)
    ]
    request = module.ProduceRequest(acks=-1, timeout_ms=1 << 20, topic_data=topics)
    return materialize(finished(request.encode_in_steps(version)))


@pytest.mark.parametrize("version", [3, 8, 9, 11])
@pytest.mark.parametrize("size", [0, 1, 100, WINDOW - 100, WINDOW, 3 * WINDOW, 100_000])
def test_records_stay_where_they_are_however_large_the_batches(version, size):
    batches = [bytes([index]) * (size + index) for index in range(7)]
    frame = bytearray(produce(version, *batches))

    request, end = MODULES["produce"].ProduceRequest.decode(memoryview(frame), version)

    found = [partition.records for topic in request.topic_data for partition in topic.partition_data]
    assert found == batches
    assert end == len(frame)
    assert all(type(view) is memoryview and view.obj is frame for view in found)
    same_outcome(MODULES["produce"].ProduceRequest, version, memoryview(frame))


def same_bytes(cls, version, message):
    """Compares all that encoding gives; the expected chunks."""
    expected = outcome(cls.encoder(version), message)
    framed = outcome(message.small_frame, 7, version)
    assert pieces_of(outcome(message.encode_small, version)) == pieces_of(expected)
    if isinstance(expected, list):
        assert pieces_of(framed) == pieces_of(with_head(message, 7, version, list(expected)))
        return expected
    assert framed == expected
    return None


def pieces_of(chunks):
    """What can be compared of chunks; None and errors as they are."""
    if not isinstance(chunks, list):
        return chunks
    return [chunk if isinstance(chunk, FileSlice) else bytes(chunk) for chunk in chunks]


@pytest.mark.parametrize(("cls", "version"), classes("responses"))
@SOME
@given(data=st.data())
def test_responses_are_encoded_to_the_same_bytes(cls, version, data):
    same_bytes(cls, version, data.draw(messages(cls, version)))


@pytest.mark.parametrize(("cls", "version"), classes("responses"))
@SOME
@given(data=st.data())
def test_responses_of_another_version_are_refused_with_the_same_words(cls, version, data):
    other = data.draw(st.integers(cls.min_version, cls.max_version))
    same_bytes(cls, version, data.draw(messages(cls, other)))


@pytest.mark.parametrize(("cls", "version"), classes("responses"))
def test_responses_of_defaults_are_encoded_to_the_same_bytes(cls, version):
    assert same_bytes(cls, version, cls()) is not None


class UnreadFile:
    """A file that must not be read."""

    def fileno(self):
        return -1

    def pread(self, size, position):
        raise AssertionError("records were read while they were encoded")


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_records_become_the_same_chunks(version):
    module = MODULES["fetch"]
    part = FileSlice(UnreadFile(), 100, 50)
    large, small = bytes(COPY_MAX + 1), bytes(COPY_MAX)
    for records in ([part, part], [large], [small, None, b"", memoryview(small)], [large, small, part], []):
        partitions = [
            module.PartitionData(partition_index=index, records=one) for index, one in enumerate(records)
        ]
        topics = [module.FetchableTopicResponse(topic="flights", topic_id=bytes(16), partitions=partitions)]
        expected = same_bytes(module.FetchResponse, version, module.FetchResponse(responses=topics))

        assert sum(chunk is part for chunk in expected) == records.count(part)


@pytest.mark.parametrize("number", [-(1 << 31) - 1, 1 << 31, 1 << 40])
def test_a_number_that_does_not_fit_is_refused_with_the_same_words(number):
    module = MODULES["produce"]
    partition = module.PartitionProduceResponse(index=number)
    topic = module.TopicProduceResponse(name="flights", partition_responses=[partition])

    assert same_bytes(module.ProduceResponse, 9, module.ProduceResponse(responses=[topic])) is None


def test_a_long_string_has_the_same_length_and_one_too_long_the_same_error():
    module = MODULES["find_coordinator"]
    for size in (126, 127, 16_382, 16_383, 32_767, 32_768):
        found = module.Coordinator(key="k" * size, host="é" * 64)
        response = module.FindCoordinatorResponse(coordinators=[found])

        assert (same_bytes(module.FindCoordinatorResponse, 4, response) is None) == (size > 32_767)


def test_text_that_is_no_text_is_refused_with_the_same_words():
    module = MODULES["find_coordinator"]
    response = module.FindCoordinatorResponse(coordinators=[module.Coordinator(host="\ud800")])

    assert same_bytes(module.FindCoordinatorResponse, 4, response) is None


def test_what_is_large_is_left_to_the_steps():
    module = MODULES["fetch"]
    topic = module.FetchableTopicResponse()
    crowded = module.FetchableTopicResponse(partitions=[module.PartitionData()] * 2049)

    for topics in ([topic] * 2049, [crowded]):
        assert same_bytes(module.FetchResponse, 12, module.FetchResponse(responses=topics)) is None
