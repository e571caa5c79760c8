"""The value of a credential as ``--add-config`` gives it: ``SCRAM-SHA-256=[iterations=N,password=P]``."""

import re
from typing import Final

from barnabas.cli.options import ToolError
from barnabas.core.scram import ITERATIONS_MIN, ScramMechanism

_CREDENTIAL: Final = re.compile(r"(?:iterations=([0-9]{1,9}),)?password=(.*)", re.DOTALL)


def scram_property(mechanism: ScramMechanism, text: str, *, name: str) -> tuple[int, str]:
    """The iterations and the password. Raises ToolError, which shows nothing of it. `name` is what the
    mechanism is called where there are too few iterations.
    """
    match = _CREDENTIAL.fullmatch(text)
    if match is None:
        raise ToolError(
            f"Invalid credential property {mechanism.name_of_kafka}=[hidden]: it is password=PASSWORD or "
            "iterations=NUMBER,password=PASSWORD"
        )
    iterations = ITERATIONS_MIN if match[1] is None else int(match[1])
    if iterations < ITERATIONS_MIN:
        raise ToolError(
            f"Iterations {iterations} is less than the minimum {ITERATIONS_MIN} required for {name}"
        )
    return iterations, match[2]
