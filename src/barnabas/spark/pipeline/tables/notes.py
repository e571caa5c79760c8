"""Small files with an object of JSON, which are replaced whole: what a pipeline keeps for its next start."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from barnabas.core.synchronise import synchronise
from barnabas.spark.errors import PipelineError


def read_note(path: Path, what: str) -> dict[str, Any] | None:
    """The object, None where there is no file. Raises PipelineError for one that is damaged; `what` is what
    it should be.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise TypeError("it is no object of JSON")
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(path, what, error) from None
    return found


def damaged(path: Path, what: str, error: Exception) -> PipelineError:
    """The error for a file that is not what it should be."""
    return PipelineError(f"{path} is no {what}: {error}")


def replace_note(path: Path, found: Mapping[str, Any]) -> None:
    """Writes the file anew. It is on the disk when this returns, the old one or the new one behind a kill."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(found), encoding="utf-8")
    synchronise(new)
    new.replace(path)
    synchronise(path.parent)
