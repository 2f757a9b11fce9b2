"""Somebody who uses the console's addresses over real HTTP, for benches."""

from __future__ import annotations

import re
from typing import Any

import httpx


class Person:
    """Somebody signed in, with cookies carried by hand (they are bound to secure connections).

    `url` is the console's address as browsers see it; `through` is where to connect, when it is another one.
    """

    def __init__(self, url: str, *, through: str = "") -> None:
        self.url, self._through = url, through or url
        self.cookies: dict[str, str] = {}
        self.client = httpx.Client(timeout=60)

    def sign_in(self, email: str, password: str) -> bool:
        """By the console's own form; answers whether it let him in."""
        page = self.ask("GET", "/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        form = {"email": email, "password": password, "csrfmiddlewaretoken": token[1] if token else ""}
        return self.ask("POST", "/login/", data=form).status_code == 302

    def ask(self, method: str, path: str, *, base: str = "", **what: Any) -> httpx.Response:
        """One request; answers that set cookies are remembered."""
        headers = {"Cookie": "; ".join(f"{k}={v}" for k, v in self.cookies.items()), "Origin": self.url}
        headers |= {"Host": self.url.partition("//")[2]} if self._through != self.url else {}
        headers |= {"X-CSRFToken": self.cookies.get("__Host-csrftoken", ""), **what.pop("headers", {})}
        answer = self.client.request(method, (base or self._through) + path, headers=headers, **what)
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.split(";", 1)[0].partition("=")
            self.cookies[name] = value
        self.client.cookies.clear()
        return answer
