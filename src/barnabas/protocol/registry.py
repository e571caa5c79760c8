"""Which class a key's request and response are; a module is loaded when its key is first asked for."""

from importlib import import_module
from typing import Generic, TypeVar

from barnabas.protocol.api import ApiKey
from barnabas.protocol.message import Message, Request, Response

M = TypeVar("M", bound=Message)


class Messages(dict[ApiKey, type[M]], Generic[M]):
    """Key -> class, filled on demand; holds only what was asked for.
    Raises KeyError for a key without messages.
    """

    def __init__(self, suffix: str) -> None:
        super().__init__()
        self._suffix = suffix

    def __missing__(self, key: ApiKey) -> type[M]:
        try:
            api = ApiKey(key)
            module = import_module(f"barnabas.protocol.messages.{api.name.lower()}")
        except (ValueError, ModuleNotFoundError):
            raise KeyError(key) from None
        name = "".join(word.capitalize() for word in api.name.split("_"))
        cls: type[M] = getattr(module, name + self._suffix)
        self[api] = cls
        return cls


REQUESTS: Messages[Request] = Messages("Request")
RESPONSES: Messages[Response] = Messages("Response")
