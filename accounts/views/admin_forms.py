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
from accounts.permissions import administered_groups, administered_organisations
from accounts.views.account import role_words
from gshare_core.errors import DomainError

Choices = list[tuple[str, str]]
MOST_CHOICES = 500


class NameForm(forms.Form):
    """What something or somebody is called."""

    name = forms.CharField(label=_("Name"), max_length=NAME_LENGTH)


class GroupForm(NameForm):
    """A new group of an organisation."""

    organisation = forms.ChoiceField(label=_("Organisation"))

    def __init__(self, *args: Any, organisations: Iterable[tuple[UUID, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "organisation", [(str(key), name) for key, name in organisations])


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
        _offer(self, "place", places)
        _offer(self, "role", [(role.value, role_words(role)) for role in roles])


class SeatForm(EmailForm):
    """A seat for somebody who has an account already, by exact address."""

    role = forms.ChoiceField(label=_("Role"))

    def __init__(self, *args: Any, roles: Iterable[Role], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _offer(self, "role", [(role.value, role_words(role)) for role in roles])


def _offer(form: forms.Form, name: str, choices: Choices) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = choices


def places_for(administrator: Administrator) -> Choices:
    """Where an administrator may register somebody: his groups by organisation, then whole organisations of his."""
    rows = administered_groups(administrator.user).filter(is_active=True, organisation__is_active=True)
    groups = rows.order_by("organisation__name", "name", "pk").values_list("pk", "name", "organisation__name")
    found = [(f"group:{key}", f"{organisation}, {name}") for key, name, organisation in groups[:MOST_CHOICES]]
    homes = administered_organisations(administrator.user).filter(is_active=True).order_by("name", "pk")
    return found + [(f"organisation:{key}", name) for key, name in homes.values_list("pk", "name")[:MOST_CHOICES]]


def put_refusal(form: forms.Form, refusal: DomainError) -> None:
    """What a service refused, at the fields it names, else on the form as a whole."""
    named = {name: texts for name, texts in (refusal.errors or {}).items() if name in form.fields}
    for name, texts in named.items():
        for text in texts:
            form.add_error(name, str(text))
    if not named:
        form.add_error(None, " ".join(filter(None, (str(refusal.detail), str(refusal.remedy or "")))))
