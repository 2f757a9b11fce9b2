"""The public listener: console and live socket on the console's host, sessions on theirs, nothing else.

`/internal/v1` and its neighbours do not exist here; `gshare_site.asgi_internal` serves them on another socket.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gshare_site.settings")

import django

django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402 -- models are ready only now

from gshare_site.consumers import live_application  # noqa: E402 -- likewise
from gshare_site.edge import (  # noqa: E402 -- likewise
    Application,
    BodyLimit,
    HostRouter,
    Receive,
    Scope,
    Send,
    TrustedProxies,
    refuse,
)
from gshare_site.embedded.proxy import application as session_proxy  # noqa: E402 -- likewise
from gshare_site.environment import require_serving  # noqa: E402 -- likewise
from gshare_site.threaded import ThreadedHandler  # noqa: E402 -- likewise

require_serving(settings.GSHARE)

LIVE_PATH = "/ws/live/"
pages = BodyLimit(ThreadedHandler(), 2 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


async def console(scope: Scope, receive: Receive, send: Send) -> None:
    """Pages and API by Django, the one websocket by Channels."""
    if scope["type"] == "http":
        await pages(scope, receive, send)
    elif scope["path"] == LIVE_PATH:
        await live_application(scope, receive, send)
    else:
        await refuse(scope, send, 404, "")


application: Application = TrustedProxies(
    HostRouter(
        console=console,
        sessions=session_proxy,
        console_host=settings.GSHARE.public_host,
        sessions_domain=settings.GSHARE.sessions_domain,
    ),
    settings.GSHARE.trusted_proxies,
)
