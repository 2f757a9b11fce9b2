"""The gates of admission that judge facts: references, mounts, wallet, policy, budget, credit hold.

Guarantees: pure, and the same verdicts in the form, in the API's preview and at admission. Each verdict says what, why
and what would change it; passing ones are kept. A session without a card skips budget and hold.
Refuses: nothing is decided here about cards (gate 7) or hand-off (gate 8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from gshare_core.money import display_credits, format_credits
from gshare_core.verdicts import Gate, Verdict, passed, refused
from sessions_app.domain.facts import Facts, LimitFact, MountFact, RightFact

MOUNT_ROOTS = ("/home/work", "/data", "/mnt", "/workspace")
MOUNT_PATH_LENGTH = 255
_SEGMENT = re.compile(r"[A-Za-z0-9._-]{1,64}")

FIELD_WORDS = {
    "max_sessions": "sessions",
    "max_queued": "waiting sessions",
    "max_paused": "paused sessions",
    "cpu_milli": "thousandths of a CPU core",
    "memory_mib": "MiB of memory",
    "scratch_gib": "GiB of scratch",
    "vram_mib": "MiB of GPU memory",
    "core_percent": "percent of GPU compute",
    "cards": "whole cards",
    "storage_gib": "GiB of storage",
}


def judge(facts: Facts) -> list[Verdict]:
    """The verdicts of gates 1 to 6 in order. After a refused gate 1 only what can still be judged follows."""
    verdicts = [references(facts), mounts(facts), wallet(facts)]
    if facts.shape is None:
        return verdicts
    verdicts.append(policy(facts))
    if facts.needs_card and facts.money is not None:
        verdicts += [budget(facts), hold(facts)]
    return verdicts


def first_refusal(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The verdict that decides, or None when all passed."""
    return next((verdict for verdict in verdicts if not verdict.passed), None)


def cuda_version(text: str) -> tuple[int, ...]:
    """A CUDA version that compares as a version: 12.10 is newer than 12.9. Raises ValueError for anything else."""
    return tuple(int(part) for part in text.split("."))


# Gate 1 --------------------------------------------------------------------------------------------------------------


def references(facts: Facts) -> Verdict:
    """Who asks and what is referred to: active, visible, compatible, possible."""
    for refusal in _reference_refusals(facts):
        return refusal
    needs = facts.offering.min_cuda if facts.offering else None
    if facts.image and facts.image.cuda:
        detail = f"CUDA {facts.image.cuda}" + (f", needs {needs}" if needs else "")
    else:
        detail = "no GPU needed" if not facts.needs_card else "found"
    return passed(Gate.REFERENCES, detail, image_cuda=facts.image.cuda if facts.image else None, min_cuda=needs)


def _reference_refusals(facts: Facts) -> Iterator[Verdict]:
    yield from _requester_refusals(facts)
    yield from _catalogue_refusals(facts)
    if facts.shape_refusal is not None:
        yield facts.shape_refusal
    yield from _cuda_refusals(facts)


def _requester_refusals(facts: Facts) -> Iterator[Verdict]:
    who = facts.requester
    if who is None or who.role is None or not who.group_active:
        yield _missing("group", "Choose one of your own groups.", facts)
    elif not who.active:
        yield refused(
            Gate.REFERENCES, "forbidden", "This account is deactivated.", "Ask your administrator.", why="inactive"
        )
    elif who.role == "guest":
        detail = f"Guests of {who.group_name} see the catalogue and start nothing."
        remedy = "Ask a group administrator to make you a member."
        yield refused(Gate.REFERENCES, "forbidden", detail, remedy, why="guest")


def _catalogue_refusals(facts: Facts) -> Iterator[Verdict]:
    ask = facts.ask
    if ask.offering is not None and facts.offering is None:
        yield _missing("GPU", "Choose one of the GPUs that are offered.", facts)
    if ask.preset is not None and not facts.preset_found:
        yield _missing("size", "Choose one of the sizes that are offered.", facts)
    if facts.image is None:
        yield _missing("image", "Choose one of the images that you can see.", facts)
    if not facts.cluster_found:
        yield _missing("cluster", "Leave the cluster open.", facts)
    if facts.offering is not None and facts.offering.rate_micro_per_hour is None:
        detail = f"{facts.offering.name} has no price, so nothing can be started on it."
        yield refused(Gate.REFERENCES, "not_found", detail, "Ask an administrator to set its price.", field="offering")


def _cuda_refusals(facts: Facts) -> Iterator[Verdict]:
    if not facts.needs_card or facts.image is None or facts.offering is None or not facts.offering.min_cuda:
        return
    needed, has = facts.offering.min_cuda, facts.image.cuda
    if has is not None and cuda_version(has) >= cuda_version(needed):
        return
    detail = f"{facts.offering.name} needs CUDA {needed} or newer, {facts.image.name} has {has or 'none'}."
    remedy = f"Choose an image with CUDA {needed} or newer, or another GPU."
    yield refused(Gate.REFERENCES, "image_incompatible", detail, remedy, image_cuda=has, min_cuda=needed)


def _missing(what: str, remedy: str, facts: Facts) -> Verdict:
    if facts.session is None:
        return refused(Gate.REFERENCES, "not_found", f"There is no such {what}.", remedy, field=what)
    detail = f"The {what} of this session is not offered to you any more."
    remedy = "Ask an administrator to offer it again, or start a new session with another."
    return refused(Gate.REFERENCES, "not_found", detail, remedy, field=what, withdrawn=True)


# Gate 2 --------------------------------------------------------------------------------------------------------------


def mounts(facts: Facts) -> Verdict:
    """Every volume is accessible in the mode asked for, at a legal path, and no single-writer volume has two writers."""
    paths = [mount.ask.path for mount in facts.mounts]
    for path in paths:
        wrong = path_fault(path)
        if wrong:
            return _bad_path(path, wrong)
    for first, second in pairwise(sorted(paths)):
        if first == second:
            return _bad_path(second, "is used twice")
        if second.startswith(first + "/"):
            return _bad_path(second, f"lies inside {first}")
    for mount in facts.mounts:
        refusal = _mount_refusal(mount, facts)
        if refusal is not None:
            return refusal
    count = len(facts.mounts)
    if count == 0:
        return passed(Gate.MOUNTS, "nothing to mount", mounts=0)
    first_mount = facts.mounts[0]
    use = "free to write" if first_mount.ask.mode == "rw" else "free to read"
    return passed(Gate.MOUNTS, f"{first_mount.name} is {use}" if count == 1 else f"{count} volumes", mounts=count)


def path_fault(path: str) -> str | None:
    """What is wrong with a mount path, in words, or None."""
    if len(path) > MOUNT_PATH_LENGTH:
        return f"is longer than {MOUNT_PATH_LENGTH} characters"
    if not any(path == root or path.startswith(root + "/") for root in MOUNT_ROOTS):
        return f"is not under {', '.join(MOUNT_ROOTS)}"
    segments = path.split("/")[1:]
    if any(not _SEGMENT.fullmatch(segment) or segment in {".", ".."} for segment in segments):
        return "has a part that is not made of 1 to 64 letters, digits, dots, hyphens or underscores"
    return None


def _bad_path(path: str, wrong: str) -> Verdict:
    detail = f"The path {path[:80]} {wrong}."
    remedy = f"Use distinct paths under {', '.join(MOUNT_ROOTS)}, none inside another."
    return refused(Gate.MOUNTS, "mount_path_invalid", detail, remedy, path=path[:256])


def _mount_refusal(mount: MountFact, facts: Facts) -> Verdict | None:
    volume = str(mount.ask.volume)
    if not mount.found:
        remedy = "Choose one of your volumes, or ask its owner to share it."
        return refused(
            Gate.MOUNTS, "mount_forbidden", "You cannot mount this volume.", remedy, volume=volume, why="unknown"
        )
    if mount.ask.mode == "rw" and not mount.writable:
        detail = f"{mount.name} is shared with you read-only."
        return refused(Gate.MOUNTS, "mount_forbidden", detail, "Mount it read-only.", volume=volume, why="read_only")
    clusters = {other.cluster for other in facts.mounts if other.found} | ({facts.ask.cluster} - {None})
    if len(clusters) > 1:
        detail = f"{mount.name} lives on another cluster than the rest of this session."
        remedy = "Mount volumes of one cluster only, and leave the cluster open or choose theirs."
        return refused(Gate.MOUNTS, "mount_forbidden", detail, remedy, volume=volume, why="other_cluster")
    if mount.single_writer and mount.held_by is not None:  # also its own orphan, whose pod may still write
        detail = f"{mount.name} is in use by another session, and only one at a time may use it."
        remedy = "It frees itself when that session has ended; try again shortly."
        if not mount.holder_stopping:
            remedy = "Pause or stop that session, or leave this volume out."
        why = "stopping" if mount.holder_stopping else "held"
        held_by = str(mount.held_by)
        return refused(Gate.MOUNTS, "mount_conflict", detail, remedy, volume=volume, session=held_by, why=why)
    return None


# Gate 3 --------------------------------------------------------------------------------------------------------------


def wallet(facts: Facts) -> Verdict:
    """Sessions are paid from the requester's own wallet, and from no other."""
    if facts.ask.wallet is None or facts.ask.wallet == facts.personal_wallet:
        return passed(Gate.WALLET, "your own")
    remedy = "Leave the wallet out: sessions are paid from your own wallet."
    return refused(Gate.WALLET, "wallet_forbidden", "This wallet cannot pay for your sessions.", remedy)


# Gate 4 --------------------------------------------------------------------------------------------------------------


def policy(facts: Facts) -> Verdict:
    """The limits of running, as if the session were placed now, and what only a policy may allow."""
    ask, rights = facts.ask, facts.rights
    exists = facts.session is not None
    unprivileged = privilege(ask.privileged, rights.privileged, exists=exists)
    if unprivileged is not None:
        return unprivileged
    if ask.privileged and facts.needs_card:
        detail = "A privileged session cannot have a GPU: the partitioner refuses such pods."
        remedy = "Leave privileged off, or take a size without a GPU."
        return refused(Gate.POLICY, "quota_exceeded", detail, remedy, field="allow_privileged", limit=0, used=0)
    if ask.preemptible and not rights.preemptible.value:
        return _not_allowed("allow_preemptible", "Preemptible sessions", rights.preemptible.scope, exists=exists)
    if facts.only_shared:
        return _no_shared_pool(rights.shared_pool.scope)
    ceiling = rights.max_priority.value or 0
    if ask.priority > ceiling and not exists:  # that of one that exists is lowered instead
        detail = f"Priority {ask.priority} is above your limit of {ceiling}."
        facts_of_it = {"field": "max_priority", "limit": ceiling, "used": 0, "scope": rights.max_priority.scope}
        return refused(Gate.POLICY, "quota_exceeded", detail, f"Ask with priority {ceiling} or less.", **facts_of_it)
    return limits(facts.limits)


def privilege(asked: bool, right: RightFact, *, exists: bool) -> Verdict | None:
    """The refusal of a privileged pod where none is allowed; `exists` for a session that was allowed once."""
    if not asked or right.value:
        return None
    return _not_allowed("allow_privileged", "Privileged sessions", right.scope, exists=exists)


def queue_policy(facts: Facts) -> Verdict:
    """`max_queued`, asked only when gate 7 would queue."""
    return limits(facts.queue_limits)


def limits(wanted: Iterable[LimitFact]) -> Verdict:
    """The first limit that does not hold, else the tightest one in words."""
    known = list(wanted)
    for limit in known:
        if not limit.holds:
            return exceeded(limit)
    tightest = min(known, key=lambda limit: limit.limit - limit.used - limit.asked, default=None)
    sessions = next((limit for limit in known if limit.field == "max_sessions"), tightest)
    if sessions is None:
        return passed(Gate.POLICY, "no limit applies")
    count, last = sessions.used + sessions.asked, sessions.used + sessions.asked == sessions.limit
    words = f"{FIELD_WORDS.get(sessions.field, sessions.field)} {count} of {sessions.limit}"
    return passed(Gate.POLICY, words + (", the last one" if last else ""), **sessions.as_dict())


def exceeded(limit: LimitFact) -> Verdict:
    """The refusal of one limit."""
    what = FIELD_WORDS.get(limit.field, limit.field)
    detail = f"{limit.used} of {limit.limit} {what} are in use ({_scope_words(limit.scope)}); this needs {limit.asked}."
    remedy = "Pause or stop a session, take a smaller size, or ask an administrator to raise the limit."
    if limit.asked > limit.limit:
        remedy = "Take a smaller size, or ask an administrator to raise the limit."
    return refused(Gate.POLICY, "quota_exceeded", detail, remedy, **limit.as_dict())


def _no_shared_pool(scope: str) -> Verdict:
    detail = f"Only the shared pool could hold this, and it is not open to you ({_scope_words(scope)})."
    remedy = "Ask an administrator to open the shared pool, or to grant your group a pool with such nodes."
    return refused(Gate.POLICY, "quota_exceeded", detail, remedy, field="shared_pool", limit=0, used=0, scope=scope)


def _not_allowed(field: str, what: str, scope: str, *, exists: bool) -> Verdict:
    detail = f"{what} are not allowed here ({_scope_words(scope)})."
    without = "start a new session without" if exists else "ask without"
    remedy = f"Ask an administrator to allow them, or {without}."
    return refused(Gate.POLICY, "quota_exceeded", detail, remedy, field=field, limit=0, used=0, scope=scope)


def _scope_words(scope: str) -> str:
    kind = scope.partition(":")[0]
    return {"user": "your own limit", "group": "group limit", "organisation": "organisation limit"}.get(
        kind, "general limit"
    )


# Gates 5 and 6 -------------------------------------------------------------------------------------------------------


def budget(facts: Facts) -> Verdict:
    """No blocking budget would be overrun by what is spent, held and now to be held."""
    assert facts.money is not None
    tightest: tuple[int, str] | None = None
    for row in facts.money.budgets:
        total = row.spent + row.held + facts.money.hold
        if row.mode == "block" and total > row.limit:
            left = max(0, row.limit - row.spent - row.held)
            detail = (
                f"The budget has {display_credits(left)} of {display_credits(row.limit)} credits left;"
                f" this needs {display_credits(facts.money.hold)}."
            )
            remedy = "Wait for the next period, take a smaller size, or ask who set the budget."
            numbers = {name: format_credits(getattr(row, name)) for name in ("limit", "spent", "held")}
            needed = format_credits(facts.money.hold)
            return refused(Gate.BUDGET, "budget_exceeded", detail, remedy, scope=row.scope, needed=needed, **numbers)
        if row.limit > 0:
            share = total * 100 // row.limit
            tightest = max(tightest or (share, row.scope), (share, row.scope))
    if tightest is None:
        return passed(Gate.BUDGET, "no budget applies")
    return passed(Gate.BUDGET, f"{tightest[0]} % of the budget", percent=tightest[0], scope=tightest[1])


def hold(facts: Facts) -> Verdict:
    """The wallet has the hold free."""
    assert facts.money is not None
    needed, available = facts.money.hold, facts.money.available
    numbers = {"needed": format_credits(needed), "available": format_credits(available)}
    if needed > available:
        detail = f"It needs {display_credits(needed)} cr, {display_credits(available)} cr are available."
        remedy = f"Request {display_credits(needed - available)} cr from your group."
        if available > 0:
            remedy = f"Take a smaller size, or request {display_credits(needed - available)} cr from your group."
        return refused(Gate.HOLD, "insufficient_credit", detail, remedy, **numbers)
    return passed(Gate.HOLD, f"{display_credits(needed)} of {display_credits(available)} cr", **numbers)
