"""Forms of this room's pages."""

from __future__ import annotations

from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from accounts.models import EMAIL_LENGTH
from accounts.services.passwords import PASSWORD_MAX


class SignInForm(forms.Form):
    """E-mail address and password."""

    email = forms.CharField(
        label=_("E-mail"),
        max_length=EMAIL_LENGTH,
        widget=forms.EmailInput(attrs={"autocomplete": "username", "autofocus": True, "spellcheck": "false"}),
    )
    password = forms.CharField(
        label=_("Password"),
        max_length=PASSWORD_MAX,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


class PasswordForm(forms.Form):
    """The present password and a new one, twice."""

    current = forms.CharField(
        label=_("Present password"),
        max_length=PASSWORD_MAX,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )
    new = forms.CharField(
        label=_("New password"),
        help_text=_("12 characters or more."),
        max_length=PASSWORD_MAX,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "minlength": 12}),
    )
    repeat = forms.CharField(
        label=_("New password again"),
        max_length=PASSWORD_MAX,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, str]:
        data: dict[str, str] = super().clean() or self.cleaned_data
        if data.get("new") and data.get("repeat") and data["new"] != data["repeat"]:
            self.add_error("repeat", _("The two are not the same."))
        return data


def _zones() -> list[tuple[str, str]]:
    return [("", str(_("As GShare is set")))] + [(name, name) for name in sorted(available_timezones())]


class PreferencesForm(forms.Form):
    """Language and time zone; empty: as the browser or the installation says."""

    language = forms.ChoiceField(
        label=_("Language"),
        required=False,
        choices=lambda: [("", _("As the browser says")), *settings.LANGUAGES],
    )
    time_zone = forms.ChoiceField(label=_("Time zone"), required=False, choices=_zones)
