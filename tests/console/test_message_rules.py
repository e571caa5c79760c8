"""What may be seen of a record: decoding, masks, conditions. No brokers."""

import json
import struct

import pytest

from barnabas.client import ConsumerRecord
from barnabas.client.types import TimestampType
from barnabas.operations.errors import OperationError
from barnabas.operations.messages import filters, masks
from barnabas.operations.messages.decoding import DECODED_MAX
from barnabas.operations.messages.reading import SHOWN_MAX, RecordReader
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.coordinator.transaction_log import TransactionLogKey, TransactionLogValue

ORDER = {
    "id": 17, "customer": {"name": "Ada", "Card": "4000123412341234"}, "paid": True, "note": None,
    "items": [{"name": "tea", "price": 3.5}, {"name": "cup", "price": 12}],
}  # fmt: skip


def record(value=b"", key=None, headers=()):
    body = json.dumps(value).encode() if isinstance(value, dict | list) else value
    kind = TimestampType.CREATE_TIME
    return ConsumerRecord("t", 0, 5, 1000, kind, key, body, headers, 0)


def seen(value, rules="", *, topic="t", **more):
    reader = RecordReader(topic, masks.parsed(rules).of(topic))
    return reader.seen(record(value, **more))


def holds(condition, value=ORDER, rules="", **more):
    (one,) = filters.parsed(condition)
    return one.holds(seen(value, rules, **more))


def mask(*fields, **more):
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"fields": list(fields), **more}.items()]
    return "[[mask]]\n" + "\n".join(lines)


def test_all_headers_are_searched_however_many_are_shown():
    headers = [(f"h{number}", b"x") for number in range(500)]
    assert holds("header.h499=x", headers=headers) is True
    assert len(list(seen(b"", headers=headers).headers(100))) == 100


def test_a_header_that_is_no_text_is_not_judged():
    assert holds("header.h=x", headers=[("h", b"\xff")]) is None
    assert holds("header.h", headers=[("h", b"\xff")]) is True
    assert holds("header.h!=x", headers=[("h", None)]) is True


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("value.id=17", True),
        ("value.id = 17.0", True),
        ("value.id!=17", False),
        ("value.id>9", True),
        ("value.id<9", False),
        ("value.id<=17", True),
        ("value.customer.name=Ada", True),
        ("value.customer.name~da", True),
        ("value.customer.name!~da", False),
        ("value.customer.name>Abe", True),
        ("value.items.price>=12", True),
        ("value.items.price>12", False),
        ("value.items.name!=tea", False),
        ("value.*.name=Ada", True),
        ("value.paid=true", True),
        ("value.note=null", True),
        ("value.note", True),
        ("value.coupon", False),
        ("value.coupon!=x", False),
        ("value~4000123", True),
        ("offset>=5", True),
        ("partition=1", False),
        ("timestamp<1001", True),
        ("header.trace=abc", True),
        ("header.trace", True),
        ("header.other!=abc", False),
        ("key=k1", True),
        ("key.id=1", None),
    ],
)
def test_a_condition_on_a_record(condition, answer):
    assert holds(condition, key=b"k1", headers=[("trace", b"abc")]) is answer


@pytest.mark.parametrize(
    "wrong",
    ["", "x=1", "value..a=1", "header=1", "offset=x", "offset.a=1", "a" * 1001, "\n".join(["key=1"] * 21),
     "__import__('os')", "value" + ".a" * 31],
)  # fmt: skip
def test_what_is_no_condition_is_refused(wrong):
    if not wrong:
        assert filters.parsed(wrong) == []
        return
    with pytest.raises(OperationError, match=r"condition"):
        filters.parsed(wrong)


def test_of_what_has_no_fields_nobody_knows():
    assert holds("value.id=1", b"plain text") is None
    assert holds("value.id=1", b"\xff\x00") is None
    assert holds("value~x", b"\xff\x00") is None
    assert holds("value.id=1", None) is False
    assert holds("value.id=1", json.dumps({"id": 1, "x": "y" * DECODED_MAX}).encode()) is None


HOSTILE = [
    b'{"b":"\\ud800"}', b"[" * 100_000,
    b'{"a":' * 50_000, b'{"n": NaN}', b'{"n": ' + b"9" * 5_000 + b"}", b"\x00\x00\x00\x00\x01",
    b'{"a":1e999}', b"\xed\xa0\x80", b"{", b"<script>",
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("rules", ["", mask("value.a")])
def test_hostile_values_are_shown_and_raise_nothing(value, rules):
    one = seen(value, rules)
    (one.value.shown().text or "").encode()
    assert holds("value.a=1", value, rules) in {True, False, None}


def test_a_large_value_is_cut():
    shown = seen(b"x" * (50 << 20)).value.shown()
    assert (len(shown.text), shown.is_cut, shown.bytes, shown.form) == (SHOWN_MAX, True, 50 << 20, "text")
    shown = seen(b"\x01\xff" * (3 << 20)).value.shown()
    assert (shown.form, shown.is_cut, shown.text[:5]) == ("hex", True, "01 ff")


def test_a_masked_field_is_nowhere():
    one = seen(ORDER, mask("value.customer.card", "value.items.price", keep_last=4)).value
    shown = one.shown()
    assert json.loads(shown.text)["customer"] == {"name": "Ada", "Card": "***1234"}
    assert [each["price"] for each in json.loads(shown.text)["items"]] == ["***", "***"]
    assert (shown.is_masked, shown.bytes) == (True, None)
    assert not one.contains("40001234", b"40001234")


@pytest.mark.parametrize(
    ("rules", "value"),
    [
        (mask("value.customer.card"), ORDER),
        (mask("value.**.card"), ORDER),
        (mask("value.CUSTOMER.*"), ORDER),
        (mask("value"), ORDER),
        (mask("value.c?stomer"), ORDER),
        (mask("value.a"), b"4000123412341234"),
        (mask("value.a"), json.dumps(ORDER).encode("utf-16")),
        (mask("value.a"), b"\xff4000123412341234"),
        (mask("value.a"), b'{"a": 1, "b": "4000123412341234"'),
        (mask("value.card"), b'{"card": "x", "card": "4000123412341234"}'),
        (mask("value.a"), json.dumps({"card": "4000123412341234", "x": "y" * DECODED_MAX}).encode()),
        (mask("value.a"), b'"4000123412341234"'),
    ],
)
@pytest.mark.parametrize("choice", ["auto", "text", "json", "hex", "schema"])
def test_no_search_and_no_form_reveals_what_is_masked(rules, value, choice):
    reader = RecordReader("t", masks.parsed(rules).of("t"), value=choice)
    one = reader.seen(record(value))
    raw = "4000123412341234"
    assert raw not in (one.value.text() or "")
    assert raw not in str(one.value.shown())
    assert raw.encode().hex(" ") not in str(one.value.shown())
    assert not one.value.contains(raw[:8], raw[:8].encode())
    for condition in (f"value~{raw[:8]}", f"value={raw}", f"value.customer.Card={raw}",
                      "value.customer.Card>3", f"value.card~{raw[:4]}", "value.*.*~4000"):  # fmt: skip
        assert filters.parsed(condition)[0].holds(one) is not True, condition


@pytest.mark.parametrize("choice", ["auto", "text", "json", "hex", "schema"])
def test_what_is_masked_is_the_same_however_it_is_asked_for(choice):
    reader = RecordReader("t", masks.parsed(mask("value.customer")).of("t"), value=choice)
    shown = reader.seen(record(ORDER)).value.shown()
    assert (shown.form, json.loads(shown.text)["id"]) == ("json", 17)


def test_keys_and_headers_are_masked():
    rules = mask("key", "header.Auth*", keep_last=2)
    one = seen(b"v", rules, key=b"secret", headers=[("authorization", b"Bearer abc"), ("trace", b"1")])
    assert one.key.shown().text == "***et"
    assert [part.shown().text for _, part in one.headers()] == ["***bc", "1"]
    assert not one.key.contains("sec", b"sec")
    assert seen(b"v", rules).key.shown().form == "null"


def test_rules_are_of_topics_and_clusters():
    found = masks.parsed(mask("value.a", topics=["pay*"], clusters=["prod-*"]))
    assert found.of("payments", "prod-1").value
    assert found.of("payments").value
    assert not found.of("payments", "test")
    assert not found.of("orders", "prod-1")


@pytest.mark.parametrize(
    "wrong",
    [
        "mask = 1",
        "[[mask]]",
        "[[mask]]\nfields = []",
        "[[mask]]\nfields = ['a']",
        "[[mask]]\nfields = ['value..a']",
        "[[mask]]\nfields = ['header']",
        "[[mask]]\nfields = ['key']\nkeep_last = 99",
        "[[mask]]\nfields = ['key']\nx = 1",
        "[[mask]]\nfields = 'key'",
        "x = [",
    ],
)
def test_broken_rules_are_refused(wrong):
    with pytest.raises(ValueError, match=r"."):
        masks.parsed(wrong)


def test_records_of_the_cluster_s_own_topics_are_read():
    key = OffsetCommitKey(group="billing", topic="orders", partition=3).to_bytes()
    value = OffsetCommitValue(offset=42, metadata="<b>", commit_timestamp=1).to_bytes()
    one = seen(value, topic="__consumer_offsets", key=key)
    assert one.value.shown().form == "coordinator"
    assert one.key.fields()["data"] == {"group": "billing", "topic": "orders", "partition": 3}
    assert filters.parsed("value.data.offset=42")[0].holds(one)
    assert seen(None, topic="__consumer_offsets", key=key).value.shown().form == "null"
    strange = seen(b"\x00\x09x", topic="__consumer_offsets", key=struct.pack(">h", 99) + b"x").value.shown()
    assert "type 99" in strange.why

    key = TransactionLogKey(transactional_id="pay").to_bytes()
    value = TransactionLogValue(producer_id=7, transaction_status=4).to_bytes()
    one = seen(value, topic="__transaction_state", key=key)
    assert one.key.fields() == {"transactionalId": "pay"}
    assert (one.value.fields()["state"], one.value.fields()["producerId"]) == ("CompleteCommit", 7)
