"""moto's S3 in a process of its own: clients that hold Python's lock while they ask would wait for ever.

store_server.py prints its port. PUT /fault with an object of JSON changes how it answers from then on:
``pattern`` of the requests ("PUT /lake/t/.*"), ``kind`` "busy", "lost", "slow", "expired", "killed" or
"killed-behind", one of how many (``every``) and how often (``times``); GET /fault has how many there were.
What is killed answers nobody for a moment, and has all its objects then: moto has them in memory alone.
"""

import json
import re
import socket
import sys
import time

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

sys.path.insert(0, f"{__file__.rpartition('/')[0]}/..")

from serving import die_with_parent

EXPIRED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"""
NONE = {"pattern": "$^", "kind": "", "every": 1, "times": 1 << 30, "seen": 0, "done": 0,
        "down_until": 0.0}  # fmt: skip
DOWN_S = 0.3
fault = dict(NONE)


def control(environ, start_response):
    if environ["REQUEST_METHOD"] == "PUT":
        given = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        fault.update({**NONE, **given})
    body = json.dumps(fault).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def hang_up(environ):
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


def answer(environ, start_response):
    if environ["PATH_INFO"] == "/fault":
        return control(environ, start_response)
    if time.monotonic() < fault["down_until"]:
        hang_up(environ)
    kind = ""
    if re.match(fault["pattern"], f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"):
        fault["seen"] += 1
        if fault["seen"] % fault["every"] == 0 and fault["done"] < fault["times"]:
            kind = fault["kind"]
            fault["done"] += 1
    if kind == "busy":
        start_response("503 Slow Down", [("Content-Length", "0")])
        return [b""]
    if kind == "expired":
        length = ("Content-Length", str(len(EXPIRED)))
        start_response("400 Bad Request", [("Content-Type", "application/xml"), length])
        return [EXPIRED]
    if kind == "slow":
        time.sleep(0.05)
    if kind.startswith("killed"):
        fault["down_until"] = time.monotonic() + DOWN_S
    if kind == "killed":
        hang_up(environ)
    found = application(environ, start_response)
    if kind in {"lost", "killed-behind"}:  # it was done, and nobody hears of it
        b"".join(found)
        hang_up(environ)
    return found


application = DomainDispatcherApplication(create_backend_app)
die_with_parent()
server = make_server("127.0.0.1", 0, answer, threaded=True)
sys.stdout.write(f"{server.server_port}\n")
sys.stdout.flush()
server.serve_forever()
