"""Tokens for log-ins with OAUTHBEARER, and a server that gives keys and tokens, or misbehaves."""

import base64
import contextlib
import http.server
import json
import threading
import time

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
LOGIN = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


def claims(**more):
    """Of a token for alice that is good for an hour; None takes a claim away."""
    now = int(time.time())
    given = {"sub": "alice", "iat": now, "exp": now + 3600, **more}
    return {name: value for name, value in given.items() if value is not None}


def signed(key=RSA, algorithm="RS256", kid="one", headers=None, **more):
    """A token with a signature."""
    return jwt.encode(claims(**more), key, algorithm, headers={"kid": kid, **(headers or {})})


def part(value):
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def unsecured(header=None, signature="", **more):
    """A token without one."""
    return f"{part(header or {'alg': 'none'})}.{part(claims(**more))}.{signature}"


def jwks(**keys):
    """The set of keys that has these, by their ids; a private key stands for its public one."""
    found = []
    for kid, key in keys.items():
        kind = (
            jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        )
        found.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"})
    return {"keys": found}


def first_message(token, authzid="", **extensions):
    """What a client says first."""
    pairs = "".join(f"\x01{name}={value}" for name, value in extensions.items())
    return f"n,{f'a={authzid}' if authzid else ''},\x01auth=Bearer {token}{pairs}\x01\x01".encode()


class AuthorizationServer:
    """Answers what `answer` says; each request is kept."""

    def __init__(self):
        self.requests = []
        self.status = 200
        self.body = b"{}"
        self.headers = {}
        self.drips = False
        """Whether it sends a little now and then, without end."""
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length") or 0)
                outer.requests.append((self.command, self.path, dict(self.headers), self.rfile.read(length)))
                outer.hold.wait(30)
                with contextlib.suppress(OSError):
                    while outer.drips:
                        self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                        time.sleep(0.005)
                    self.send_response(outer.status)
                    for name, value in outer.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(outer.body)))
                    self.end_headers()
                    self.wfile.write(outer.body)

            do_POST = do_GET  # noqa: N815 - the name is the library's

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def gives(self, value, status=200):
        self.status, self.body = status, value if isinstance(value, bytes) else json.dumps(value).encode()

    def close(self):
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
