"""Forms of the administrators' pages of people and places; the services judge, and their refusals stay on the form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.administrators import Administrator
from accounts.domain.roles import Role
from accounts.models import EMAIL_LENGTH, NAME_LENGTH
from accounts.scopes import groups_to_choose, organisations_to_choose
from accounts.views.account import role_words
from gshare_core.kit.forms import Choices, offer


class NameForm(forms.Form):
    """What something or somebody is called."""

    name = forms.CharField(label=_("Name"), max_length=NAME_LENGTH)


class GroupForm(NameForm):
    """A new group of an organisation."""

    organisation = forms.ChoiceField(label=_("Organisation"))

    def __init__(self, *args: Any, organisations: Iterable[tuple[UUID, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "organisation", [(str(key), name) for key, name in organisations])


class EmailForm(forms.Form):
    """The address that somebody signs in with."""

    email = forms.CharField(
        label=_("E-mail"),
        max_length=EMAIL_LENGTH,
        widget=forms.EmailInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


class PersonForm(EmailForm, NameForm):
    """Somebody new: in a group, or at home in an organisation only."""

    place = forms.ChoiceField(
        label=_("Place"), help_text=_("A group, or the organisation where this person is at home.")
    )
    role = forms.ChoiceField(label=_("Role in the group"))

    field_order = ("email", "name", "place", "role")

    def __init__(self, *args: Any, places: Choices, roles: Iterable[Role], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "place", places)
        offer(self, "role", [(role.value, role_words(role)) for role in roles])


class SeatForm(EmailForm):
    """A seat for somebody who has an account already, by exact address."""

    role = forms.ChoiceField(label=_("Role"))

    def __init__(self, *args: Any, roles: Iterable[Role], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "role", [(role.value, role_words(role)) for role in roles])


def places_for(administrator: Administrator) -> Choices:
    """Where an administrator may register somebody: his groups by organisation, then whole organisations of his."""
    return groups_to_choose(administrator) + organisations_to_choose(administrator)
