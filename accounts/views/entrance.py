"""Signing in and out, the password, and the theme: the pages around the console."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from accounts import services
from accounts.forms import PasswordForm, SignInForm
from accounts.middleware import open_before_password_change
from accounts.models import Theme, User
from accounts.sign_in import destination, sign_in, sign_out, stay_signed_in
from gshare_core.errors import STATUS_OF_CODE, DomainError
from gshare_core.kit import clock
from gshare_core.kit.forms import put_refusal, refusal_text
from gshare_core.kit.htmx import THEME_COOKIE, THEME_COOKIE_SECONDS, set_theme
from gshare_core.kit.pictures import CardPart, CardPicture

LANGUAGE_COOKIE_SECONDS = int(timedelta(days=365).total_seconds())
About = Callable[[], dict[str, Any]]


@open_before_password_change
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest, about: About | None = None) -> HttpResponse:
    """Sign in; whoever is signed in already goes on. `about()` comes from above: what the page tells of the catalogue."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    if request.method == "GET":
        if request.user.is_authenticated:
            return redirect(destination(request, wanted))
        return _sign_in_page(request, SignInForm(), wanted, about)
    form = SignInForm(request.POST)
    if not form.is_valid():
        return _sign_in_page(request, form, wanted, about, status=400)
    try:
        user = sign_in(request, email=form.cleaned_data["email"], password=form.cleaned_data["password"])
    except DomainError as refusal:
        form.add_error(None, refusal_text(refusal))
        return _sign_in_page(request, form, wanted, about, status=refusal.status)
    return _with_preferences(redirect(destination(request, wanted)), request, user)


def _sign_in_page(
    request: HttpRequest, form: SignInForm, wanted: str, about: About | None, *, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "next": wanted,
        "throttled": status == STATUS_OF_CODE["throttled"],
        "card": _example_card(),
        **(about() if about else {}),
    }
    return render(request, "accounts/sign_in.html", context, status=status)


@open_before_password_change
@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """End this browser's sign-in."""
    sign_out(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@open_before_password_change
@never_cache
@login_required
@sensitive_post_parameters("current", "new", "repeat")
@require_http_methods(["GET", "POST"])
def password_change(request: HttpRequest) -> HttpResponse:
    """Change one's own password: the initial one must be, any other may be."""
    user = _user(request)
    if request.method == "GET":
        return _password_page(request, PasswordForm(), user)
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return _password_page(request, form, user, status=400)
    try:
        changed = services.change_password(by=user, current=form.cleaned_data["current"], new=form.cleaned_data["new"])
    except DomainError as refusal:
        put_refusal(form, refusal)
        return _password_page(request, form, user, status=refusal.status)
    stay_signed_in(request, changed)
    return redirect(settings.LOGIN_REDIRECT_URL)


def _password_page(request: HttpRequest, form: PasswordForm, user: User, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "forced": user.must_change_password,
        "expires_at": user.initial_password_expires_at,
        "now": clock.now(),
    }
    return render(request, "accounts/password_change.html", context, status=status)


@open_before_password_change
@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme: in this browser, and for the person who is signed in."""
    chosen = request.POST.get("theme", "")
    if request.user.is_authenticated and chosen in Theme.values:
        user = _user(request)
        services.set_preferences(by=user, language=user.language, time_zone=user.time_zone, theme=chosen)
    return set_theme(request)


def keep_language(response: HttpResponse, language: str) -> HttpResponse:
    """The language as this browser's cookie; empty: as the browser says."""
    if not language:
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME, path=settings.LANGUAGE_COOKIE_PATH)
        return response
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=LANGUAGE_COOKIE_SECONDS,
        path=settings.LANGUAGE_COOKIE_PATH,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
    )
    return response


def _with_preferences(response: HttpResponse, request: HttpRequest, user: User) -> HttpResponse:
    """What the person chose on another device holds on this one too; what he did not choose stays as it is here."""
    if user.language and user.language != translation.get_language():
        keep_language(response, user.language)
    if user.theme != Theme.SYSTEM:
        response.set_cookie(
            THEME_COOKIE,
            user.theme,
            max_age=THEME_COOKIE_SECONDS,
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )
    return response


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _example_card() -> CardPicture:
    """A card cut into one part of each size."""
    parts, start = [], Fraction(0)
    for size, share in (("XL", Fraction(1, 2)), ("L", Fraction(1, 4)), ("M", Fraction(1, 8)), ("S", Fraction(1, 16))):
        parts.append(CardPart(start, share, "mine", name=size))
        start += share
    return CardPicture(parts)
