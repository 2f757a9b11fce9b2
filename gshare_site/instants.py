"""A page shows one instant: whoever only reads asks for the time once.

Guarantees: everything on a page that is read (GET, HEAD) is as of the same moment, with one question to the database's clock
instead of one a part. What changes something reads the clock after its locks, as often as it has to.
"""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from gshare_core.kit import clock


class OneInstant:
    """Middleware; see the module."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.method not in ("GET", "HEAD"):
            return self.get_response(request)
        with clock.standing():
            return self.get_response(request)
