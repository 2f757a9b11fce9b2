"""New session on one page: every change asks the real gates, Start admits."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from accounts.queries import frame_of
from catalog import queries as catalog
from cluster import fleets
from cluster.loads import CardLoad, card_loads, usable
from cluster.queries import mount_choices
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.kit.problem import retry_after
from gshare_core.money import MICRO_PER_CREDIT, display_credits, parse_credits
from gshare_core.verdicts import Gate
from sessions_app import overview, services
from sessions_app.domain.gates import first_refusal
from sessions_app.domain.lifecycle import OCCUPYING
from sessions_app.models import Session
from sessions_app.previews import Preview
from sessions_app.sights import PersonsSight
from sessions_app.views import cards, new_choices, verdicts, words
from sessions_app.views.acts import signed_in
from sessions_app.views.judged import Judged
from sessions_app.views.money import live_of, running_of, until, wallet_of
from sessions_app.views.new_form import Catalogue, Values, ask_of, read
from sessions_app.views.shell import active_seats, chosen_group

if TYPE_CHECKING:
    from accounts.models import User

TEMPLATE = "sessions_app/session_new.html"


@login_required
@require_http_methods(["GET", "POST"])
def new_session(request: HttpRequest) -> HttpResponse:
    """GET shows and asks; POST starts the session, or shows the refusal on the form."""
    user = signed_in(request)
    live_of(request)  # read whole here, so that the frame needs no other look
    catalogue = _catalogue(request, user)
    data = request.POST if request.method == "POST" else request.GET
    values = read(data, catalogue, group=chosen_group(request), default_name=_default_name(request))
    ask, errors = ask_of(values)
    refused: DomainError | None = None
    if request.method == "POST" and ask is not None:
        try:
            made = services.create_session(ask, by=user, once=_once(request, user, values))
        except DomainError as refusal:
            refused = refusal
        else:
            return go_to(request, _address(made))
    with fleets.one_picture():
        context = _context(request, values, catalogue, errors if data else {})
    context |= {"error": _error(refused, _names(values, catalogue)) if refused else None}
    status = 422 if request.method == "POST" else 200
    if refused is None or refused.code != "unavailable":
        return answer(request, TEMPLATE, context, fragments=("new-session",), status=status)
    response = answer(
        request, TEMPLATE, context, status=refused.status
    )  # the form is as it was: Start can be pressed again
    response["Retry-After"] = retry_after(refused)
    return response


def _once(request: HttpRequest, user: User, values: Values) -> Once:
    """A form that is sent twice starts one session: its hidden key is the idempotency key."""
    body = repr(sorted(values.body().items(), key=lambda item: item[0])).encode()
    return Once(
        user_id=user.pk,
        method="POST",
        path=request.path,
        key=values.idempotency_key,
        body=body,
        render=lambda made: {"url": reverse("session", args=[made.session.pk])},
        status=303,
    )


def _address(made: Session | Reply) -> str:
    return str(made.body["url"]) if isinstance(made, Reply) else reverse("session", args=[made.pk])


def _catalogue(request: HttpRequest, user: User) -> Catalogue:
    return Catalogue(
        groups=active_seats(request),
        shelf=catalog.shelf_for(user, clock.now()),
        mounts=mount_choices(frame_of(user, request).standing),
    )


def _default_name(request: HttpRequest) -> str:
    taken = {session.name for session, _run in live_of(request)}
    return next(name for n in range(1, len(taken) + 2) if (name := f"session-{n}") not in taken)


def _context(request: HttpRequest, values: Values, catalogue: Catalogue, errors: dict[str, str]) -> dict[str, Any]:
    user, now = signed_in(request), clock.now()
    judged = Judged(user, values, _sight(request, catalogue, now))
    pools = judged.pools()
    offers, loads = overview.offers(pools, catalogue.shelf, judged.lengths()), card_loads()
    own = {session.pk: session.name for session, _run in live_of(request) if session.life in OCCUPYING}
    volumes = {str(volume.pk): volume for volume in catalogue.volumes}
    mounted = {mount["volume"] for mount in values.mounts}
    left = [volume for volume in catalogue.volumes if str(volume.pk) not in mounted]
    return {
        "now": now,
        "values": _values(values, catalogue),
        "errors": errors,
        "groups": [
            {"id": str(seat.group_id), "name": seat.group_name, "organisation": seat.organisation_name}
            for seat in catalogue.groups
        ],
        "sizes": new_choices.sizes(values, list(catalogue.presets), offers),
        "size_note": _size_note(values),
        "size_name": _size_name(values, _("own shape")),
        "custom_bounds": new_choices.custom_bounds(values, errors),
        "offerings": new_choices.offerings(values, offers, usable(loads, pools, own), set(own), judged.on, now),
        "images": new_choices.images(values, list(catalogue.images)),
        "mounts": [_mount(mount, volumes) for mount in values.mounts],
        "volumes": [{"id": str(v.pk), "name": v.name, "access_text": v.get_access_display()} for v in left],
        "next_path": f"/data/{left[0].name}" if left else "",
        "more": _more(judged, values),
        "review": _review(request, judged, values, loads, own, now),
    }


def _sight(request: HttpRequest, catalogue: Catalogue, now: datetime) -> PersonsSight:
    user = signed_in(request)
    standing = frame_of(user, request).standing
    facts = [choice.fact for choice in catalogue.mounts]
    sight = PersonsSight(now, user=user, wallet=wallet_of(request), standing=standing, volumes=facts)
    sight.know_catalogue(catalogue.shelf)
    sight.know_seats(catalogue.groups)
    return sight


def _values(values: Values, catalogue: Catalogue) -> dict[str, Any]:
    whole = sorted({preset.cards for preset in catalogue.presets if preset.tier == new_choices.WHOLE})
    return {
        "name": values.name,
        "group": values.group,
        "cards": values.cards,
        "cards_shown": values.preset is not None and values.preset.tier == new_choices.WHOLE and not values.custom,
        "cards_choices": whole,
        "priority": values.priority,
        "preemptible": values.preemptible,
        "pause_mode": values.pause_mode,
        "cluster": values.cluster,
        "auto_resume": values.auto_resume,
        "custom": values.custom,
        "idempotency_key": values.idempotency_key,
    }


def _size_name(values: Values, own: str) -> str:
    return words.size_name(values.preset.tier, values.cards) if values.preset and not values.custom else own


def _size_note(values: Values) -> str:
    preset = values.preset
    if preset is None:
        return ""
    return _("%(size)s comes with %(cores)s, %(memory)s memory, %(scratch)s GiB scratch") % {
        "size": preset.name,
        "cores": wording.cores(preset.cpu_milli),
        "memory": " ".join(wording.memory(preset.memory_mib)),
        "scratch": preset.scratch_gib,
    }


def _mount(mount: dict[str, str], volumes: dict[str, Any]) -> dict[str, Any]:
    volume = volumes.get(mount["volume"])
    return {
        "volume": mount["volume"],
        "name": volume.name if volume else _("unknown volume"),
        "path": mount["path"],
        "mode": mount["mode"],
        "mode_text": _("read and write") if mount["mode"] == "rw" else _("read only"),
        "use_text": f"{volume.size_gib} GiB" if volume else "",
        "error": "",
    }


def _more(judged: Judged, values: Values) -> dict[str, Any]:
    rights = judged.rights()
    highest = rights["max_priority"].value or 0 if "max_priority" in rights else 0
    preemptible = bool(rights["allow_preemptible"].value) if "allow_preemptible" in rights else False
    factor = values.offering.preemptible_factor_milli // 10 if values.offering else 30
    return {
        "priority_max": highest,
        "priority_hint": _("0 is normal; above it is a right"),
        "preemptible_allowed": preemptible,
        "preemptible_text": _("at %(percent)d %% of the price; makes room when asked") % {"percent": factor},
        "yield_allowed": False,
        "clusters": [],
        "lines": [
            (_("Priority"), str(values.priority) if values.priority else _("0, normal")),
            (_("Preemptible"), _("yes") if values.preemptible else _("no")),
            (_("When pausing"), _("give the card back")),
            (_("Cluster"), _("any")),
        ],
    }


def _review(
    request: HttpRequest, judged: Judged, values: Values, loads: list[CardLoad], own: dict[Any, str], now: datetime
) -> dict[str, Any]:
    """Price, landing, verdict, gates, and whether Start may be pressed."""
    _ask, errors = ask_of(values)
    if errors:
        return _empty_review(values, next(iter(errors.values()), _("Fill in what is missing.")), now)
    found = judged.on(values.offering)
    if isinstance(found, DomainError):
        return _empty_review(values, verdicts.refusal(found).detail, now)
    if found is None:
        return _empty_review(values, _("Fill in what is missing."), now)
    verdict = new_choices.verdict(found, now)
    can_start = found.outcome != "refused"
    share = found.facts.shape.occupancy if found.facts.shape else Fraction(0)
    all_rates = running_of(request).rate + found.hourly
    free = found.facts.money.available if found.facts.money else 0
    lasts = until(free + running_of(request).left, all_rates, now) if can_start else None
    landing = _landing(found, values, loads, own, share)
    starts = _("Start %(name)s") if found.outcome == "placed" else _("Queue %(name)s")
    return {
        "title": _size_name(values, _("Own shape")),
        "share": share if 0 < share < 1 else None,
        "of": found.facts.offering.name if found.facts.offering else "",
        "rate_micro_per_hour": found.hourly,
        "facts": _facts(found, all_rates, lasts, now),
        "landing": landing,
        "verdict": verdict,
        "credits_url": _credits_url(found, values),
        "checked_at": now,
        "gates": _gates(found, landing),
        "can_start": can_start,
        "reason": "" if can_start else verdict["text"],
        "submit": (starts if can_start else _("Start %(name)s")) % {"name": values.name},
        "until": lasts,
    }


def _credits_url(found: Preview, values: Values) -> str:
    """Where to ask for what a refused hold lacks: the amount, rounded up as it is shown, from the session's group."""
    refusal = first_refusal(found.verdicts)
    if refusal is None or refusal.code != "insufficient_credit":
        return ""
    missing = parse_credits(refusal.facts["needed"]) - parse_credits(refusal.facts["available"])
    cents = -(-missing * 100 // MICRO_PER_CREDIT)
    asked = {"amount": f"{cents // 100}.{cents % 100:02}", "group": str(values.group)}
    return f"{reverse('wallet_request')}?{urlencode(asked)}"


def _empty_review(values: Values, reason: str, now: datetime) -> dict[str, Any]:
    return {
        "title": _size_name(values, ""),
        "share": None,
        "of": "",
        "rate_micro_per_hour": 0,
        "facts": [],
        "landing": None,
        "verdict": {"outcome": "refused", "title": _("Not complete"), "text": reason},
        "credits_url": "",
        "checked_at": now,
        "gates": [{"name": words.GATES[gate], "passed": None, "text": ""} for gate in Gate],
        "can_start": False,
        "reason": reason,
        "submit": _("Start %(name)s") % {"name": values.name},
        "until": None,
    }


def _facts(found: Preview, all_rates: int, lasts: datetime | None, now: datetime) -> list[tuple[str, str]]:
    shape, money = found.facts.shape, found.facts.money
    if shape is None:
        return []
    facts = []
    if shape.mode != "cpu":
        memory = " ".join(wording.memory(shape.vram_mib))
        compute = _("%(memory)s, %(percent)d %% of compute") % {"memory": memory, "percent": shape.core_percent}
        facts.append((_("GPU"), compute))
    host = _("%(cores)s, %(memory)s, %(scratch)d GiB scratch") % {
        "cores": wording.cores(shape.cpu_milli),
        "memory": " ".join(wording.memory(shape.memory_mib)),
        "scratch": shape.scratch_gib,
    }
    facts.append((_("Host"), host))
    if money is None:
        return [*facts, (_("Price"), _("free: no GPU"))]
    held = _("%(hold)s of %(available)s cr") % {
        "hold": display_credits(money.hold),
        "available": display_credits(money.available),
    }
    facts += [(_("Held at start"), held), (_("All sessions"), f"{display_credits(all_rates)} cr/h")]
    if lasts is not None:
        facts.append((_("Lasts until"), wording.clock(lasts, now)))
    return facts


def _landing(
    found: Preview, values: Values, loads: list[CardLoad], own: dict[Any, str], share: Fraction
) -> dict[str, Any] | None:
    if found.placement is None or not found.placement["cards"]:
        return None
    load = next((load for load in loads if load.uuid == found.placement["cards"][0]), None)
    per_card = min(Fraction(1), share / max(1, len(found.placement["cards"])))
    return cards.landing(load, name=values.name, share=per_card, own=own)


def _gates(found: Preview, landing: dict[str, Any] | None) -> list[dict[str, Any]]:
    """All eight, in order; those that were not reached are open."""
    judged = {verdict.gate: verdict for verdict in found.verdicts}
    shown = []
    for gate in Gate:
        verdict = judged.get(gate)
        passed = None if verdict is None or gate is Gate.HANDOFF else verdict.passed
        text = ""
        if verdict is not None and verdict.passed:
            text = verdicts.passing(verdict, found.facts)
        elif verdict is not None:
            text = verdicts.refusal(verdict, verdicts.names_of(found.facts)).detail
        if gate is Gate.RESERVATION and landing is not None:
            text = _("%(node)s, card %(index)s") % {"node": landing["node"], "index": landing["index"]}
        shown.append({"name": words.GATES[gate], "passed": passed, "text": text})
    return shown


def _names(values: Values, catalogue: Catalogue) -> verdicts.Names:
    """What the form's choices are called."""
    return verdicts.Names(
        gpu=values.offering.name if values.offering else "",
        image=values.image.name if values.image else "",
        group=next((seat.group_name for seat in catalogue.groups if str(seat.group_id) == values.group), ""),
        volumes={str(volume.pk): volume.name for volume in catalogue.volumes},
    )


def _error(refusal: DomainError, names: verdicts.Names) -> dict[str, str]:
    said = verdicts.refusal(refusal, names)
    return {"title": _refusal_title(refusal), "text": said.detail, "remedy": said.remedy}


def _refusal_title(refusal: DomainError) -> str:
    if refusal.code == "unavailable":
        return _("Not started yet")
    if refusal.gate is None:
        return _("This cannot be started")
    name = str(words.GATES[Gate(refusal.gate)]).lower()
    return _("Refused at gate %(number)d, %(name)s") % {"number": refusal.gate, "name": name}
