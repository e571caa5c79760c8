"""Variables of the environment in the texts of a pipeline's file: ``"${BROKERS}"``."""

import re
from collections.abc import Mapping
from typing import Any, Final

from barnabas.spark.errors import PipelineError

_REFERENCE: Final = re.compile(r"(\$?)\$\{([^}]*)(\}?)")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def expanded(value: Any, environment: Mapping[str, str], key: str = "") -> Any:
    """The value with each variable in its texts replaced, in tables and lists too.

    ``$${`` is a plain ``${``. Raises PipelineError for a variable that is not set, and for what names none.
    """
    if isinstance(value, dict):
        return {
            name: expanded(one, environment, f"{key}.{name}" if key else name) for name, one in value.items()
        }
    if isinstance(value, list):
        return [expanded(one, environment, key) for one in value]
    return _text(value, environment, key) if isinstance(value, str) else value


def _text(text: str, environment: Mapping[str, str], key: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        dollar, name, end = found.groups()
        if dollar:
            return found.group()[1:]
        if not end or not _NAME.fullmatch(name):
            raise PipelineError(
                # The text is not shown: it may be a password with a ${ in it.
                f"{key} has a ${{ that names no variable of the environment: it must be as ${{NAME}}; "
                "a plain ${ is written $${"
            )
        if name not in environment:
            raise PipelineError(
                f"{key} has ${{{name}}}, and the environment has no variable {name}: set it; "
                f"a plain ${{{name}}} is written $${{{name}}}"
            )
        return environment[name]

    return _REFERENCE.sub(replaced, text)
