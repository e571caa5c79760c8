"""A connection between a client and the broker, without a socket: requests that arrive together."""

import struct

from barnabas.core.chunks import materialize
from barnabas.network.conversation import Conversation
from barnabas.network.frames import FrameReader, ReceiveMemory
from barnabas.network.peer import ListenerId
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request


def frame(request, version, correlation_id=1):
    return materialize(encode_request(RequestHeader(request.api, version, correlation_id, "t"), request))[4:]


class Line:
    """One such connection; `send` is one turn of the loop or several."""

    def __init__(self, world):
        self.world = world
        self.woken = False
        self.conversation = Conversation(
            world.dispatcher,
            self,
            FrameReader(ReceiveMemory(), 100_000_000),
            world.clock,
            listener=ListenerId("PLAINTEXT", "PLAINTEXT"),
            address=("127.0.0.1", 5000),
            parked_max=500,
        )

    def wake(self):
        self.woken = True

    def abort(self, error):
        raise error

    def send(self, *frames):
        self.unsent = memoryview(b"".join(struct.pack(">i", len(each)) + each for each in frames))
        self.read()

    def read(self):
        """Receives as a transport does, which reads while it may."""
        while self.unsent and self.conversation.wants_read:
            buffers, data = self.conversation.buffers(), self.unsent
            count = 0
            for buffer in buffers:
                part = data[count : count + len(buffer)]
                buffer[: len(part)] = part
                count += len(part)
            self.unsent = data[count:]
            self.conversation.received(count)

    def turn(self):
        """One turn of the loop."""
        self.world.clock.advance(0)
        if self.woken:
            self.woken = False
            while self.conversation.runnable:
                self.conversation.resume()
        self.read()

    def answers(self, api, version):
        """The answers that are there: correlation ids and responses."""
        data, answers = materialize(self.conversation.take_output()), []
        while data:
            end = 4 + struct.unpack_from(">i", data)[0]
            answers.append(decode_response(api, version, data[4:end]))
            data = data[end:]
        return answers
