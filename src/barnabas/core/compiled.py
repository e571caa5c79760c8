"""What classes say to mypyc, which reads it while it compiles; it does nothing where the code runs.

`mypy_extensions` has the same decorator, but would be one more dependency at run time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    _Class = TypeVar("_Class", bound=type)

    def mypyc_attr(**_attributes: object) -> Callable[[_Class], _Class]:
        """For `allow_interpreted_subclasses=True`: a class that not only compiled ones inherit from."""
        return lambda decorated: decorated
