"""`bench pages`: every page and every list, asked over HTTP of an installation with a year behind it.

A throw-away installation (a million journal entries, ten thousand sessions, people and groups to match; one person, one
group and one organisation with very much), a web process, and everything that a user, a group's, an organisation's and a
super administrator can read, several times each: how many statements an answer took, how long the server was busy with it,
how much of that its processor. Answers are compared with the books; a stranger's session is not there; a file of twenty
thousand entries is whole and takes no memory to speak of; books, counters and line agree before.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import psutil

from gshare_core.money import format_credits
from gshare_site.benches import Figure, WrongAnswer, percentile, scratch
from gshare_site.benches.line_rows import PASSWORD
from gshare_site.benches.page_server import HEADER
from gshare_site.benches.person import Person

HELP = "Statements and server time of every page and list, with a million journal entries."
QUERIES, P95_MS, CSV_MIB = 15, 150.0, 8.0
SIZES = {"sessions": 10_000, "users": 5_000, "groups": 500, "cards": 2_000, "entries": 1_000_000, "audit": 200_000}
SETTINGS = "gshare_site.settings.bench"
REFUSED = (403, 404, 405)
WORST, QUEUE_SHOWN = 10, 200  # of a line the API tells so many


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=f"How many (default {size:,}).")
    parser.add_argument("--rounds", type=int, default=20, help="How often each page is asked for (default 20).")
    parser.add_argument("--only", default="", help="Only addresses that contain this.")
    parser.add_argument("--all", action="store_true", help="Tell every page, not only the worst and those that miss.")


@dataclass
class Page:
    """What the answers of one address took, for one persona."""

    persona: str
    label: str
    address: str
    took: list[dict[str, Any]] = field(default_factory=list)

    @property
    def queries(self) -> int:
        """The most statements that an answer took."""
        return max(int(one["queries"]) for one in self.took)

    def p95(self, what: str) -> float:
        """Of the answers' milliseconds."""
        return percentile((float(one[what]) for one in self.took), 95)

    @property
    def facts(self) -> dict[str, Any]:
        """Beside the time: the parts of it, and the slowest statement."""
        slowest = max(self.took, key=lambda one: float(one["slowest_ms"]))
        return {
            "queries": self.queries,
            "cpu_ms": self.p95("cpu_ms"),
            "sql_ms": self.p95("sql_ms"),
            "slowest_ms": slowest["slowest_ms"],
            "slowest": slowest["slowest"],
        }


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Fill, check, ask, compare."""
    sizes = json.dumps({name: options[name] for name in SIZES})
    act = [sys.executable, "-m", "gshare_site.benches.act"]
    with scratch.installation() as installed:
        port = scratch.free_port()
        url = f"http://localhost:{port}"
        env = installed | {"GSHARE_PUBLIC_URL": url, "GSHARE_PORT": str(port), "GSHARE_REST_THROTTLE": "100000/min"}
        known = json.loads(scratch.run([*act, "page_rows", "fill", sizes], env))
        checked = json.loads(scratch.run([*act, "page_rows", "check"], env))
        if checked["differences"]:
            raise WrongAnswer(f"the rows do not agree: {checked['differences'][:3]}")
        asked = json.loads(scratch.run([*act, "page_addresses", "addresses_of", json.dumps(known["things"])], env))
        asked = [one for one in asked if options["only"] in one[1]]
        with scratch.serving("gshare_site.asgi:application", env | {"DJANGO_SETTINGS_MODULE": SETTINGS}, port) as web:
            people = {persona: _signed_in(url, email) for persona, email in known["people"].items()}
            pages = _ask_all(people, asked, options["rounds"])
            compared = _compare(people["user"], people["super_admin"], known)
            growth = _files(people, known, psutil.Process(web.pid))
    if not options["only"]:
        _nothing_forgotten(asked, pages)
    yield from _figures(pages, f"{compared}; trial balance, counters and line agree", all_pages=options["all"])
    yield Figure(
        "memory of the web process for a file of all of somebody's entries",
        growth,
        "MiB",
        f"{known['truth']['entries']:,} lines, the balance of each follows from the one before",
        CSV_MIB,
        "less",
    )


def _signed_in(url: str, email: str) -> Person:
    person = Person(url)
    if not person.sign_in(email, PASSWORD):
        raise WrongAnswer(f"{email} cannot sign in")
    return person


def _ask_all(people: Mapping[str, Person], asked: list[list[str]], rounds: int) -> list[Page]:
    """Everything that a persona can read, each once before it counts. Raises WrongAnswer for a fault of the server."""
    pages = []
    for persona, person in people.items():
        for label, address in asked:
            first = person.ask("GET", address)
            if first.status_code >= 400 and first.status_code not in REFUSED:
                raise WrongAnswer(f"{persona} got {first.status_code} at {address}: {first.text[:300]}")
            if first.status_code == 200:
                page = Page(persona, label, address)
                page.took = [json.loads(person.ask("GET", address).headers[HEADER]) for _round in range(rounds)]
                pages.append(page)
    return pages


def _nothing_forgotten(asked: list[list[str]], pages: list[Page]) -> None:
    """Every address was somebody's to read, or only changes something; the bench's own list is not out of date."""
    read = {page.label for page in pages}
    if len(read) < len({label for label, _address in asked}) // 2:
        raise WrongAnswer(f"only {len(read)} of {len(asked)} addresses could be read")


def _compare(user: Person, root: Person, known: Mapping[str, Any]) -> str:
    """What answers say, against the books and the rows; what is another's is not there."""
    truth, things = known["truth"], known["things"]
    wallet = user.ask("GET", f"/api/v1/wallets/{things['wallet']}").json()
    said = {"balance": wallet["balance"], "held": wallet["held"]}
    said["sessions"] = len(list(_everything(user, "/api/v1/sessions?limit=200")))
    said["waiting"] = len({one["id"] for one in _everything(root, "/api/v1/queue?scope=all")})
    right = {
        "balance": format_credits(truth["balance"]),
        "held": format_credits(truth["held"]),
        "sessions": truth["sessions"],
        "waiting": min(truth["waiting"], QUEUE_SHOWN),
    }
    if said != right:
        raise WrongAnswer(f"answers say {said}, the books {right}")
    if truth["balance_text"] not in user.ask("GET", "/wallet/").text:
        raise WrongAnswer(f"the wallet's page does not show {truth['balance_text']}")
    for address in (f"/sessions/{known['foreign']}/", f"/api/v1/sessions/{known['foreign']}"):
        if user.ask("GET", address).status_code != 404:
            raise WrongAnswer(f"another's session is there at {address}")
    return f"balance, holds, {right['sessions']} sessions and {right['waiting']} waiting as in the books; another's 404"


def _everything(person: Person, address: str) -> Iterator[dict[str, Any]]:
    """A list to its end, page after page."""
    while address:
        answer = person.ask("GET", address).json()
        yield from answer["results"]
        address = (answer["next"] or "").removeprefix(person.url)


def _files(people: Mapping[str, Person], known: Mapping[str, Any], web: psutil.Process) -> float:
    """Fetch the heavy user's entries as a file; answers by how many MiB the web process grew at most."""
    address = f"/api/v1/wallets/{known['things']['wallet']}/entries?format=csv"
    before = web.memory_info().rss
    text = people["user"].ask("GET", address, headers={"Accept": "text/csv"}).text
    growth = (web.memory_info().rss - before) / 2**20
    rows = list(csv.DictReader(io.StringIO(text)))
    if len(rows) != known["truth"]["entries"] or rows[0]["balance"] != format_credits(known["truth"]["balance"]):
        raise WrongAnswer(f"the file has {len(rows)} lines, the wallet {known['truth']['entries']} entries")
    for newer, older in pairwise(rows):
        if Decimal(newer["balance"]) != Decimal(older["balance"]) + Decimal(
            newer["change"].lstrip("'")
        ):  # a guarded minus
            raise WrongAnswer(f"the balance after {newer['id']} does not follow from the one before")
    return growth


def _figures(pages: list[Page], verified: str, *, all_pages: bool) -> Iterator[Figure]:
    """The pages that need most, or all, and how many keep the bars."""
    slow = sorted(pages, key=lambda page: -page.p95("ms"))
    told = [page for number, page in enumerate(slow) if all_pages or number < WORST or page.p95("ms") > P95_MS]
    for page in told:
        yield Figure(f"{page.persona} {page.label}", page.p95("ms"), "ms p95", verified, P95_MS, "less", page.facts)
    hungry = sorted(pages, key=lambda page: -page.queries)
    for page in [one for number, one in enumerate(hungry) if number < WORST or one.queries > QUERIES]:
        yield Figure(f"{page.persona} {page.label}", page.queries, "queries", verified, QUERIES, "less", page.facts)
    over = sum(page.queries > QUERIES or page.p95("ms") > P95_MS for page in pages)
    yield Figure("pages and lists above a bar", over, f"of {len(pages)}", verified, 0, "less")
