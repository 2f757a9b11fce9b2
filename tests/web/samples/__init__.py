"""Contexts of every page as the views make them; one story runs through all."""

from __future__ import annotations

from typing import Any

from tests.web.samples import creation, logs, money, overview, people, session
from tests.web.samples.overview import dashboard
from tests.web.samples.session import session_detail
from tests.web.samples.story import NOW, ZONE, user_shell

PAGES: dict[str, tuple[str, Any]] = {
    "sign-in": ("accounts/sign_in.html", people.sign_in),
    "sign-in-refused": ("accounts/sign_in.html", lambda: people.sign_in(refused=True)),
    "password": ("accounts/password_change.html", people.password_change),
    "dashboard": ("sessions_app/dashboard.html", overview.dashboard),
    "dashboard-empty": ("sessions_app/dashboard.html", overview.dashboard_empty),
    "new-session": ("sessions_app/session_new.html", creation.session_new),
    "new-session-refused": ("sessions_app/session_new.html", lambda: creation.session_new(refused=True)),
    "session": ("sessions_app/session.html", session.session_detail),
    "session-queued": ("sessions_app/session.html", session.session_queued),
    "session-starting": ("sessions_app/session.html", session.session_starting),
    "session-failed": ("sessions_app/session.html", session.session_failed),
    "session-logs": ("sessions_app/session_logs.html", logs.session_logs),
    "session-logs-none": ("sessions_app/session_logs.html", logs.none_yet),
    "session-logs-unavailable": ("sessions_app/session_logs.html", logs.unavailable),
    "sessions": ("sessions_app/sessions.html", overview.sessions),
    "sessions-nothing-found": ("sessions_app/sessions.html", lambda: overview.sessions(search="vit-x")),
    "sessions-nothing-yet": ("sessions_app/sessions.html", lambda: overview.sessions(empty=True)),
    "ask": ("layouts/ask.html", overview.ask),
    "queue": ("sessions_app/queue.html", overview.queue),
    "queue-empty": ("sessions_app/queue.html", overview.queue_empty),
    "wallet": ("billing/wallet.html", money.wallet),
    "wallet-empty": ("billing/wallet.html", lambda: money.wallet(empty=True)),
    "volumes": ("sessions_app/volumes.html", people.volumes),
    "volumes-empty": ("sessions_app/volumes.html", lambda: people.volumes(empty=True)),
    "volume-shares": ("sessions_app/volume_shares.html", people.volume_shares),
    "volume-shares-empty": ("sessions_app/volume_shares.html", lambda: people.volume_shares(empty=True)),
    "notifications": ("accounts/notifications.html", people.notifications),
    "notifications-empty": ("accounts/notifications.html", lambda: people.notifications(empty=True)),
    "account": ("accounts/account.html", people.account),
    "400": ("400.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "403": ("403.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "404": ("404.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "500": ("500.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "503": ("503.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2", "retry_after_seconds": 30}),
    "csrf": ("csrf_failure.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
}
PATHS = {
    "dashboard": "/",
    "dashboard-empty": "/",
    "new-session": "/sessions/new/",
    "new-session-refused": "/sessions/new/",
    "sessions": "/sessions/",
    "sessions-nothing-found": "/sessions/",
    "sessions-nothing-yet": "/sessions/",
    "queue": "/queue/",
    "queue-empty": "/queue/",
    "wallet": "/wallet/",
    "wallet-empty": "/wallet/",
    "volumes": "/volumes/",
    "volumes-empty": "/volumes/",
    "volume-shares": "/volumes/0197f3c2-a1b2-7c4e-9d10-000000000001/shares/",
    "volume-shares-empty": "/volumes/0197f3c2-a1b2-7c4e-9d10-000000000001/shares/",
    "notifications": "/notifications/",
    "notifications-empty": "/notifications/",
    "account": "/account/",
    "sign-in": "/login/",
    "sign-in-refused": "/login/",
    "password": "/password/",
}


def path_of(page: str) -> str:
    """The address under which a page is rendered: what the navigation marks as current depends on it."""
    return PATHS.get(page, "/sessions/019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0/")


__all__ = ["NOW", "PAGES", "PATHS", "ZONE", "dashboard", "path_of", "session_detail", "user_shell"]
