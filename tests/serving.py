"""A small HTTP server inside the process of a test, whose clients may break off."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Says nothing of clients that go away, as operators do that are killed in the middle of a question.

    Not only for quiet: printing a traceback parses source in the connection's thread, and two threads of CPython 3.11 that parse at
    once fail with "AST constructor recursion depth mismatch", whichever test the other one belongs to.
    """

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What is wrong with the server itself is still told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
