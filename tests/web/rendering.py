"""Renders the console's pages from samples, without a database and without a server."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest
from django.shortcuts import render
from django.template.loader import render_to_string
from django.test import RequestFactory, override_settings
from django.utils import timezone, translation

from gshare_core.kit.htmx import SHELL_FRAGMENTS
from gshare_site.gallery import parts
from tests.web import samples

ORIGIN = "http://console.test"
URLS = "tests.web.console_urls"
WITHOUT_REQUEST = ("500", "503")


def _request(path: str, theme: str, target: str = "") -> HttpRequest:
    headers = {"hx-request": "true", "hx-target": target} if target else {}
    request = RequestFactory().get(path, headers=headers)
    request.COOKIES["theme"] = theme
    return request


def render_page(page: str, *, theme: str = "light", fragment: str = "", language: str = "en") -> str:
    """The page's HTML (or one fragment's), as the view would answer it in Seoul."""
    with override_settings(ROOT_URLCONF=URLS), timezone.override(samples.ZONE), translation.override(language):
        if page == "parts":
            return parts(_request("/gallery/", theme)).content.decode()
        template, context = samples.PAGES[page]
        if page in WITHOUT_REQUEST:
            return render_to_string(template, context())
        name = f"{SHELL_FRAGMENTS.get(fragment, template)}#{fragment}" if fragment else template
        request = _request(samples.path_of(page), theme, fragment)
        return render(request, name, {"shell": samples.user_shell(), **context()}).content.decode()


def static_file(path: str) -> tuple[bytes, str] | None:
    """Bytes and type of a file below /static/dist/, None when the build did not make it."""
    file = Path(settings.BASE_DIR) / "static" / "dist" / path.removeprefix("/static/dist/")
    if not path.startswith("/static/dist/") or not file.is_file():
        return None
    kind = "font/woff2" if file.suffix == ".woff2" else mimetypes.guess_type(file.name)[0]
    return file.read_bytes(), kind or "application/octet-stream"
