"""Who gets what at every address: one line an address and method, one column a persona (`everybody.PERSONAS`).

A status is what the answer carries; `in` leads to the sign-in, `pw` to the change of the initial password, `go` anywhere
else (what a form does when it worked, and also when it was refused with a message). Names in braces are fields of the
world in `everybody.py`. All objects are alice's ("owner") or belong to her group.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.architecture.url_bodies import BODIES


class Row(NamedTuple):
    """One line."""

    method: str
    path: str
    codes: tuple[str, ...]
    body: Any = None


def _rows(text: str) -> list[Row]:
    rows = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if not line.startswith("#"):
            method, path, *codes = line.split()
            rows.append(Row(method, path, tuple(codes), BODIES.get(f"{method} {path}")))
    return rows


SECTIONS = {name: _rows(text) for name, text in {
"entrance and account": """
#                                                anon stranger guest owner coll. group org super new
GET    /login/
POST   /login/
POST   /logout/
GET    /password/
POST   /password/
GET    /account/
POST   /account/
POST   /account/theme/
GET    /account/sign-out-everywhere/
POST   /account/sign-out-everywhere/
GET    /notifications/
POST   /notifications/
POST   /i18n/setlang/
GET    /gallery/
GET    /django-admin/
""",
"console": """
GET    /
GET    /sessions/
GET    /sessions/new/
POST   /sessions/new/
POST   /sessions/bulk/
GET    /sessions/{session}/
GET    /sessions/{nothing}/
POST   /sessions/{session}/open/
GET    /sessions/{session}/stop/
POST   /sessions/{session}/stop/
GET    /sessions/{session}/pause/
POST   /sessions/{session}/pause/
GET    /sessions/{session}/resume/
POST   /sessions/{session}/resume/
GET    /sessions/{session}/restart/
POST   /sessions/{session}/restart/
GET    /sessions/{session}/keep-alive/
POST   /sessions/{session}/keep-alive/
GET    /sessions/{session}/no-such-act/
POST   /sessions/{session}/no-such-act/
GET    /queue/
GET    /volumes/
POST   /volumes/
GET    /volumes/{volume}/resize/
POST   /volumes/{volume}/resize/
POST   /volumes/{volume}/delete/
POST   /volumes/{binned}/restore/
GET    /wallet/
GET    /wallet/request/
POST   /wallet/request/
""",
"people and places": """
POST   /api/v1/me/password
GET    /api/v1/me
GET    /api/v1/organisations
POST   /api/v1/organisations
GET    /api/v1/organisations/{organisation}
PATCH  /api/v1/organisations/{organisation}
GET    /api/v1/groups
POST   /api/v1/groups
GET    /api/v1/groups/{group}
PATCH  /api/v1/groups/{group}
GET    /api/v1/users
POST   /api/v1/users
GET    /api/v1/users/{alice}
PATCH  /api/v1/users/{alice}
POST   /api/v1/users/{alice}/reset-password
POST   /api/v1/users/{alice}/sign-out
GET    /api/v1/memberships
POST   /api/v1/memberships
GET    /api/v1/memberships/{seat}
PATCH  /api/v1/memberships/{seat}
DELETE /api/v1/memberships/{seat}
GET    /api/v1/policies
POST   /api/v1/policies
GET    /api/v1/policies/effective?group={group}
GET    /api/v1/policies/{policy}
PATCH  /api/v1/policies/{policy}
DELETE /api/v1/policies/{policy}
GET    /api/v1/audit
GET    /api/v1/notifications
POST   /api/v1/notifications/read
POST   /api/v1/notifications/{notice}/read
""",
"money": """
GET    /api/v1/wallets
POST   /api/v1/wallets/system/issue
GET    /api/v1/wallets/{wallet}
GET    /api/v1/wallets/{group_wallet}
GET    /api/v1/wallets/{wallet}/entries
POST   /api/v1/wallets/{group_wallet}/allocate
POST   /api/v1/wallets/{wallet}/reclaim
POST   /api/v1/wallets/{wallet}/adjust
""",
"catalogue": """
GET    /api/v1/offerings
GET    /api/v1/presets
GET    /api/v1/images
""",
"metal": """
GET    /api/v1/clusters
POST   /api/v1/clusters
GET    /api/v1/clusters/{cluster}
PATCH  /api/v1/clusters/{cluster}
DELETE /api/v1/clusters/{empty_cluster}
DELETE /api/v1/clusters/{cluster}
POST   /api/v1/clusters/{cluster}/test
POST   /api/v1/clusters/{cluster}/token
POST   /api/v1/clusters/{cluster}/revoke
GET    /api/v1/clusters/{cluster}/nodes
GET    /api/v1/clusters/{cluster}/cards
POST   /api/v1/nodes/{node}/cordon
POST   /api/v1/nodes/{node}/uncordon
GET    /api/v1/pools
POST   /api/v1/pools
GET    /api/v1/pools/{pool}
PATCH  /api/v1/pools/{pool}
DELETE /api/v1/pools/{pool}
GET    /api/v1/pools/{pool}/grants
POST   /api/v1/pools/{pool}/grants
DELETE /api/v1/pools/{pool}/grants/{grant}
""",
"volumes": """
GET    /api/v1/volumes
POST   /api/v1/volumes
GET    /api/v1/volumes/{volume}
PATCH  /api/v1/volumes/{volume}
DELETE /api/v1/volumes/{volume}
POST   /api/v1/volumes/{binned}/restore
GET    /api/v1/volumes/{volume}/shares
POST   /api/v1/volumes/{volume}/shares
DELETE /api/v1/volumes/{volume}/shares/{share}
GET    /api/v1/volumes/{volume}/snapshots
POST   /api/v1/volumes/{volume}/snapshots
""",
"sessions": """
GET    /api/v1/sessions
GET    /api/v1/sessions?scope=group:{group}
GET    /api/v1/sessions?scope=organisation:{organisation}
GET    /api/v1/sessions?scope=all
POST   /api/v1/sessions
POST   /api/v1/sessions/preview
GET    /api/v1/sessions/{session}
GET    /api/v1/sessions/{nothing}
POST   /api/v1/sessions/{session}/pause
POST   /api/v1/sessions/{session}/resume
POST   /api/v1/sessions/{session}/restart
POST   /api/v1/sessions/{session}/stop
POST   /api/v1/sessions/{session}/keep-alive
POST   /api/v1/sessions/{session}/access
GET    /api/v1/sessions/{session}/timeline
GET    /api/v1/queue
GET    /api/v1/queue?scope=group:{group}
PATCH  /api/v1/queue/{queued}
""",
"elsewhere": """
GET    /api/v1/schema/
GET    /api/v1/no-such-path
""",
}.items()}

# Addresses that only somebody who is not signed in is answered at with their own methods; and those that answer any method.
ASKED_AS_NOBODY: frozenset[str] = frozenset()
ANY_METHOD: frozenset[str] = frozenset({"/api/v1/no-such-path"})

# Django's own admin: its lists, and which models are edited there (the rest is looked at).
SITE_ADMIN: tuple[str, ...] = ("in", "404", "404", "404", "404", "404", "404", "200", "pw")
MODELS: dict[str, str] = {}

CALLERS = "nobody person agent stranger operator"
INTERNAL = _rows("""
#                                                nobody person agent stranger operator
GET    /healthz
GET    /readyz
GET    /metrics
GET    /.well-known/gshare-internal-jwks.json
POST   /internal/v1/token
GET    /internal/v1/desired
POST   /internal/v1/sessions/{session}/status
POST   /internal/v1/sessions/{nothing}/status
POST   /internal/v1/inventory
""")
# Answered by the ASGI router before Django is asked; its own tests are tests/apps/access.
BEFORE_DJANGO = ("internal/v1/access/verify",)
