"""Whatever a message holds comes back: every message in every version."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from message_tools import all_messages, as_decoded, filled, messages, versions_of

from barnabas.core.chunks import materialize
from barnabas.protocol.message import finished

FAST = settings(
    max_examples=3,
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

        assert decoded == as_decoded(message)
        assert end == 6 + len(encoded)
        assert finished(cls.decode_in_steps(b"before" + encoded + b"behind", version, 6, 10_000)) == (
            decoded,
            end,
        )
        assert materialize(finished(message.encode_in_steps(version))) == encoded


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_a_message_with_every_field_filled_comes_back(cls):
    for version in versions_of(cls):
        encoded = materialize(filled(cls, version).encode(version))

        decoded, end = cls.decode(bytearray(encoded), version)

        assert decoded == as_decoded(filled(cls, version))
        assert end == len(encoded)
        assert finished(cls.decode_in_steps(bytearray(encoded), version, 0, 10_000)) == (decoded, end)
        assert materialize(finished(filled(cls, version).encode_in_steps(version))) == encoded


@pytest.mark.parametrize("cls", all_messages(), ids=named)
def test_a_message_of_defaults_comes_back(cls):
    for version in versions_of(cls):
        decoded, _ = cls.decode(materialize(cls().encode(version)), version)

        assert decoded == cls()
        assert repr(decoded) == f"{cls.__name__}()"
