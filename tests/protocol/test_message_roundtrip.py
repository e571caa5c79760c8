"""Whatever a message holds comes back: every message in every version."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_tools import all_messages, filled, messages, versions_of

from barnabas.core.chunks import materialize

FAST = settings(
    max_examples=3,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def named(cls):
    return cls.__name__


@pytest.mark.parametrize("cls", all_messages(), ids=named)
@FAST
@given(data=st.data())
def test_arbitrary_messages_come_back(cls, data):
    for version in versions_of(cls):
        message = data.draw(messages(cls, version))
        encoded = materialize(message.encode(version))

        decoded, end = cls.decode(b"before" + encoded + b"behind", version, 6)

        assert decoded == message
        assert end == 6 + len(encoded)


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_a_message_with_every_field_filled_comes_back(cls):
    for version in versions_of(cls):
        encoded = materialize(filled(cls, version).encode(version))

        decoded, end = cls.decode(bytearray(encoded), version)

        assert decoded == filled(cls, version)
        assert end == len(encoded)


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_a_message_of_defaults_comes_back(cls):
    for version in versions_of(cls):
        decoded, _ = cls.decode(materialize(cls().encode(version)), version)

        assert decoded == cls()
        assert repr(decoded) == f"{cls.__name__}()"
