"""The sockets of the embedded default, opened before anything else starts.

The supervisor owns them and hands them to the web processes: a busy port is known at once, several processes share one
socket, and while one restarts its clients wait instead of being refused. Plain http is served to localhost only.
"""

import socket
from contextlib import suppress
from urllib.parse import urlsplit

import psutil

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
BACKLOG = 512


class ListenError(Exception):
    """An address cannot or must not be listened on; the message names the setting."""


def refuse_plain_http(*, bind: str, public_url: str, trusted_proxies: tuple[str, ...]) -> None:
    """Raise ListenError unless browsers can use what would be served: https behind a proxy, or http on localhost."""
    parts = urlsplit(public_url)
    if parts.scheme == "https":
        if bind not in LOOPBACK and not trusted_proxies:
            raise ListenError(
                f"GSHARE_BIND={bind} with an https GSHARE_PUBLIC_URL needs GSHARE_TRUSTED_PROXIES: "
                "TLS ends at a proxy in front, and only a named proxy may say so"
            )
        return
    if parts.hostname != "localhost":
        raise ListenError(
            f"GSHARE_PUBLIC_URL={public_url}: plain http is served at localhost only. Browsers keep the console's "
            "__Host- cookies for https and for localhost, and passwords must not cross a network in the clear. "
            "Put a proxy with TLS in front and set an https GSHARE_PUBLIC_URL and GSHARE_TRUSTED_PROXIES."
        )
    if bind not in LOOPBACK:
        raise ListenError(
            f"GSHARE_BIND={bind}: plain http is bound to 127.0.0.1 only, so that nobody else on the network reaches it. "
            "Put a proxy with TLS in front and set an https GSHARE_PUBLIC_URL and GSHARE_TRUSTED_PROXIES."
        )


def open_listener(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket that children inherit. Raises ListenError that names the port, its user where known, and the setting."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        user = _user_of(port)
        who = f" by {user}" if user else ""
        reason = f"is already in use{who}" if error.errno == 98 else f"cannot be used ({error.strerror})"
        raise ListenError(f"port {port} on {host} {reason}; set {setting} to another one") from None
    listener.set_inheritable(True)
    return listener


def _user_of(port: int) -> str:
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port:
                return f"{psutil.Process(connection.pid).name()} (process {connection.pid})" if connection.pid else ""
    return ""
