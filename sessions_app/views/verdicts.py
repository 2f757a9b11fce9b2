"""Verdicts and refusals in the reader's language. The domain is pure and speaks English; here its code and facts become sentences.

Guarantees: says what the verdict says, from its code and its facts, with the names that the page knows. Refuses nothing:
what has no sentence here, or lacks a fact, is shown in the domain's own words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from gshare_core.errors import DomainError
from gshare_core.kit import wording
from gshare_core.money import display_credits, parse_credits
from gshare_core.verdicts import Gate, Verdict
from sessions_app.domain.facts import Facts
from sessions_app.views.limits import amount_text, field_words

Told = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """What the page knows by name; what it does not know is called "this GPU" and so on."""

    gpu: str = ""
    image: str = ""
    size: str = ""
    group: str = ""
    volumes: Mapping[str, str] = field(default_factory=dict)

    def volume(self, told: Told) -> str:
        """The name of the volume that a verdict is about."""
        return self.volumes.get(str(told.get("volume")), "") or _("This volume")


@dataclass(frozen=True, slots=True)
class Said:
    """What, and what would change it."""

    detail: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """Both in one line."""
        return " ".join(filter(None, (self.detail, self.remedy)))


def names_of(facts: Facts) -> Names:
    """The names among the facts that were judged; of volumes only those that may be seen."""
    return Names(
        gpu=facts.offering.name if facts.offering else "",
        image=facts.image.name if facts.image else "",
        group=facts.requester.group_name if facts.requester else "",
        volumes={str(mount.ask.volume): mount.name for mount in facts.mounts if mount.found},
    )


def refusal(refused: Verdict | DomainError, names: Names | None = None) -> Said:
    """A refusal in the reader's words."""
    own = Said(str(refused.detail), str(refused.remedy or ""))
    say = _REFUSALS.get(refused.code or "")
    if say is None:
        return own
    try:
        return say(refused.facts, names or Names()) or own
    except (KeyError, ValueError, TypeError):  # a fact is missing or of another kind: the domain's words are right
        return own


def passing(verdict: Verdict, facts: Facts) -> str:
    """What a gate that let the request pass has found, in a few words."""
    say = _PASSES.get(verdict.gate)
    try:
        return (say(verdict.facts, facts) if say else "") or verdict.detail
    except (KeyError, ValueError, TypeError):  # a fact is missing or of another kind: the domain's words are right
        return verdict.detail


# Refusals ------------------------------------------------------------------------------------------------------------


def _forbidden(told: Told, names: Names) -> Said | None:
    if told["why"] == "inactive":
        return Said(_("This account is deactivated."), _("Ask your administrator."))
    detail = _("Guests of %(group)s see the catalogue and start nothing.") % {"group": names.group or _("this group")}
    return Said(detail, _("Ask a group administrator to make you a member."))


def _not_found(told: Told, names: Names) -> Said | None:
    if told["field"] == "offering":
        detail = _("%(gpu)s has no price, so nothing can be started on it.") % {"gpu": names.gpu or _("This GPU")}
        return Said(detail, _("Ask an administrator to set its price."))
    if told.get("withdrawn"):
        names_of = {
            "group": _("group"),
            "GPU": _("GPU"),
            "size": _("size"),
            "image": _("image"),
            "cluster": _("cluster"),
        }
        return Said(
            _("The %(what)s of this session is not offered to you any more.") % {"what": names_of[told["field"]]},
            _("Ask an administrator to offer it again, or start a new session with another."),
        )
    said = {
        "group": (_("There is no such group."), _("Choose one of your own groups.")),
        "GPU": (_("There is no such GPU."), _("Choose one of the GPUs that are offered.")),
        "size": (_("There is no such size."), _("Choose one of the sizes that are offered.")),
        "image": (_("There is no such image."), _("Choose one of the images that you can see.")),
        "cluster": (_("There is no such cluster."), _("Leave the cluster open.")),
    }
    return Said(*said[told["field"]])


def _image_incompatible(told: Told, names: Names) -> Said:
    words = {
        "gpu": names.gpu or _("This GPU"),
        "needs": told["min_cuda"],
        "image": names.image or _("this image"),
        "has": told["image_cuda"] or _("none"),
    }
    return Said(
        _("%(gpu)s needs CUDA %(needs)s or newer, %(image)s has %(has)s.") % words,
        _("Choose an image with CUDA %(needs)s or newer, or another GPU.") % words,
    )


def _never_fits(told: Told, names: Names) -> Said | None:
    if "tiers" in told:
        words = {"gpu": names.gpu or _("This GPU"), "tiers": ", ".join(told["tiers"])}
        return Said(_("%(gpu)s is not offered in this size.") % words, _("It is offered in: %(tiers)s.") % words)
    if "smallest" in told:
        least = {"least": amount_text("vram_mib", told["smallest"]["vram_mib"])}
        return Said(_("A session with a GPU needs at least %(least)s of GPU memory.") % least, _("Take a larger part."))
    largest = told["largest"]
    if not largest:
        return Said(_("No healthy card of this kind is registered."), _("Choose another GPU."))
    amounts = ", ".join(f"{field_words(name)} {amount_text(name, amount)}" for name, amount in largest.items())
    return Said(
        _("No node could hold it even when empty."),
        _("The largest that would fit: %(amounts)s.") % {"amounts": amounts},
    )


def _asymmetric(told: Told, _names: Names) -> Said:
    bounds = {"least": told["core_percent_min"], "most": told["core_percent_max"]}
    return Said(
        _("The shares of GPU memory and compute may differ two-fold at most."),
        _("With this memory ask for %(least)d to %(most)d %% of the compute.") % bounds,
    )


def _mount_forbidden(told: Told, names: Names) -> Said | None:
    name = {"name": names.volume(told)}
    match told["why"]:
        case "unknown":
            remedy = _("Choose one of your volumes, or ask its owner to share it.")
            return Said(_("You cannot mount this volume."), remedy)
        case "read_only":
            return Said(_("%(name)s is shared with you read-only.") % name, _("Mount it read-only."))
        case "other_cluster":
            return Said(
                _("%(name)s lives on another cluster than the rest of this session.") % name,
                _("Mount volumes of one cluster only, and leave the cluster open or choose theirs."),
            )
    return None


def _mount_conflict(told: Told, names: Names) -> Said:
    detail = _("%(name)s is in use by another session, and only one at a time may use it.")
    remedy = _("Pause or stop that session, or leave this volume out.")
    if told.get("why") == "stopping":
        remedy = _("It frees itself when that session has ended; try again shortly.")
    return Said(detail % {"name": names.volume(told)}, remedy)


def _mount_path(told: Told, _names: Names) -> Said:
    return Said(
        _("The path %(path)s cannot be used.") % {"path": str(told["path"])[:80]},
        _(
            "Use distinct paths under /home/work, /data, /mnt or /workspace, none inside another, "
            "of letters, digits, dots, hyphens and underscores."
        ),
    )


def _wallet(_told: Told, _names: Names) -> Said:
    return Said(
        _("This wallet cannot pay for your sessions."),
        _("Leave the wallet out: sessions are paid from your own wallet."),
    )


def _quota(told: Told, _names: Names) -> Said:
    name = told["field"]
    if name == "allow_privileged" and "scope" not in told:
        return Said(
            _("A privileged session cannot have a GPU: the partitioner refuses such pods."),
            _("Leave privileged off, or take a size without a GPU."),
        )
    scope = _scope(str(told["scope"]))
    if name in {"allow_privileged", "allow_preemptible"}:
        what = _("Privileged sessions") if name == "allow_privileged" else _("Preemptible sessions")
        detail = _("%(what)s are not allowed here (%(scope)s).") % {"what": what, "scope": scope}
        return Said(detail, _("Ask an administrator to allow them, or ask without."))
    if name == "shared_pool":
        detail = _("Only the shared pool could hold this, and it is not open to you (%(scope)s).") % {"scope": scope}
        return Said(
            detail,
            _("Ask an administrator to open the shared pool, or to grant your group a pool with such nodes."),
        )
    if name == "max_priority":
        limit = {"limit": told["limit"]}
        return Said(
            _("The priority is above your limit of %(limit)d.") % limit,
            _("Ask with priority %(limit)d or less.") % limit,
        )
    words = {
        "what": field_words(name),
        "used": amount_text(name, told["used"]),
        "limit": amount_text(name, told["limit"]),
        "asked": amount_text(name, told["asked"]),
        "scope": scope,
    }
    remedy = _("Pause or stop a session, take a smaller size, or ask an administrator to raise the limit.")
    if told["asked"] > told["limit"]:
        remedy = _("Take a smaller size, or ask an administrator to raise the limit.")
    return Said(_("%(what)s: %(used)s of %(limit)s in use (%(scope)s), and this needs %(asked)s.") % words, remedy)


def _scope(scope: str) -> str:
    return {
        "user": _("your own limit"),
        "group": _("group limit"),
        "organisation": _("organisation limit"),
    }.get(scope.partition(":")[0], _("general limit"))


def _budget(told: Told, _names: Names) -> Said:
    limit, spent, held = (parse_credits(told[name]) for name in ("limit", "spent", "held"))
    words = {
        "left": display_credits(max(0, limit - spent - held)),
        "limit": display_credits(limit),
        "needed": display_credits(parse_credits(told["needed"])),
    }
    return Said(
        _("The budget has %(left)s of %(limit)s cr left; this needs %(needed)s cr.") % words,
        _("Wait for the next period, take a smaller size, or ask who set the budget."),
    )


def _credit(told: Told, _names: Names) -> Said:
    needed, available = parse_credits(told["needed"]), parse_credits(told["available"])
    words = {"needed": display_credits(needed), "available": display_credits(available)}
    missing = {"missing": display_credits(needed - available)}
    return Said(
        _("It needs %(needed)s cr, %(available)s cr are available.") % words,
        _("Take a smaller size, or request %(missing)s cr from your group.") % missing
        if available > 0
        else _("Request %(missing)s cr from your group.") % missing,
    )


def _no_capacity(_told: Told, _names: Names) -> Said:
    return Said(
        _("No node has room for this session."),
        _("Try again in a moment, or take a smaller size: sessions without a GPU do not wait in line."),
    )


def _transition(told: Told, _names: Names) -> Said:
    detail = _("The session is %(state)s; that is not possible now.") % {
        "state": wording.state_look(told["state"]).word
    }
    return Said(detail)


def _reason(_told: Told, _names: Names) -> Said:
    return Said(_("This is somebody else's session: say why."), _("Send a reason."))


_REFUSALS: Mapping[str, Callable[[Told, Names], Said | None]] = {
    "forbidden": _forbidden,
    "not_found": _not_found,
    "image_incompatible": _image_incompatible,
    "never_fits": _never_fits,
    "asymmetric_shape": _asymmetric,
    "mount_forbidden": _mount_forbidden,
    "mount_conflict": _mount_conflict,
    "mount_path_invalid": _mount_path,
    "wallet_forbidden": _wallet,
    "quota_exceeded": _quota,
    "budget_exceeded": _budget,
    "insufficient_credit": _credit,
    "no_capacity": _no_capacity,
    "invalid_transition": _transition,
    "reason_required": _reason,
}


# What passed ---------------------------------------------------------------------------------------------------------


def _references_passed(told: Told, facts: Facts) -> str:
    if told["image_cuda"] and told["min_cuda"]:
        return _("CUDA %(has)s, needs %(needs)s") % {"has": told["image_cuda"], "needs": told["min_cuda"]}
    if told["image_cuda"]:
        return f"CUDA {told['image_cuda']}"
    return _("found") if facts.needs_card else _("no GPU needed")


def _mounts_passed(told: Told, facts: Facts) -> str:
    if not told["mounts"]:
        return _("nothing to mount")
    if told["mounts"] > 1:
        return ngettext("%(n)d volume", "%(n)d volumes", told["mounts"]) % {"n": told["mounts"]}
    first = facts.mounts[0]
    use = _("%(name)s is free to write") if first.ask.mode == "rw" else _("%(name)s is free to read")
    return use % {"name": first.name}


def _policy_passed(told: Told, _facts: Facts) -> str:
    if not told:
        return _("no limit applies")
    count = told["used"] + told["asked"]
    words = {
        "what": field_words(told["field"]),
        "count": amount_text(told["field"], count),
        "limit": amount_text(told["field"], told["limit"]),
    }
    if told["field"] != "max_sessions":
        return _("%(what)s %(count)s of %(limit)s") % words
    return (
        _("sessions %(count)s of %(limit)s, the last one")
        if count == told["limit"]
        else _("sessions %(count)s of %(limit)s")
    ) % words


def _budget_passed(told: Told, _facts: Facts) -> str:
    return _("%(percent)d %% of the budget") % told if told else _("no budget applies")


def _hold_passed(told: Told, _facts: Facts) -> str:
    words = {"hold": told["needed"], "available": told["available"]}
    return _("%(hold)s of %(available)s cr") % {
        name: display_credits(parse_credits(text)) for name, text in words.items()
    }


def _reservation_passed(told: Told, _facts: Facts) -> str:
    if "waiting" in told:
        return _("Queues as %(place)s") % {"place": wording.ordinal(told["waiting"] + 1)}
    return str(told["node"])


_PASSES: Mapping[Gate, Callable[[Told, Facts], str]] = {
    Gate.REFERENCES: _references_passed,
    Gate.MOUNTS: _mounts_passed,
    Gate.WALLET: lambda _told, _facts: _("your own"),
    Gate.POLICY: _policy_passed,
    Gate.BUDGET: _budget_passed,
    Gate.HOLD: _hold_passed,
    Gate.RESERVATION: _reservation_passed,
    Gate.HANDOFF: lambda _told, _facts: _("after you start"),
}
