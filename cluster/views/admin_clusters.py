"""Clusters and their nodes: what is silent, closed or at odds, a test that says what is wrong, and emptying a node.

Guarantees: for super administrators only, for everybody else no such page is there; a node is emptied with a reason that the
owners read, and after what it means has been said; what is refused stays in the question.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from cluster import services
from cluster.adapters import examine, port_of
from cluster.api import documents
from cluster.domain.preflight.findings import Finding
from cluster.models import Cluster, Node, NodeDrain
from cluster.port import PortError
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer, go_to

MOST = 500
VERBS = ("drain", "cordon", "uncordon")


@administrators_only
@require_GET
def clusters(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """Every cluster that is registered, with how many nodes it has and how many of them take nothing new."""
    _only_super(administrator)
    own = Q(nodes__retired_at=None)
    closed = own & (Q(nodes__is_cordoned=True) | Q(nodes__is_unschedulable=True) | Q(nodes__is_ready=False))
    rows = Cluster.objects.present().annotate(
        many=Count("nodes", filter=own, distinct=True), closed=Count("nodes", filter=closed, distinct=True)
    )
    found = list(rows.order_by("name")[:MOST])
    context = {
        "now": clock.now(),
        "rows": [
            _cluster(row) | {"nodes": row.many, "closed": row.closed, "url": reverse("admin_cluster", args=[row.pk])}
            for row in found
        ],
        "count_text": ngettext("%(n)d cluster", "%(n)d clusters", len(found)) % {"n": len(found)},
    }
    return answer(request, "cluster/admin/clusters.html", context)


@administrators_only
@require_http_methods(["GET", "POST"])
def cluster(request: HttpRequest, administrator: Administrator, cluster_id: UUID) -> HttpResponse:
    """One cluster with its nodes and the cards whose books disagree; POST tests it and says what keeps sessions from running."""
    _only_super(administrator)
    found = get_object_or_404(Cluster.objects.present(), pk=cluster_id)
    now = clock.now()
    nodes = [_node(row) for row in documents.nodes().filter(cluster=found).order_by("name", "pk")[:MOST]]
    context = {
        "now": now,
        "cluster": _cluster(found),
        "nodes": nodes,
        "drifts": _drifts(found),
        "tested": _tested(found, now) if request.method == "POST" else None,
        "topic": f"fleet:{found.pk}",
    }
    return answer(request, "cluster/admin/cluster.html", context, fragments=("nodes",))


def _only_super(administrator: Administrator) -> None:
    if not administrator.is_super:
        raise Http404


def _cluster(row: Cluster) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.get_kind_display(),
        "state": row.get_state_display(),
        "silent": row.state in (Cluster.State.SUSPECT, Cluster.State.LOST),
        "beat": row.last_beat_at,
        "refuses": row.sweep_ends if row.sweep_held_at is not None else None,
    }


def _node(row: Any) -> dict[str, Any]:
    drain = next(iter(row.open_drains), None)
    return {
        "name": row.name,
        "state": _state(row, drain),
        "warns": not row.is_ready,
        "sessions": row.sessions,
        "why": drain.reason if drain else "",
        "closed": row.is_cordoned,
        "drain_url": reverse("admin_node_act", args=[row.pk, "drain"]),
        "switch_url": reverse("admin_node_act", args=[row.pk, "uncordon" if row.is_cordoned else "cordon"]),
    }


def _state(row: Node, drain: NodeDrain | None) -> str:
    if not row.is_ready:
        return _("not ready")
    if drain is not None:
        return (
            _("is emptied: sessions stop") if drain.mode == NodeDrain.Mode.STOP else _("is emptied: they go elsewhere")
        )
    if row.is_cordoned:
        return _("closed: takes nothing new")
    return _("closed in Kubernetes") if row.is_unschedulable else _("ready")


def _drifts(found: Cluster) -> list[dict[str, Any]]:
    """The cards about which pods, HAMi and claims have disagreed for long enough to be told."""
    rows = documents.cards().filter(node__cluster=found, drift__alarmed_at__isnull=False)
    return [
        {"node": row.node.name, "index": row.index, "words": row.drift.words, "since": row.drift.since}
        for row in rows.order_by("node__name", "index")[:MOST]
    ]


def _tested(found: Cluster, now: datetime) -> dict[str, Any]:
    """What the test says: whether it can be reached, and each thing that is wrong, with what to do."""
    findings: tuple[Finding, ...] = ()
    problem = ""
    try:
        port_of(found).observe()
        findings = examine(found, now=now)
    except PortError as error:
        problem = str(error)
    words = {"error": _("keeps sessions from running"), "warning": _("warning"), "note": _("note")}
    rows = [documents.finding(each) | {"weight": words[each.severity]} for each in findings]
    return {"problem": problem, "rows": rows, "at": wording.clock(now, now)}


# Nodes ----------------------------------------------------------------------------------------------------------------


@administrators_only
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, administrator: Administrator, node_id: UUID, verb: str) -> HttpResponse:
    """GET says what it means and asks; POST empties a node, closes it, or uses it again."""
    _only_super(administrator)
    node = get_object_or_404(Node.objects.filter(retired_at=None).select_related("cluster"), pk=node_id)
    here = reverse("admin_cluster", args=[node.cluster_id])
    if verb not in VERBS:
        return HttpResponseRedirect(here)
    if request.method == "GET":
        return _ask(request, node, verb)
    by = administrator.user
    try:
        if verb == "drain":
            mode, reason = request.POST.get("mode", ""), request.POST.get("reason", "")
            services.drain_node(by=by, node_id=node.pk, mode=mode, reason=reason)
        else:
            services.cordon_node(by=by, node_id=node.pk, cordoned=verb == "cordon")
    except DomainError as refusal:
        return _ask(request, node, verb, refused=refusal_text(refusal))
    done = {
        "drain": _("%(name)s is emptied; it takes nothing new."),
        "cordon": _("%(name)s takes nothing new."),
        "uncordon": _("%(name)s is used again."),
    }
    messages.success(request, done[verb] % {"name": node.name})
    return go_to(request, here)


def _ask(request: HttpRequest, node: Node, verb: str, *, refused: str = "") -> HttpResponse:
    here, name = reverse("admin_cluster", args=[node.cluster_id]), {"name": node.name}
    title, effects, submit = {
        "drain": (
            _("Empty %(name)s?"),
            [
                _("Nothing new lands there, from now on"),
                _("Every session there leaves: it starts elsewhere where there is room, or stops"),
                _("It goes on until the node is empty or is used again"),
            ],
            _("Empty %(name)s"),
        ),
        "cordon": (_("Close %(name)s?"), [_("Nothing new lands there; what runs goes on")], _("Close %(name)s")),
        "uncordon": (
            _("Use %(name)s again?"),
            [_("New sessions land there again; emptying it is called off")],
            _("Use %(name)s again"),
        ),
    }[verb]
    modes = [(NodeDrain.Mode.RESCHEDULE.value, _("Start elsewhere")), (NodeDrain.Mode.STOP.value, _("Stop"))]
    question = {
        "title": title % name,
        "effects": effects,
        "error": refused,
        "url": request.path,
        "submit": submit % name,
        "danger": verb == "drain",
        "cancel_url": here,
        "cancel": _("Leave it"),
        "reason": verb == "drain",
        "choice": {"name": "mode", "label": _("Its sessions"), "choices": modes} if verb == "drain" else None,
        "fields": {},
    }
    back = [{"name": _("Clusters"), "url": reverse("admin_clusters")}, {"name": node.cluster.name, "url": here}]
    context = {"question": question, "layout": "layouts/admin.html", "back": back}
    return answer(request, "layouts/ask.html", context, fragments=("dialog",), status=422 if refused else 200)
