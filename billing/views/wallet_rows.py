"""The tree of wallets as rows of a table: what is opened, what is chosen, where each wallet's credits went.

Guarantees: what is opened, chosen and searched is in the address; a search answers flat, with the place beside the name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest
from django.utils.translation import gettext as _

from accounts.administrators import Administrator
from billing import wallet_tree
from billing.models import Account
from billing.wallet_tree import SYSTEM_OWNER, Flows, Owner
from gshare_core.kit.lists import SEARCH_MAX, SEARCH_MIN
from gshare_core.kit.pictures import SplitPart
from gshare_core.money import display_credits

FEW = 3
"""So many organisations or groups are opened by themselves."""
LOW = 100
"""Less than one part in so many left is told as nearly nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    """An owner at its place in the tree."""

    owner: Owner
    depth: int
    opens: bool = False  # has lines below it
    opened: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """What the address asks for. `opened` is None where it leaves that to the page."""

    words: str = ""
    opened: frozenset[UUID] | None = None
    wallet: str = ""

    def address(self, **changes: Any) -> str:
        """The page with something else opened or chosen."""
        opened = changes.get("opened", self.opened)
        wallet, of = changes.get("wallet", self.wallet), changes.get("of", "")
        parts = [("q", self.words)] if self.words else []
        parts += [("open", ",".join(sorted(map(str, opened))))] if opened is not None else []
        parts += [("wallet", wallet)] if wallet and not of else []
        parts += [("of", of)] if of else []
        return f"?{urlencode(parts, safe=',:')}"


def look_of(request: HttpRequest) -> Look:
    """What a request asks for; what is no identifier is left out, and a search of one letter is none."""
    words = request.GET.get("q", "").strip()
    words = words if SEARCH_MIN <= len(words) <= SEARCH_MAX and "\0" not in words else ""
    opened = frozenset(_ids(request.GET["open"])) if "open" in request.GET else None
    return Look(words, opened, request.GET.get("wallet", ""))


def _ids(text: str) -> Iterable[UUID]:
    for part in text.split(",")[: wallet_tree.MOST]:
        try:
            yield UUID(part)
        except ValueError:
            continue


def rows(administrator: Administrator, look: Look, chosen: Account | None, since: datetime) -> list[dict[str, Any]]:
    """The rows of the table. Four statements at most."""
    lines = _found(administrator, look.words) if look.words else _tree(administrator, look, chosen)
    people = {line.owner.id for line in lines if line.owner.kind == "user" and line.owner.id is not None}
    flows = wallet_tree.flows(administrator, since=since, people=people)
    opened = frozenset(line.owner.id for line in lines if line.opened and line.owner.id is not None)
    shorts = _shorts(lines)
    return [_row(line, flows, look, opened, administrator, chosen) | {"short": shorts[line.owner]} for line in lines]


def _shorts(lines: list[Line]) -> dict[Owner, str]:
    """What stands in a row: of an address the part before the @, where nobody else has the same."""
    people = {line.owner.name for line in lines if line.owner.kind == "user"}
    parts = Counter(name.partition("@")[0] for name in people)
    found = {}
    for line in lines:
        part = line.owner.name.partition("@")[0]
        is_clear = line.owner.kind == "user" and parts[part] == 1
        found[line.owner] = part if is_clear else line.owner.name or _("System")
    return found


def _found(administrator: Administrator, words: str) -> list[Line]:
    owners = [
        *wallet_tree.organisations(administrator, named=words),
        *wallet_tree.groups(administrator, named=words),
        *wallet_tree.people_named(administrator, words),
    ]
    return [Line(owner, 0) for owner in owners]


def _tree(administrator: Administrator, look: Look, chosen: Account | None) -> list[Line]:
    organisations = wallet_tree.organisations(administrator)
    wanted = look.opened
    if wanted is None:
        first = () if administrator.is_super or len(organisations) > FEW else (owner.id for owner in organisations)
        wanted = frozenset(key for key in first if key is not None) | _above(chosen)
        if not organisations and len(administrator.groups) <= FEW:
            wanted |= {key for key, _name in administrator.groups}
    groups = wallet_tree.groups(administrator, of=wanted)
    people = wallet_tree.people(administrator, of=wanted & {group.id for group in groups if group.id is not None})
    lines = [Line(SYSTEM_OWNER, 0)] if administrator.is_super else []
    deeper = len(lines)
    mine = {organisation.id for organisation in organisations}
    for organisation in organisations:
        lines.append(Line(organisation, deeper, True, organisation.id in wanted))
        if organisation.id in wanted:
            lines += _groups([group for group in groups if group.over == organisation.id], people, wanted, deeper + 1)
    return lines + _groups([group for group in groups if group.over not in mine], people, wanted, deeper)


def _groups(groups: list[Owner], people: list[Owner], wanted: frozenset[UUID], depth: int) -> list[Line]:
    lines = []
    for group in groups:
        lines.append(Line(group, depth, True, group.id in wanted))
        lines += [Line(person, depth + 1) for person in people if person.over == group.id]
    return lines


def _above(chosen: Account | None) -> frozenset[UUID]:
    """What has to be open so that the chosen wallet is in sight, as far as it tells: a group's organisation."""
    if chosen is not None and chosen.group is not None:
        return frozenset({chosen.group.organisation_id})
    return frozenset()


def _row(
    line: Line, flows: Flows, look: Look, opened: frozenset[UUID], administrator: Administrator, chosen: Account | None
) -> dict[str, Any]:
    owner, flow = line.owner, flows.of(line.owner)
    free = flows.system_free if owner.kind is None else owner.free
    had = flow.spent + flow.held + flow.below + free
    toggled = opened ^ {owner.id} if owner.id is not None else opened
    return {
        "key": f"{owner.kind or 'system'}-{owner.id or ''}-{owner.over if owner.kind == 'user' else ''}",
        "name": owner.name or _("System"),
        "over": owner.over_name if look.words else "",
        "depth": line.depth,
        "url": _url(owner, look, opened, administrator),
        "opens": line.opens,
        "opened": line.opened,
        "toggle_url": look.address(opened=toggled) if line.opens else "",
        "chosen": chosen is not None and owner.wallet == chosen.pk,
        "had_micro": had,
        "spent_micro": flow.spent,
        "held_micro": flow.held,
        "free_micro": free,
        "low": had > 0 and free * LOW < had,
        "parts": [
            SplitPart(flow.spent, "pale", _("spent"), display_credits(flow.spent)),
            SplitPart(flow.held, "grey", _("held"), display_credits(flow.held)),
            SplitPart(flow.below, "mine", _("free further down"), display_credits(flow.below)),
            SplitPart(free, "accent", _("free here"), display_credits(free)),
        ],
    }


def _url(owner: Owner, look: Look, opened: frozenset[UUID], administrator: Administrator) -> str:
    """Where a wallet is chosen; its first use makes it. The system's is nobody's to fill from above, nor is one's own."""
    if owner.kind is None or owner.id == administrator.user.pk:
        return ""
    if owner.wallet is not None:
        return f"{look.address(opened=opened or look.opened, wallet=str(owner.wallet))}#move"
    return f"{look.address(opened=opened or look.opened, of=f'{owner.kind}:{owner.id}')}#move"


def keys() -> list[SplitPart]:
    """What the tones of the parts mean."""
    return [
        SplitPart(0, "pale", _("spent")),
        SplitPart(0, "grey", _("held")),
        SplitPart(0, "mine", _("free further down")),
        SplitPart(0, "accent", _("free here")),
    ]
