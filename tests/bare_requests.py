"""`Asker`: bare requests to a broker at a port, one connection each."""

import socket
import struct

from barnabas.core.chunks import materialize
from barnabas.core.errors import ErrorCode
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

CLOSED = "the connection was closed"


class Asker:
    """Asks one broker."""

    def __init__(self, port):
        self._port = port

    def ask(self, request, version, *, spoil=None):
        """The response, or `CLOSED`. Where the frame has `spoil`, it gets bytes that are no UTF-8."""
        frame = materialize(encode_request(RequestHeader(request.api, version, 7, "asker"), request))
        if spoil is not None:
            assert spoil in frame
            frame = frame.replace(spoil, b"\xff" * len(spoil))
        answer = self.exchange(frame)
        if answer is None:
            return CLOSED
        return decode_response(request.api, version, answer)[1]

    def exchange(self, frame):
        """What comes back for a frame, without its length; None for a connection that is closed."""
        with socket.create_connection(("127.0.0.1", self._port), timeout=20) as sock:
            sock.sendall(frame)
            with sock.makefile("rb") as answers:
                head = answers.read(4)
                return answers.read(struct.unpack(">i", head)[0]) if len(head) == 4 else None

    def code(self, request, version, *, spoil=None):
        """The name of the answer's code; of additions that of the first partition."""
        answer = self.ask(request, version, spoil=spoil)
        if answer == CLOSED:
            return CLOSED
        if isinstance(request, AddPartitionsToTxnRequest):
            results = answer.results_by_topic_v3_and_below or answer.results_by_transaction[0].topic_results
            return ErrorCode.of(results[0].results_by_partition[0].partition_error_code).name
        return ErrorCode.of(answer.error_code).name
