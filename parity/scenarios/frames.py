"""Bytes that are no request, or not quite one: who closes the connection, and who answers what."""

import struct
from typing import Final

from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.envelope import EnvelopeRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from parity.wire import frame_of
from parity.world import World

BEYOND: Final = 200


def bad_frames(world: World) -> None:
    """Each kind of nonsense on a connection of its own."""
    _lengths(world)
    _versions(world)
    _bodies(world)


def _lengths(world: World) -> None:
    world.send_bytes("negative length", struct.pack(">i", -1) + b"x")
    world.send_bytes("more than may be sent", struct.pack(">i", 104857601) + b"x")
    world.send_bytes("http", b"GET / HTTP/1.1\r\n\r\n")
    world.send_bytes("length of nothing", struct.pack(">i", 0))
    world.send_bytes("three bytes", struct.pack(">i", 3) + b"abc")


def _versions(world: World) -> None:
    for api in world.table.values():
        world.send(f"{api.key.name} of the future", struct.pack(">hhih", api.key, BEYOND, 7, -1) + b"\0" * 8)
        world.send(f"{api.key.name} of version -1", struct.pack(">hhih", api.key, -1, 7, -1) + b"\0" * 8)
    for key in (-1, 52, 62, 71, 1000, 32767):
        world.send(f"key {key}", struct.pack(">hhih", key, 0, 7, -1) + b"\0" * 8)


def _bodies(world: World) -> None:
    good = frame_of(MetadataRequest(topics=[MetadataRequestTopic(name="frames")]), 1)
    world.send("cut in the client id", good[:11])
    world.send("cut in the body", good[:-3])
    world.send("array longer than the frame", struct.pack(">hhihi", 3, 1, 7, -1, 1 << 30))
    world.send("array of minus two", struct.pack(">hhihi", 3, 1, 7, -1, -2))
    world.send("string of minus five", struct.pack(">hhihih", 3, 1, 7, -1, 1, -5))
    world.send("null string that may not be null", struct.pack(">hhihih", 3, 1, 7, -1, 1, -1))
    world.send("no utf-8", struct.pack(">hhihih", 3, 1, 7, -1, 1, 2) + b"\xff\xfe")
    world.send("something behind the body", frame_of(MetadataRequest(topics=[]), 1) + b"more")
    world.send("no client id", struct.pack(">hhihi", 3, 1, 7, -1, 0))
    flexible = struct.pack(">hhih", 3, 9, 7, -1)
    world.send("unknown tag in the header", flexible + b"\x01\x63\x02hi" + b"\x01\x00\x00\x00\x00")
    world.send("unknown tag in the body", flexible + b"\x00" + b"\x01\x00\x00\x00\x01\x63\x02hi")
    world.send("tags out of order", flexible + b"\x00" + b"\x01\x00\x00\x00\x02\x09\x01a\x08\x01b")
    world.send("endless varint", flexible + b"\x00" + b"\xff" * 12)
    world.send("compact array longer than the frame", flexible + b"\x00" + b"\xff\xff\xff\xff\x07")
    software = ApiVersionsRequest(client_software_name="", client_software_version="1")
    world.ask("an envelope", EnvelopeRequest(request_data=good, client_host_address=b"\x7f\0\0\1"), 0)
    world.send("nameless software", frame_of(software, 3))
