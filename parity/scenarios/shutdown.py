"""Brokers that say they are about to stop. The last scenario: a controller believes them."""

from collections.abc import Callable

from barnabas.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from parity.world import World


def controlled_shutdown(world: World) -> None:
    """One that is not there, one of another life, and the broker itself."""
    for version in range(4):
        world.ask("unknown broker", _of(9), version)
        world.ask("negative broker", _of(-1), version)
        world.ask("unknown broker with an epoch", _of(9, 5), version)
    for version in (2, 3):
        world.ask("stale epoch", _of(0, 0), version)
        world.ask("epoch to come", _of(0, 1 << 60), version)
    for version in (0, 1, 2, 3):
        world.ask("itself", _of(0), version)


def _of(broker: int, epoch: int = -1) -> Callable[[int], ControlledShutdownRequest]:
    return lambda _version: ControlledShutdownRequest(broker_id=broker, broker_epoch=epoch)
