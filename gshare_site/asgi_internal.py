"""The internal listener: callbacks of clusters, keys, health, metrics, forward-auth. For any Host; told apart by its socket.

Runs as its own process with `gshare_site.settings.internal`, so a flood of callbacks or long polls never takes a page's turn.
While it runs it stamps a heartbeat row: time without stamps is our own silence and is held against no cluster.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gshare_site.settings.internal")

from django.core.asgi import get_asgi_application

django = get_asgi_application()

from django.conf import settings  # noqa: E402 -- models are ready only now

from cluster.heartbeat import Stamping  # noqa: E402 -- likewise
from gshare_site.edge import BodyLimit, Receive, Scope, Send  # noqa: E402 -- likewise
from gshare_site.environment import require_serving  # noqa: E402 -- likewise
from sessions_app.access_views import verify  # noqa: E402 -- likewise

require_serving(settings.GSHARE)

VERIFY_PATH = "/internal/v1/access/verify"
callbacks = BodyLimit(django, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Forward-auth on the short way, everything else through Django; no websockets here."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["type"] == "http" and scope["path"] == VERIFY_PATH:
        await verify(scope, receive, send)
    elif scope["type"] == "http":
        await callbacks(scope, receive, send)


async def _live(receive: Receive, send: Send) -> None:
    """The server's life: stamps from its start to its end."""
    stamping = Stamping()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            stamping.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            stamping.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return
