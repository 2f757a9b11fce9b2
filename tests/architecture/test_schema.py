"""Models, migrations and configuration do not drift apart."""

import io
import re
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import models

from gshare_site.config import Config
from gshare_site.management.commands import custom_resources
from gshare_site.settings_reference import env_example

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("accounts", "billing", "catalog", "cluster", "sessions_app")


@pytest.mark.django_db
def test_no_model_change_waits_for_a_migration() -> None:
    out = io.StringIO()
    try:
        call_command("makemigrations", check=True, dry_run=True, stdout=out)
    except SystemExit:
        pytest.fail(out.getvalue())
    assert "No changes" in out.getvalue()


def test_django_finds_nothing_to_complain_about() -> None:
    assert [str(fault) for fault in run_checks() if not fault.is_silenced()] == []


def _models() -> list[type[models.Model]]:
    return [model for app in PACKAGES for model in apps.get_app_config(app).get_models()]


def test_no_foreign_key_of_ours_deletes_along() -> None:
    cascading = [
        f"{model.__name__}.{field.name}"
        for model in _models()
        for field in model._meta.get_fields()
        if isinstance(field, models.ForeignKey) and field.remote_field.on_delete is not models.PROTECT
    ]
    assert cascading == []


def test_no_default_reads_the_clock() -> None:
    reading = [
        f"{model.__name__}.{field.name}"
        for model in _models()
        for field in model._meta.get_fields()
        if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
    ]
    assert reading == []


def test_the_example_environment_is_what_the_settings_say() -> None:
    assert (ROOT / ".env.example").read_text(encoding="utf-8") == env_example(), "run `make env-example`"


def _sources() -> list[Path]:
    own = (Path(__file__), ROOT / "gshare_site" / "config.py")
    return [
        path
        for package in (*PACKAGES, "gshare_core", "gshare_site", "tests")
        for path in (ROOT / package).rglob("*.py")
        if path not in own
    ]


def test_every_setting_that_code_reads_exists() -> None:
    known = set(Config.model_fields) | {name for name in dir(Config) if not name.startswith("_")}
    read = {
        name for path in _sources() for name in re.findall(r"settings\.GSHARE\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert sorted(read - known) == []


def test_every_setting_has_a_reader() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in _sources() if ROOT / "tests" not in path.parents)
    text += (ROOT / "gshare_site" / "config.py").read_text(encoding="utf-8").split("class Config(", 1)[1]
    unread = [name for name in Config.model_fields if not re.search(rf"[.\"']{name}\b|self\.{name}\b", text)]
    assert unread == []


def test_the_test_settings_serve_the_same_apps_and_middleware_as_production() -> None:
    assert settings.ROOT_URLCONF == "gshare_site.urls"
    assert settings.AUTH_USER_MODEL == "accounts.User"


def test_the_charts_custom_resources_are_what_the_contract_says():
    """`make custom-resources` writes them."""
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / custom_resources.FOLDER).iterdir()}
    assert kept == custom_resources.files()
