"""A web server of the tests' own process, which stands for another service at the border of the code under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def serving(answer: Callable[[str, str], tuple[int, str]], logins: list[str | None] | None = None) -> Iterator[str]:
    """The address of a server.

    :param answer: returns status and body for the method and the path of each request.
    :param logins: gets the header ``Authorization`` of each request.
    """

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            if logins is not None:
                logins.append(self.headers.get("Authorization"))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answer(self.command, self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - what the base class calls

        def log_message(self, *_: object) -> None:
            """Log nothing to the test's stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
