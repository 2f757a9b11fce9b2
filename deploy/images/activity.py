# ruff: noqa: INP001 -- one file, copied into images
"""What is done in a session's terminals, editor and notebooks, told to the cluster's operator: runs inside the session's container.

Started by the image beside its applications, with the session's user and environment; needs Python 3.11 or later and
nothing else. `GET /activity` on GSHARE_PORT_ACTIVITY, with the session's token, answers

    {"input_at": "2026-11-30T12:00:08Z", "edited_at": null, "kernels": [{"execution_state": "idle", "last_activity": "…"}]}

`input_at`: when somebody last typed into a terminal (of ttyd, JupyterLab, VS Code or any program); `edited_at`: when VS Code
last put a saved file into its local history. Null: never. Output, open tabs and polls are neither. `kernels`: what JupyterLab
(GSHARE_PORT_LAB) says of its own, so that the operator has one to ask and not two; null where it says nothing, and then the
operator asks it itself.
"""

from __future__ import annotations

import hmac
import http.client
import json
import os
import socket
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

PTYS = Path("/dev/pts")
HISTORY = Path(".local/share/code-server/User/History")
HISTORY_MAX = 2_000  # the folder is the user's own to fill
SECONDS = 5
# Without the parameter the question itself would be Jupyter's last activity.
KERNELS = "/lab/api/kernels?no_track_activity=1"
KERNELS_BYTES, KERNELS_SECONDS = 1 << 19, 1.5


def last_input(folder: Path) -> float | None:
    """When a program last read what somebody typed into a terminal.

    Linux moves a terminal's access time then, in steps of about 8 s, and its modification time for output; opening one sets
    both, and its change time, which nothing moves later.
    """
    times = []
    for path in folder.glob("[0-9]*"):
        try:
            found = path.stat()
        except OSError:
            continue  # closed meanwhile
        if found.st_atime > found.st_ctime:
            times.append(found.st_atime)
    return max(times, default=None)


def last_edit(home: Path) -> float | None:
    """When VS Code last kept an old version of a file that was saved."""
    try:
        with os.scandir(home / HISTORY) as entries:
            return max(
                (entry.stat(follow_symlinks=False).st_mtime for entry in islice(entries, HISTORY_MAX)), default=None
            )
    except OSError:
        return None


def kernels(port: str, token: str) -> list[dict[str, Any]] | None:
    """What JupyterLab says of its kernels; None where it does not, in time and in shape."""
    lab = http.client.HTTPConnection("127.0.0.1", int(port), timeout=KERNELS_SECONDS)
    try:
        lab.request("GET", KERNELS, headers={"Authorization": f"token {token}"})
        answer = lab.getresponse()
        if answer.status != 200:
            return None
        found = json.loads(answer.read(KERNELS_BYTES))
        return [{key: each[key] for key in ("execution_state", "last_activity")} for each in found]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return None
    finally:
        lab.close()


def _text(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


class Handler(BaseHTTPRequestHandler):
    """One question. `token` is what it must carry."""

    token = ""
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer `/activity`."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"token {self.token}".encode()):
            self.send_error(401)
            return
        if self.path != "/activity":
            self.send_error(404)
            return
        home = Path(os.environ.get("HOME") or "/home/work")
        lab = os.environ.get("GSHARE_PORT_LAB")
        said = {
            "input_at": _text(last_input(PTYS)),
            "edited_at": _text(last_edit(home)),
            "kernels": kernels(lab, self.token) if lab else None,
        }
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing: the container's log is the applications'."""


class Server(ThreadingHTTPServer):
    """Listens on every address, of both families where the machine has IPv6."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        """Take IPv4 on the same socket."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def main() -> None:
    """Serve for ever. Raises KeyError, naming it, where a variable is missing."""
    Handler.token = os.environ["GSHARE_TOKEN"]
    Server(("", int(os.environ["GSHARE_PORT_ACTIVITY"])), Handler).serve_forever()


if __name__ == "__main__":
    main()
