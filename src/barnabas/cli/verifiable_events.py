"""What the verifiable tools share: events as lines of JSON, and an end in order at a signal."""

import asyncio
import json
import signal
from collections.abc import Coroutine
from typing import Any, Final

import click

from barnabas.operations.clock import now_ms

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def print_event(name: str, **fields: Any) -> None:
    """One line on stdout; the names of the fields are Kafka's."""
    event = {"timestamp": now_ms(), "name": name, **fields}
    click.echo(json.dumps(event, separators=(",", ":"), ensure_ascii=False))


async def run_until_signal(work: Coroutine[Any, Any, None]) -> int:
    """Runs the work, which SIGTERM and SIGINT cancel once, so that it can end in order.

    The exit code: 0, or 128 and the number of the signal, as a JVM ends after its shutdown hooks.
    """
    received: list[signal.Signals] = []
    task = asyncio.ensure_future(work)

    def stop(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
    return 128 + received[0] if received else 0
