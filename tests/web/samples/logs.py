"""The logs of a session: written, none, and a cluster that does not answer."""

from __future__ import annotations

from typing import Any

from cluster.domain.logs import LogLine
from tests.web.samples.story import NOW

_TEXT = """\
[I 2026-10-14 16:35:12.402 ServerApp] jupyterlab | extension was successfully loaded.
[I 2026-10-14 16:35:12.466 ServerApp] Serving notebooks from local directory: /home/work
[I 2026-10-14 16:35:12.467 ServerApp] Jupyter Server is running at: http://s-1-2:8888/lab/lab
[W 2026-10-14 16:36:40.120 ServerApp] 404 GET /lab/api/contents/vit-ft/old.ipynb (10.0.4.7) 3.21ms referer=http://console.test/lab/tree/vit-ft/a-rather-long-name-of-a-notebook-that-somebody-gave.ipynb
[I 2026-10-14 16:37:02.911 ServerApp] Kernel started: 5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2

Traceback (most recent call last):
  File "/home/work/train.py", line 88, in <module>
    loss = model(batch.to("cuda")).loss
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
epoch 3:  41%|████▏     | 412/1000 [01:02<01:28,  6.63it/s]
데이터를 읽는 중: 3 / 12""".splitlines()


def session_logs(**fields: Any) -> dict[str, Any]:
    """Two applications wrote something."""
    lab = [LogLine("lab", text) for text in _TEXT]
    known: dict[str, Any] = {
        "now": NOW,
        "session": {"id": "019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0", "name": "vit-ft", "state": "running"},
        "run": 2,
        "lines": [*lab * 4, LogLine("terminal", "ttyd 1.7.7 (libwebsockets 4.3.3)")],
        "lines_max": 200,
        "title": "",
        "text": "",
        "is_failure": False,
        "is_live": True,
    }
    return known | fields


def none_yet() -> dict[str, Any]:
    """It has not started."""
    title, text = "No logs yet", "They begin when its applications start."
    return session_logs(lines=[], run=0, title=title, text=text)


def unavailable() -> dict[str, Any]:
    """Its cluster does not answer."""
    text = "Its logs cannot be read now. They come back here by themselves; the session is not touched by it."
    return session_logs(lines=[], title="The cluster does not answer", text=text, is_failure=True)
