"""The first lines of every view: who asks, what the body says, and 404 for what is not his."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from rest_framework.request import Request

from accounts.api.serializers import Body
from accounts.models import User
from gshare_core.errors import not_found

T = TypeVar("T")


def me(request: Request) -> User:
    """The signed-in person."""
    return cast("User", request.user)


def valid(form: type[Body], request: Request) -> dict[str, Any]:
    """The body as the serializer reads it. Raises the framework's ValidationError, which becomes `invalid`."""
    body = form(data=request.data)
    body.is_valid(raise_exception=True)
    return cast("dict[str, Any]", body.validated_data)


def one(row: T | None, what: str) -> T:
    """The row. Raises `not_found` when the caller's own query did not hold it."""
    if row is None:
        raise not_found(what)
    return row
