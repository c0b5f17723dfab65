"""A server by TLS on an address of its own under 127.7.0.0/16: static files, and a memory of what it was asked."""

import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

NETWORK = "127.7.0.0/16"


class Request(NamedTuple):
    method: str
    path: str
    host: str
    authorization: str | None


class Upstream(NamedTuple):
    address: str
    port: int
    requests: list[Request]


@contextmanager
def upstream(directory: Path, tls: ssl.SSLContext) -> Iterator[Upstream]:
    """Serves the files of the directory. `/mirror` answers with the headers that came."""
    requests: list[Request] = []

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(directory))

        def do_GET(self) -> None:
            authorization, host = self.headers.get("Authorization"), self.headers.get("Host", "")
            requests.append(Request("GET", self.path, host, authorization))
            if self.path != "/mirror":
                super().do_GET()
                return
            said = str(self.headers).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.send_header("X-Mirror", authorization or "")
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    address = f"127.7.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    with ThreadingHTTPServer((address, 0), Handler) as server:
        server.daemon_threads = True
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield Upstream(address, server.server_address[1], requests)
        finally:
            server.shutdown()
            serving.join()
