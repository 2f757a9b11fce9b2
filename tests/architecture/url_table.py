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


SECTIONS = {
    name: _rows(text)
    for name, text in {
        "entrance and account": """
#                                                anon stranger guest owner coll. group org super new
GET    /login/                                            200 go  go  go  go  go  go  go  go
POST   /login/                                            401 401 401 401 401 401 401 401 401
POST   /logout/                                           go  go  go  go  go  go  go  go  go
GET    /password/                                         in  200 200 200 200 200 200 200 200
POST   /password/                                         in  go  go  go  go  go  go  go  go
GET    /account/                                          in  200 200 200 200 200 200 200 pw
POST   /account/                                          in  go  go  go  go  go  go  go  pw
POST   /account/theme/                                    go  go  go  go  go  go  go  go  go
GET    /account/sign-out-everywhere/                      in  200 200 200 200 200 200 200 pw
POST   /account/sign-out-everywhere/                      in  go  go  go  go  go  go  go  pw
GET    /notifications/                                    in  200 200 200 200 200 200 200 pw
POST   /notifications/                                    in  go  go  go  go  go  go  go  pw
POST   /i18n/setlang/                                     go  go  go  go  go  go  go  go  go
GET    /gallery/                                          200 200 200 200 200 200 200 200 pw
GET    /django-admin/                                     in  404 404 404 404 404 404 200 pw
""",
        "console": """
GET    /                                                  in  200 200 200 200 200 200 200 pw
GET    /sessions/                                         in  200 200 200 200 200 200 200 pw
GET    /sessions/new/                                     in  200 200 200 200 200 200 200 pw
POST   /sessions/new/                                     in  422 422 go  go  go  422 422 pw
POST   /sessions/bulk/                                    in  go  go  go  go  go  go  go  pw
GET    /sessions/{session}/                               in  404 404 200 404 200 200 200 pw
GET    /sessions/{nothing}/                               in  404 404 404 404 404 404 404 pw
GET    /sessions/{session}/logs/                          in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/open/                          in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/stop/                          in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/stop/                          in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/pause/                         in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/pause/                         in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/resume/                        in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/resume/                        in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/restart/                       in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/restart/                       in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/keep-alive/                    in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/keep-alive/                    in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/stay-paused/                   in  404 404 200 404 200 200 200 pw
POST   /sessions/{session}/stay-paused/                   in  404 404 go  404 go  go  go  pw
GET    /sessions/{session}/no-such-act/                   in  404 404 go  404 go  go  go  pw
POST   /sessions/{session}/no-such-act/                   in  404 404 go  404 go  go  go  pw
GET    /queue/                                            in  200 200 200 200 200 200 200 pw
GET    /volumes/                                          in  200 200 200 200 200 200 200 pw
POST   /volumes/                                          in  go  422 go  go  go  go  go  pw
GET    /volumes/{volume}/resize/                          in  404 404 200 200 200 200 200 pw
POST   /volumes/{volume}/resize/                          in  404 404 go  422 422 go  go  pw
POST   /volumes/{volume}/delete/                          in  404 404 go  go  go  go  go  pw
GET    /volumes/{volume}/shares/                          in  404 404 200 403 403 200 200 pw
POST   /volumes/{volume}/shares/                          in  404 404 go  403 403 go  go  pw
POST   /volumes/{volume}/shares/{share}/end/              in  404 404 go  403 403 go  go  pw
POST   /volumes/{binned}/restore/                         in  404 404 go  404 404 go  go  pw
GET    /wallet/                                           in  200 200 200 200 200 200 200 pw
GET    /wallet/request/                                   in  200 200 200 200 200 200 200 pw
POST   /wallet/request/                                   in  422 422 422 go  go  422 422 pw
POST   /wallet/request/{asked}/withdraw/                  in  404 404 go  404 404 404 404 pw
""",
        "administrator console": """
GET    /admin/                                            in  404 404 404 404 200 200 200 pw
GET    /admin/sessions/                                   in  404 404 404 404 200 200 200 pw
GET    /admin/sessions/bulk/?act=stop&session={session}   in  404 404 404 404 200 200 200 pw
POST   /admin/sessions/bulk/                              in  404 404 404 404 go  go  go  pw
GET    /admin/sessions/{session}/                         in  404 404 404 404 200 200 200 pw
GET    /admin/sessions/{nothing}/                         in  404 404 404 404 404 404 404 pw
GET    /admin/sessions/{session}/stop/                    in  404 404 404 404 200 200 200 pw
POST   /admin/sessions/{session}/stop/                    in  404 404 404 404 go  go  go  pw
POST   /admin/sessions/{session}/pause/                   in  404 404 404 404 go  go  go  pw
POST   /admin/sessions/{session}/resume/                  in  404 404 404 404 go  go  go  pw
POST   /admin/sessions/{session}/restart/                 in  404 404 404 404 go  go  go  pw
GET    /admin/sessions/{session}/open/                    in  404 404 404 404 200 200 200 pw
POST   /admin/sessions/{session}/open/                    in  404 404 404 404 go  go  go  pw
GET    /admin/sessions/{queued}/priority/                 in  404 404 404 404 200 200 200 pw
POST   /admin/sessions/{queued}/priority/                 in  404 404 404 404 go  go  go  pw
GET    /admin/sessions/{session}/no-such-act/             in  404 404 404 404 go  go  go  pw
GET    /admin/queue/                                      in  404 404 404 404 200 200 200 pw
GET    /admin/organisations/                              in  404 404 404 404 404 200 200 pw
GET    /admin/organisations/new/                          in  404 404 404 404 404 404 200 pw
POST   /admin/organisations/new/                          in  404 404 404 404 404 404 go  pw
GET    /admin/organisations/{organisation}/               in  404 404 404 404 404 200 200 pw
POST   /admin/organisations/{organisation}/               in  404 404 404 404 404 422 go  pw
GET    /admin/organisations/{organisation}/deactivate/    in  404 404 404 404 404 200 200 pw
POST   /admin/organisations/{organisation}/deactivate/    in  404 404 404 404 404 go  go  pw
GET    /admin/organisations/{organisation}/activate/      in  404 404 404 404 404 200 200 pw
POST   /admin/organisations/{organisation}/activate/      in  404 404 404 404 404 go  go  pw
GET    /admin/groups/                                     in  404 404 404 404 200 200 200 pw
GET    /admin/groups/new/                                 in  404 404 404 404 404 200 200 pw
POST   /admin/groups/new/                                 in  404 404 404 404 404 go  go  pw
GET    /admin/groups/{group}/                             in  404 404 404 404 200 200 200 pw
POST   /admin/groups/{group}/                             in  404 404 404 404 422 go  go  pw
GET    /admin/groups/{group}/deactivate/                  in  404 404 404 404 200 200 200 pw
POST   /admin/groups/{group}/deactivate/                  in  404 404 404 404 go  go  go  pw
GET    /admin/groups/{group}/activate/                    in  404 404 404 404 200 200 200 pw
POST   /admin/groups/{group}/activate/                    in  404 404 404 404 go  go  go  pw
GET    /admin/seats/{seat}/                               in  404 404 404 404 200 200 200 pw
POST   /admin/seats/{seat}/                               in  404 404 404 404 go  go  go  pw
GET    /admin/users/                                      in  404 404 404 404 200 200 200 pw
GET    /admin/users/new/                                  in  404 404 404 404 200 200 200 pw
POST   /admin/users/new/                                  in  404 404 404 404 200 200 200 pw
GET    /admin/users/import/                               in  404 404 404 404 200 200 200 pw
POST   /admin/users/import/                               in  404 404 404 404 422 422 422 pw
GET    /admin/users/{alice}/                              in  404 404 404 404 200 200 200 pw
POST   /admin/users/{alice}/                              in  404 404 404 404 go  go  go  pw
GET    /admin/users/{alice}/deactivate/                   in  404 404 404 404 200 200 200 pw
POST   /admin/users/{alice}/deactivate/                   in  404 404 404 404 go  go  go  pw
POST   /admin/users/{alice}/reset-password/               in  404 404 404 404 200 200 200 pw
GET    /admin/audit/                                      in  404 404 404 404 200 200 200 pw
GET    /admin/credits/                                    in  404 404 404 404 200 200 200 pw
GET    /admin/credits/issue/                              in  404 404 404 404 404 404 200 pw
POST   /admin/credits/issue/                              in  404 404 404 404 404 404 go  pw
GET    /admin/credits/refills/                            in  404 404 404 404 200 200 200 pw
GET    /admin/credits/wallets/{wallet}/                   in  404 404 404 404 200 200 200 pw
POST   /admin/credits/wallets/{wallet}/                   in  404 404 404 404 go  go  go  pw
GET    /admin/credits/{asked}/approve/                    in  404 404 404 404 200 200 200 pw
POST   /admin/credits/{asked}/approve/                    in  404 404 404 404 go  go  go  pw
POST   /admin/credits/{asked}/reject/                     in  404 404 404 404 go  go  go  pw
GET    /admin/clusters/                                   in  404 404 404 404 404 404 200 pw
GET    /admin/clusters/{cluster}/                         in  404 404 404 404 404 404 200 pw
POST   /admin/clusters/{cluster}/                         in  404 404 404 404 404 404 200 pw
GET    /admin/nodes/{node}/drain/                         in  404 404 404 404 404 404 200 pw
POST   /admin/nodes/{node}/drain/                         in  404 404 404 404 404 404 go  pw
GET    /admin/budgets/                                    in  404 404 404 404 200 200 200 pw
GET    /admin/budgets/new/                                in  404 404 404 404 200 200 200 pw
POST   /admin/budgets/new/                                in  404 404 404 404 422 go  go  pw
GET    /admin/budgets/{budget}/                           in  404 404 404 404 200 200 200 pw
POST   /admin/budgets/{budget}/                           in  404 404 404 404 422 go  go  pw
GET    /admin/budgets/{budget}/close/                     in  404 404 404 404 200 200 200 pw
POST   /admin/budgets/{budget}/close/                     in  404 404 404 404 go  go  go  pw
GET    /admin/reports/                                    in  404 404 404 404 200 200 200 pw
GET    /admin/policies/                                   in  404 404 404 404 200 200 200 pw
GET    /admin/policies/?scope=group:{group}               in  404 404 404 404 200 200 200 pw
GET    /admin/policies/?scope=organisation:{organisation} in  404 404 404 404 404 200 200 pw
POST   /admin/policies/?scope=group:{group}               in  404 404 404 404 422 go  go  pw
""",
        "people and places": """
POST   /api/v1/me/password                                401 204 204 204 204 204 204 204 204
GET    /api/v1/me                                         401 200 200 200 200 200 200 200 403
GET    /api/v1/organisations                              401 200 200 200 200 200 200 200 403
POST   /api/v1/organisations                              401 403 403 403 403 403 403 201 403
GET    /api/v1/organisations/{organisation}               401 404 200 200 200 200 200 200 403
PATCH  /api/v1/organisations/{organisation}               401 404 403 403 403 403 403 200 403
GET    /api/v1/groups                                     401 200 200 200 200 200 200 200 403
POST   /api/v1/groups                                     401 404 403 403 403 403 201 201 403
GET    /api/v1/groups/{group}                             401 404 200 200 200 200 200 200 403
PATCH  /api/v1/groups/{group}                             401 404 403 403 403 403 200 200 403
GET    /api/v1/users                                      401 200 200 200 200 200 200 200 403
POST   /api/v1/users                                      401 404 403 403 403 201 201 201 403
GET    /api/v1/users/{alice}                              401 404 404 200 404 200 200 200 403
PATCH  /api/v1/users/{alice}                              401 404 404 403 404 200 200 200 403
POST   /api/v1/users/{alice}/reset-password               401 404 404 403 404 200 200 200 403
POST   /api/v1/users/{alice}/sign-out                     401 404 404 204 404 204 204 204 403
GET    /api/v1/memberships                                401 200 200 200 200 200 200 200 403
POST   /api/v1/memberships                                401 404 403 403 403 202 202 202 403
GET    /api/v1/memberships/{seat}                         401 404 404 200 404 200 200 200 403
PATCH  /api/v1/memberships/{seat}                         401 404 404 403 404 200 200 200 403
DELETE /api/v1/memberships/{seat}                         401 404 404 403 404 204 204 204 403
GET    /api/v1/policies                                   401 200 200 200 200 200 200 200 403
POST   /api/v1/policies                                   401 404 403 403 403 403 200 200 403
GET    /api/v1/policies/effective?group={group}           401 404 200 200 200 200 200 200 403
GET    /api/v1/policies/{policy}                          401 404 404 404 404 200 200 200 403
PATCH  /api/v1/policies/{policy}                          401 404 404 404 404 403 200 200 403
DELETE /api/v1/policies/{policy}                          401 404 404 404 404 403 204 204 403
PATCH  /api/v1/policies/{reserved}                        401 404 404 404 404 403 403 200 403
DELETE /api/v1/policies/{reserved}                        401 404 404 404 404 403 403 204 403
GET    /api/v1/audit                                      401 403 403 403 403 200 200 200 403
GET    /api/v1/notifications                              401 200 200 200 200 200 200 200 403
POST   /api/v1/notifications/read                         401 200 200 200 200 200 200 200 403
POST   /api/v1/notifications/{notice}/read                401 404 404 200 404 404 404 404 403
""",
        "money": """
GET    /api/v1/wallets                                    401 200 200 200 200 200 200 200 403
POST   /api/v1/wallets/system/issue                       401 403 403 403 403 403 403 201 403
GET    /api/v1/wallets/{wallet}                           401 404 404 200 404 200 200 200 403
GET    /api/v1/wallets/{group_wallet}                     401 404 404 404 404 200 200 200 403
GET    /api/v1/wallets/{wallet}/entries                   401 404 404 200 404 200 200 200 403
POST   /api/v1/wallets/{group_wallet}/allocate            401 404 404 404 404 201 201 201 403
POST   /api/v1/wallets/{wallet}/reclaim                   401 404 404 404 404 201 201 201 403
POST   /api/v1/wallets/{group_wallet}/bulk                401 404 404 404 404 201 201 201 403
PUT    /api/v1/wallets/{wallet}/monthly-grant             401 404 404 404 404 409 409 409 403
GET    /api/v1/wallets/{wallet}/refills                   401 404 404 200 404 200 200 200 403
GET    /api/v1/wallets/{group_wallet}/refills             401 404 404 404 404 200 200 200 403
GET    /api/v1/budgets                                    401 200 200 200 200 200 200 200 403
POST   /api/v1/budgets                                    401 404 404 404 404 403 201 201 403
GET    /api/v1/budgets/{budget}                           401 404 404 404 404 200 200 200 403
PATCH  /api/v1/budgets/{budget}                           401 404 404 404 404 403 200 200 403
DELETE /api/v1/budgets/{budget}                           401 404 404 404 404 403 204 204 403
GET    /api/v1/budgets/{budget}/forecast                  401 404 404 404 404 200 200 200 403
GET    /api/v1/reports/usage?by=day&from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z 401 200 200 200 200 200 200 200 403
GET    /api/v1/reports/usage?by=day&from=2026-10-01T00:00:00Z&to=2026-11-01T00:00:00Z&scope=group:{group} 401 404 404 404 404 200 200 200 403
GET    /api/v1/sessions/{session}/summary                 401 404 404 200 404 200 200 200 403
GET    /api/v1/credit-requests                            401 200 200 200 200 200 200 200 403
POST   /api/v1/credit-requests                            401 404 403 409 201 201 403 403 403
GET    /api/v1/credit-requests/{asked}                    401 404 404 200 404 200 200 200 403
POST   /api/v1/credit-requests/{asked}/approve            401 404 404 403 404 201 201 201 403
POST   /api/v1/credit-requests/{asked}/reject             401 404 404 403 404 200 200 200 403
POST   /api/v1/credit-requests/{asked}/withdraw           401 404 404 200 404 403 403 403 403
POST   /api/v1/credit-requests/{asked}/forward            401 404 404 403 404 201 201 201 403
POST   /api/v1/wallets/{wallet}/adjust                    401 404 404 403 404 403 403 201 403
""",
        "catalogue": """
GET    /api/v1/offerings                                  401 200 200 200 200 200 200 200 403
GET    /api/v1/presets                                    401 200 200 200 200 200 200 200 403
GET    /api/v1/images                                     401 200 200 200 200 200 200 200 403
GET    /api/v1/offerings/{offering}/prices                401 403 403 403 403 403 403 200 403
POST   /api/v1/offerings/{offering}/prices                401 403 403 403 403 403 403 201 403
""",
        "metal": """
GET    /api/v1/clusters                                   401 200 200 200 200 200 200 200 403
POST   /api/v1/clusters                                   401 403 403 403 403 403 403 201 403
GET    /api/v1/clusters/{cluster}                         401 200 200 200 200 200 200 200 403
PATCH  /api/v1/clusters/{cluster}                         401 403 403 403 403 403 403 200 403
DELETE /api/v1/clusters/{empty_cluster}                   401 403 403 403 403 403 403 204 403
DELETE /api/v1/clusters/{cluster}                         401 403 403 403 403 403 403 409 403
POST   /api/v1/clusters/{cluster}/test                    401 403 403 403 403 403 403 200 403
POST   /api/v1/clusters/{cluster}/token                   401 403 403 403 403 403 403 201 403
POST   /api/v1/clusters/{cluster}/revoke                  401 403 403 403 403 403 403 204 403
POST   /api/v1/clusters/{cluster}/sweep                   401 403 403 403 403 403 403 409 403
GET    /api/v1/clusters/{cluster}/nodes                   401 403 403 403 403 403 403 200 403
GET    /api/v1/clusters/{cluster}/cards                   401 403 403 403 403 403 403 200 403
POST   /api/v1/nodes/{node}/cordon                        401 403 403 403 403 403 403 200 403
POST   /api/v1/nodes/{node}/uncordon                      401 403 403 403 403 403 403 200 403
POST   /api/v1/nodes/{node}/drain                         401 403 403 403 403 403 403 202 403
PUT    /api/v1/cards/{card}/mode                          401 403 403 403 403 403 403 200 403
GET    /api/v1/pools                                      401 200 200 200 200 200 200 200 403
POST   /api/v1/pools                                      401 403 403 403 403 403 403 201 403
GET    /api/v1/pools/{pool}                               401 404 200 200 200 200 200 200 403
PATCH  /api/v1/pools/{pool}                               401 404 403 403 403 403 403 200 403
DELETE /api/v1/pools/{pool}                               401 404 403 403 403 403 403 204 403
GET    /api/v1/pools/{pool}/grants                        401 404 200 200 200 200 200 200 403
POST   /api/v1/pools/{pool}/grants                        401 404 403 403 403 403 201 201 403
DELETE /api/v1/pools/{pool}/grants/{grant}                401 404 403 403 403 403 403 204 403
""",
        "volumes": """
GET    /api/v1/volumes                                    401 200 200 200 200 200 200 200 403
POST   /api/v1/volumes                                    401 201 403 201 201 201 201 201 403
GET    /api/v1/volumes/{volume}                           401 404 404 200 200 200 200 200 403
PATCH  /api/v1/volumes/{volume}                           401 404 404 200 403 403 200 200 403
DELETE /api/v1/volumes/{volume}                           401 404 404 204 403 403 204 204 403
POST   /api/v1/volumes/{binned}/restore                   401 404 404 200 404 404 200 200 403
GET    /api/v1/volumes/{volume}/shares                    401 404 404 200 403 403 200 200 403
POST   /api/v1/volumes/{volume}/shares                    401 404 404 201 403 403 201 201 403
DELETE /api/v1/volumes/{volume}/shares/{share}            401 404 404 204 403 403 204 204 403
GET    /api/v1/volumes/{volume}/snapshots                 401 404 404 501 501 501 501 501 403
POST   /api/v1/volumes/{volume}/snapshots                 401 404 404 501 501 501 501 501 403
""",
        "sessions": """
GET    /api/v1/sessions                                   401 200 200 200 200 200 200 200 403
GET    /api/v1/sessions?scope=group:{group}               401 404 404 404 404 200 200 200 403
GET    /api/v1/sessions?scope=organisation:{organisation} 401 404 404 404 404 404 200 200 403
GET    /api/v1/sessions?scope=all                         401 404 404 404 404 404 404 200 403
POST   /api/v1/sessions                                   401 404 403 201 201 201 404 404 403
POST   /api/v1/sessions/preview                           401 200 200 200 200 200 200 200 403
GET    /api/v1/sessions/{session}                         401 404 404 200 404 200 200 200 403
GET    /api/v1/sessions/{nothing}                         401 404 404 404 404 404 404 404 403
POST   /api/v1/sessions/{session}/pause                   401 404 404 202 404 202 202 202 403
POST   /api/v1/sessions/{session}/resume                  401 404 404 409 404 409 409 409 403
POST   /api/v1/sessions/{session}/restart                 401 404 404 202 404 202 202 202 403
POST   /api/v1/sessions/{session}/stop                    401 404 404 202 404 202 202 202 403
POST   /api/v1/sessions/{session}/keep-alive              401 404 404 202 404 202 202 202 403
POST   /api/v1/sessions/{session}/stay-paused             401 404 404 409 404 409 409 409 403
POST   /api/v1/sessions/{session}/access                  401 404 404 200 404 200 200 200 403
GET    /api/v1/sessions/{session}/timeline                401 404 404 200 404 200 200 200 403
GET    /api/v1/sessions/{session}/logs                    401 404 404 200 404 200 200 200 403
GET    /api/v1/queue                                      401 200 200 200 200 200 200 200 403
GET    /api/v1/queue?scope=group:{group}                  401 404 404 404 404 200 200 200 403
PATCH  /api/v1/queue/{queued}                             401 404 404 403 404 200 200 200 403
""",
        "elsewhere": """
GET    /api/v1/schema/                                    401 200 200 200 200 200 200 200 403
GET    /api/v1/no-such-path                               404 404 404 404 404 404 404 404 403
""",
    }.items()
}

# Addresses whose own view tells methods apart by what they do, not by 405.
ANY_METHOD: dict[str, str] = {
    "/api/v1/no-such-path": "nothing is there for any method",
    "/django-admin/": "Django's index reads, whatever is sent",
    "/gallery/": "every component on one page for who builds pages; there only while settings.GALLERY says so",
    "/i18n/setlang/": "Django's view goes back and does nothing unless it is a POST",
}

# Django's own admin: its lists, and to which models rows are added there (the rest is looked at).
SITE_ADMIN: tuple[str, ...] = ("in", "404", "404", "404", "404", "404", "404", "200", "pw")
MODELS: dict[str, str] = {
    "accounts.auditentry": "view",
    "accounts.auditseal": "view",
    "accounts.drainintent": "view",
    "accounts.group": "view",
    "accounts.idempotencykey": "view",
    "accounts.lease": "view",
    "accounts.membership": "view",
    "accounts.notification": "view",
    "accounts.organisation": "view",
    "accounts.policy": "view",
    "accounts.signin": "view",
    "accounts.user": "view",
    "billing.account": "view",
    "billing.allocation": "view",
    "billing.budget": "view",
    "billing.creditrequest": "view",
    "billing.grantrefill": "view",
    "billing.lowbalance": "view",
    "billing.meter": "view",
    "billing.monthlygrant": "view",
    "billing.transfer": "view",
    "billing.checkpoint": "view",
    "billing.verifiedallocation": "view",
    "billing.verifiedmeter": "view",
    "billing.verifiedperiod": "view",
    "billing.verifiedwallet": "view",
    "catalog.image": "add",
    "catalog.offering": "add",
    "catalog.preset": "add",
    "catalog.pricerevision": "add",
    "cluster.attachment": "view",
    "cluster.card": "view",
    "cluster.carddrift": "view",
    "cluster.claim": "view",
    "cluster.cluster": "view",
    "cluster.deafness": "view",
    "cluster.desired": "view",
    "cluster.earmark": "view",
    "cluster.fleetchange": "view",
    "cluster.heartbeat": "view",
    "cluster.listing": "view",
    "cluster.modechange": "view",
    "cluster.node": "view",
    "cluster.nodedrain": "view",
    "cluster.pool": "view",
    "cluster.poolgrant": "view",
    "cluster.sequence": "view",
    "cluster.volume": "view",
    "cluster.volumedrain": "view",
    "cluster.volumeshare": "view",
    "sessions_app.accessticket": "view",
    "sessions_app.attempt": "view",
    "sessions_app.lanelook": "view",
    "sessions_app.preemption": "view",
    "sessions_app.queueentry": "view",
    "sessions_app.recentuse": "view",
    "sessions_app.run": "view",
    "sessions_app.runactivity": "view",
    "sessions_app.session": "view",
    "sessions_app.timelineentry": "view",
    "sessions_app.usage": "view",
}

CALLERS = "nobody person agent stranger operator"
INTERNAL = _rows("""
#                                                nobody person agent stranger operator
GET    /healthz                                           200 200 200 200 200
GET    /readyz                                            200 200 200 200 200
GET    /metrics                                           200 200 200 200 200
GET    /.well-known/gshare-internal-jwks.json             200 200 200 200 200
POST   /internal/v1/token                                 401 401 200 200 200
GET    /internal/v1/desired                               401 401 403 200 200
POST   /internal/v1/sessions/{session}/status             401 401 403 403 204
POST   /internal/v1/sessions/{nothing}/status             401 401 403 403 403
POST   /internal/v1/inventory                             401 401 403 200 200
POST   /internal/v1/agent/samples                         401 401 200 403 403
""")
# Answered by the ASGI router before Django is asked; its own tests are tests/apps/access.
BEFORE_DJANGO = ("internal/v1/access/verify",)
