"""A schema registry for tests: the part of Confluent's REST API that serializers and pipelines speak."""

import base64
import http.server
import json
import sys
import threading
from contextlib import contextmanager
from pathlib import Path


class SchemaRegistry:
    """Schemas by subject and id; `asked` has the paths that were asked for."""

    def __init__(self, login=None):
        self.schemas, self.subjects, self.asked, self.login = {}, {}, [], login
        self.broken = False
        self.compiled = {}
        """Of Protobuf: descriptors by ids, as the registry compiles them."""

    def register(self, subject, schema, references=(), kind="AVRO", compiled=None):
        """The id of a schema, the same for the same one."""
        found = {"schema": schema, "references": list(references), "schemaType": kind}
        number = next((known for known, one in self.schemas.items() if one == found), len(self.schemas) + 1)
        self.schemas[number] = found
        if compiled is not None:
            self.compiled[number] = compiled
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def answer(self, method, path, body):
        """The status and the object of a request."""
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["subjects", subject, "versions", version] if method == "GET" and subject in self.subjects:
                place = len(self.subjects[subject]) if version == "latest" else int(version)
                number = self.subjects[subject][place - 1]
                found = {"subject": subject, "version": place, "id": number, **self.schemas[number]}
                if "format=serialized" in path and number in self.compiled:
                    found["schema"] = base64.b64encode(self.compiled[number]).decode()
                return 200, found
            case ["subjects", subject, "versions"] if method == "POST":
                return 200, {
                    "id": self.register(
                        subject, body["schema"], body.get("references", ()), body.get("schemaType", "AVRO")
                    )
                }
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def serving(registry, port=0):
    """Its address, while it answers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            registry.asked.append(self.path)
            login = base64.b64encode(":".join(registry.login).encode()).decode() if registry.login else None
            if registry.broken:
                status, found = 500, {"error_code": 50001}
            elif login is not None and self.headers.get("Authorization") != f"Basic {login}":
                status, found = 401, {"error_code": 401}
            else:
                status, found = registry.answer(self.command, self.path, body)
            text = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = _answer  # noqa: N815 - http.server's names

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main(port, file):
    """A registry of a process of its own, until it is killed, with what a file has of `SchemaRegistry`."""
    saved, registry = json.loads(Path(file).read_text()), SchemaRegistry()
    registry.schemas = {int(number): one for number, one in saved["schemas"].items()}
    registry.subjects = saved["subjects"]
    with serving(registry, int(port)):
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
