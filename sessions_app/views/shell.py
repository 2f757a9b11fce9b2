"""What the frame around every page shows: who, where, money, counts. Lazy: fragments that do not show it pay nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from accounts import permissions
from accounts.administrators import administrator_of
from accounts.queries import SeatRow, frame_of
from gshare_core.kit import clock
from sessions_app.domain.lifecycle import COUNTING, State
from sessions_app.views import admin_shell
from sessions_app.views.money import running_of, until, wallet_of

if TYPE_CHECKING:
    from accounts.models import User

GROUP_COOKIE = "group"


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor."""
    user = permissions.person_of(getattr(request, "user", None))
    if user is None:
        return {}
    return {"shell": SimpleLazyObject(lambda: _shell(request, user))}


def chosen_group(request: HttpRequest) -> UUID | None:
    """The group that the person works in: the one he chose, else his first."""
    seat = chosen_seat(request)
    return seat.group_id if seat else None


def _shell(request: HttpRequest, user: User) -> dict[str, Any]:
    administrator = administrator_of(request) if request.path.startswith(admin_shell.ROOT) else None
    of_console = _user_frame(request) if administrator is None else admin_shell.frame(request, administrator)
    unread = frame_of(user, request).unread
    return of_console | {
        "user": {"email": user.email, "name": user.name, "initial": (user.name or user.email)[:1].upper()},
        "counts": {**of_console["counts"], "notifications": unread},
        "admin": frame_of(user, request).standing.is_administrator,
        "time_zone": timezone.get_current_timezone_name(),
        "now": clock.now(),
    }


def _user_frame(request: HttpRequest) -> dict[str, Any]:
    now = clock.now()
    seats = active_seats(request)
    chosen = _chosen(request, seats)
    running = running_of(request)
    wallet = wallet_of(request)
    return {
        "organisation": chosen.organisation_name if chosen else "",
        "group": chosen.group_name if chosen else "",
        "groups": [
            {
                "name": seat.group_name,
                "organisation": seat.organisation_name,
                "url": f"?group={seat.group_id}",
                "current": seat is chosen,
            }
            for seat in seats
        ],
        "wallet": {
            "available_micro": wallet.available,
            "lasts_until": until(wallet.available + running.left, running.rate, now),
        },
        "counts": {
            "sessions": sum(state in COUNTING for state in running.states),
            "queue": sum(state == State.QUEUED for state in running.states),
        },
    }


def active_seats(request: HttpRequest) -> list[SeatRow]:
    """The active seats in groups; read once a request."""
    user: User = request.user  # type: ignore[assignment]  # signed in
    return [seat for seat in frame_of(user, request).seats if seat.active]


def chosen_seat(request: HttpRequest) -> SeatRow | None:
    """The seat that the person works from."""
    return _chosen(request, active_seats(request))


def _chosen(request: HttpRequest, seats: list[SeatRow]) -> SeatRow | None:
    wanted = request.GET.get("group") or request.COOKIES.get(GROUP_COOKIE, "")
    return next((seat for seat in seats if str(seat.group_id) == wanted), seats[0] if seats else None)
