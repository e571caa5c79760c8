"""How fast an address may connect: which limit it has, and what becomes of one that comes too early."""

import asyncio

import pytest
from network_harness import framed

from barnabas.network import socket_server as module
from barnabas.network.address_rates import ADDRESSES_MAX, AddressRates
from standing_clock import Time

HOST = "127.0.0.1"


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def rates(time):
    return AddressRates(time, samples=11, window_ms=1000)


def test_an_address_has_its_own_limit_or_that_of_all_or_none(rates):
    assert [rates.throttle_ms("10.0.0.1") for _ in range(100)] == [0] * 100
    rates.default = 1
    rates.set("10.0.0.2", 2)
    waits = {host: [rates.throttle_ms(host) for _ in range(22)] for host in ("10.0.0.1", "10.0.0.2")}
    # Ten whole samples count, and the current one.
    assert [sum(wait == 0 for wait in each) for each in waits.values()] == [10, 20]
    rates.set("10.0.0.2", None)
    assert rates.throttle_ms("10.0.0.2") > 0


def test_what_was_one_too_many_is_not_counted_and_waits_for_a_sample_at_most(rates, time):
    rates.default = 1
    for _ in range(10):
        assert rates.throttle_ms(HOST) == 0
    assert [rates.throttle_ms(HOST) for _ in range(50)] == [1000] * 50
    time.now_ms = 10_500
    assert rates.throttle_ms(HOST) == 500, "ten came, and this one is the eleventh"
    time.now_ms = 11_000
    assert rates.throttle_ms(HOST) == 0


def test_with_a_limit_of_zero_nobody_comes(rates):
    rates.set(HOST, 0)
    assert rates.throttle_ms(HOST) == 1000


def test_no_number_of_addresses_takes_memory_without_end(rates, time):
    rates.default = 1
    for _ in range(10):
        rates.throttle_ms(HOST)
    for number in range(3 * ADDRESSES_MAX):
        rates.throttle_ms(f"fd00::{number:x}")
    assert rates.throttle_ms(HOST) > 0, "the one that came most is remembered"
    assert repr(rates) == "<AddressRates limits=0 default=1>"


def test_a_connection_that_comes_too_early_is_held_and_closed(serve, rates):
    rates.set(HOST, 1)

    async def scenario(harness):
        for number in range(10):
            client = await harness.client()
            client.send(framed(b"%d" % number))
            assert await client.response() == b"%d" % number
        early = await harness.client()
        assert await early.reader.read() == b""
        assert len(harness.server.connections) == 10

    serve(scenario, address_rates=rates, quota_window_ms=1000)


def test_so_many_are_held_and_more_are_closed_at_once(serve, rates, monkeypatch):
    monkeypatch.setattr(module, "_THROTTLED_MAX", 2)
    rates.set(HOST, 0)

    async def scenario(harness):
        clients = [await harness.client() for _ in range(3)]
        assert await clients[2].reader.read() == b""
        assert not any(client.reader.at_eof() for client in clients[:2])
        # Those that are left go with the server.
        await harness.server.stop(grace_ms=0)
        assert [await asyncio.wait_for(client.reader.read(), 5) for client in clients[:2]] == [b"", b""]

    serve(scenario, address_rates=rates)
