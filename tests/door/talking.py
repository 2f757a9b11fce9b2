"""Talking to the applications of a session over their websockets: a cell's output, a terminal's words."""

from __future__ import annotations

import base64
import json
from uuid import uuid4

from websockets.asyncio.client import ClientConnection


async def executed(socket: ClientConnection, code: str) -> str:
    """What a cell prints, over a kernel's channels (Jupyter's messaging protocol 5.3)."""
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
    content = {"code": code, "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await socket.send(json.dumps(message))
    said: list[str] = []
    async for raw in socket:
        answer = json.loads(raw)
        if answer["parent_header"].get("msg_id") != header["msg_id"]:
            continue
        if answer["msg_type"] == "stream":
            said.append(str(answer["content"]["text"]))  # what is printed at once may come in parts
        elif answer["msg_type"] == "status" and answer["content"]["execution_state"] == "idle":
            return "".join(said)
    raise AssertionError(f"the kernel did not end the cell; it printed {said}")


def terminal_credential(token: str) -> str:
    """What ttyd demands of a page that it served."""
    return base64.b64encode(f"gshare:{token}".encode()).decode()


async def typed(socket: ClientConnection, credential: str, line: str, shown: str) -> str:
    """Type a line into ttyd; what it shows up to `shown`, which must not be part of the line."""
    await socket.send(json.dumps({"AuthToken": credential, "columns": 80, "rows": 24}).encode())
    await socket.send(f"0{line}\n".encode())
    seen = ""
    async for raw in socket:
        if raw[:1] == b"0":  # ttyd: output
            seen += raw[1:].decode(errors="replace") if isinstance(raw, bytes) else raw[1:]
            if shown in seen:
                return seen
    raise AssertionError(f"the terminal closed after {seen!r}")
