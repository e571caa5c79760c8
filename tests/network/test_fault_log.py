"""How many lines of the log strangers can make a broker write."""

import logging

import pytest
from network_harness import framed

from barnabas.core import fault_log
from barnabas.core.eventlog import EventLog
from barnabas.core.fault_log import LINES_A_SECOND, LINES_MAX, SUMMARY_MS, FaultLog
from standing_clock import Clock


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "barnabas.network")

    def new_ones(event):
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return [line for line in found if line.startswith(event)]

    return new_ones


def test_beyond_so_many_lines_they_are_counted_and_come_slowly(lines):
    clock = Clock()
    faults = FaultLog(clock, EventLog("network"), "network")
    for number in range(LINES_MAX + 50):
        faults.info("network.wrong", number=number)
    assert lines("network.wrong")[-1] == f"network.wrong number={LINES_MAX - 1}"
    clock.advance(SUMMARY_MS)
    assert lines("network") == ["network.lines_left_out count=50"]
    more = SUMMARY_MS // 1000 * LINES_A_SECOND
    for number in range(more + 1):
        faults.warning("network.wrong", number=number)
    assert len(lines("network")) == more
    faults.close()
    assert lines("network") == ["network.lines_left_out count=1"]
    clock.advance(10 * SUMMARY_MS)
    assert lines("network") == []


def test_lines_that_are_not_shown_take_no_room(lines, caplog):
    faults = FaultLog(Clock(), EventLog("network"), "network")
    caplog.set_level(logging.WARNING, "barnabas.network")
    for _ in range(LINES_MAX + 1):
        faults.info("network.hidden")
    faults.warning("network.shown")
    faults.close()
    assert lines("network") == ["network.shown"]


def test_connections_that_are_closed_for_what_they_sent_are_bounded_together(serve, lines, monkeypatch):
    monkeypatch.setattr(fault_log, "LINES_MAX", 3)
    monkeypatch.setattr(fault_log, "LINES_A_SECOND", 0)

    async def scenario(harness):
        for _ in range(5):
            client = await harness.client()
            client.send(b"\xff" * 4)
            assert await client.is_closed()
        client = await harness.client()
        client.send(framed(b"polite"))
        assert await client.response() == b"polite"

    serve(scenario)
    found = lines("network.")
    assert [line.partition(" ")[0] for line in found] == ["network.connection_closed"] * 3 + [
        "network.lines_left_out"
    ]
    assert "count=2" in found[-1]
