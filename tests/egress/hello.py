"""A web server by plain HTTP on an address of its own under 127.7.0.0/16, which remembers what it was asked for."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

WORD = b"hello\n"


class Hello(NamedTuple):
    address: str
    port: int
    paths: list[str]


@contextmanager
def hello() -> Iterator[Hello]:
    """Says hello to every GET."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(WORD)))
            self.end_headers()
            self.wfile.write(WORD)

        def log_message(self, *_: object) -> None:
            pass

    address = f"127.7.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
    with _Server((address, 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        try:
            yield Hello(address, server.server_address[1], paths)
        finally:
            server.shutdown()
            serving.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A connection that a killed proxy leaves is no trouble of ours."""
