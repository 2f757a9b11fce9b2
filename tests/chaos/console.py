"""Somebody at the console while its processes die: repeats what got no answer, as a browser's owner would.

A create is repeated under the same Idempotency-Key; a verb is repeated until it is accepted or refused because it already
took effect. What the server never says is a 500: the answers that count as "ask again" are a broken connection and a 503.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx

from tests.e2e.running import Demo
from tests.waiting import until

BOUND = 150  # seconds: whatever takes several killed processes with their back-offs, on a loaded machine
PATIENCE = BOUND
ACCEPTED = frozenset({200, 201, 202})
ASK_AGAIN = 503
PAIR = {"cpu_milli": 1_000, "memory_mib": 2_048, "scratch_gib": 1, "cards": 2}


@dataclass(frozen=True)
class Console:
    """A signed-in person."""

    demo: Demo
    cookies: dict[str, str]

    @classmethod
    def sign_in(cls, demo: Demo, who: str) -> Console:
        """By the login page, as everybody."""
        person = demo.people[who]
        page = httpx.get(f"{demo.url}/login/", timeout=PATIENCE)
        cookies = _cookies(page)
        form = {
            "email": person["email"],
            "password": person["password"],
            "csrfmiddlewaretoken": cookies["__Host-csrftoken"],
        }
        headers = {"Cookie": _line(cookies), "Origin": demo.url, "Referer": f"{demo.url}/login/"}
        answer = httpx.post(f"{demo.url}/login/", data=form, headers=headers, timeout=PATIENCE)
        assert answer.status_code == 302, answer.text
        return cls(demo, cookies | _cookies(answer))

    @property
    def cookie_line(self) -> str:
        """The Cookie header."""
        return _line(self.cookies)

    def once(self, method: str, path: str, body: Any = None, *, key: str = "", timeout: float) -> httpx.Response:
        """One request, sent once."""
        headers = {
            "Cookie": self.cookie_line,
            "Origin": self.demo.url,
            "X-CSRFToken": self.cookies["__Host-csrftoken"],
            **({"Idempotency-Key": key} if key else {}),
        }
        url = f"{self.demo.url}/api/v1{path}"
        return httpx.request(method, url, json=body, headers=headers, timeout=timeout)

    def call(self, method: str, path: str, body: Any = None, *, key: str = "") -> httpx.Response:
        """One request, repeated while nobody answers it."""

        def answered() -> httpx.Response | None:
            try:
                answer = self.once(method, path, body, key=key, timeout=PATIENCE)
            except httpx.TransportError:
                return None
            assert answer.status_code < 500 or answer.status_code == ASK_AGAIN, (answer.status_code, answer.text[:500])
            return answer if answer.status_code != ASK_AGAIN else None

        found = until(lambda: _truthy(answered()), within=PATIENCE, what=f"an answer to {method} {path}")
        return found[0]

    def create(self, name: str, tier: str, image: str, *, key: str, **fields: Any) -> str:
        """Ask for a session that is not refused; answers its id."""
        answer = self.ask_for(name, tier, image, key=key, **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def ask_for(self, name: str, tier: str, image: str, *, key: str, **fields: Any) -> httpx.Response:
        """Ask for a session of a size (`cpu` without a card, `pair` both cards of the scarcest model)."""
        presets = self.call("GET", "/presets").json()["results"]
        offerings = self.call("GET", "/offerings").json()["results"]
        me = self.call("GET", "/me").json()
        model = {"cpu": None, "pair": "T4"}.get(tier, "A100")
        size = {"cpu": "CPU"}.get(tier, tier)
        body = {
            "name": name,
            "group": me["groups"][0]["id"],
            "image": image,
            "offering": next((row["id"] for row in offerings if model and row["name"].startswith(model)), None),
            **({"custom": PAIR} if tier == "pair" else {"preset": _named(presets, size)}),
            **fields,
        }
        return self.call("POST", "/sessions", body, key=key)

    def volume(self, name: str) -> str:
        """Make a volume that one session at a time may write; answers its id."""
        cluster = self.call("GET", "/clusters").json()["results"][0]["id"]
        body = {"name": name, "kind": "data", "access": "rwo", "size_gib": 1, "cluster": cluster}
        answer = self.call("POST", "/volumes", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def wallet(self) -> dict[str, Any]:
        """The person's own."""
        found: dict[str, Any] = self.call("GET", "/me").json()["wallet"]
        return found

    @staticmethod
    def fresh_key() -> str:
        return uuid4().hex

    def seconds_in_state(self, session_id: str) -> float:
        """How long it has been in the state in which it is."""
        since = datetime.fromisoformat(self.see(session_id)["state_since"])
        return (datetime.now(UTC) - since).total_seconds()

    def see(self, session_id: str) -> dict[str, Any]:
        """The session as it is."""
        answer = self.call("GET", f"/sessions/{session_id}")
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def timeline(self, session_id: str) -> list[dict[str, Any]]:
        """What happened to it, newest first."""
        rows: list[dict[str, Any]] = self.call("GET", f"/sessions/{session_id}/timeline").json()
        return rows

    def ask(self, verb: str, session_id: str) -> None:
        """A verb; refused only when it took effect before (its first answer was lost)."""
        answer = self.call("POST", f"/sessions/{session_id}/{verb}", {})
        refused = answer.status_code == 409 and answer.json()["code"] == "invalid_transition"
        assert answer.status_code in ACCEPTED or refused, answer.text

    def reaches(self, session_id: str, *states: str, within: float) -> dict[str, Any]:
        """Wait until the session is in one of the states."""

        def there() -> dict[str, Any] | None:
            seen = self.see(session_id)
            last.append(seen["state"])
            return seen if seen["state"] in states else None

        last: list[str] = []
        try:
            return until(there, within=within, what=f"session {session_id} to be {' or '.join(states)}")  # type: ignore[return-value]  # truthy
        except AssertionError as late:
            raise AssertionError(f"{late}; it is {last[-1]}\n{self.told(session_id)}") from late

    def told(self, session_id: str) -> str:
        """Its timeline, for whoever reads a failure."""
        return "\n".join(f"{row['at']} {row['from']}→{row['to']} {row['detail']}" for row in self.timeline(session_id))


def _named(rows: list[dict[str, Any]], name: str) -> str:
    return next(str(row["id"]) for row in rows if row["name"] == name)


def _truthy(answer: httpx.Response | None) -> tuple[httpx.Response] | None:
    """A response is falsy when it refuses; it is an answer all the same."""
    return None if answer is None else (answer,)


def _cookies(answer: httpx.Response) -> dict[str, str]:
    found = (re.match(r"([^=]+)=([^;]*)", line) for line in answer.headers.get_list("set-cookie"))
    return {match[1]: match[2] for match in found if match and match[2] not in {"", '""'}}


def _line(cookies: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())
