"""Forms of budgets: whose, how much, from when to when, and what happens at the limit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.administrators import Administrator
from accounts.domain.addresses import normalise_email
from accounts.permissions import visible_users
from accounts.scopes import groups_to_choose, organisations_to_choose
from accounts.views.admin_forms import EmailForm
from billing.domain.budgets import Rule
from billing.models.documents import BudgetMode
from billing.services import BudgetScope
from billing.views.fields import AmountField
from gshare_core.kit.forms import Choices, offer


class BudgetForm(forms.Form):
    """What of a budget may change."""

    limit = AmountField(label=gettext_lazy("Limit, cr"))
    mode = forms.ChoiceField(
        label=gettext_lazy("At the limit"),
        choices=[
            (BudgetMode.WARN, gettext_lazy("Warn only")),
            (BudgetMode.BLOCK, gettext_lazy("Block: nothing more starts or goes on")),
        ],
    )


class NewBudgetForm(EmailForm, BudgetForm):
    """A new budget: of a place, or of a person by e-mail; of calendar months, or of fixed dates."""

    place = forms.ChoiceField(label=gettext_lazy("Whose"))
    first_day = forms.DateField(
        label=gettext_lazy("First day"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    last_day = forms.DateField(
        label=gettext_lazy("Last day"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text=gettext_lazy("Without days it counts each calendar month."),
    )
    time_zone = forms.CharField(label=gettext_lazy("Time zone of its days"), max_length=64)

    field_order = ("place", "email", "limit", "mode", "first_day", "last_day", "time_zone")

    def __init__(self, *args: Any, administrator: Administrator, places: Choices, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial = {"mode": BudgetMode.WARN, "time_zone": settings.GSHARE.time_zone}
        self._administrator = administrator
        self.fields["email"].required = False
        self.fields["email"].label = _("E-mail of the person")
        offer(self, "place", [("person", _("A person")), *places])

    def clean(self) -> dict[str, Any]:
        """`scope` and `rule` of what was filled in."""
        data: dict[str, Any] = super().clean() or {}
        first, last = data.get("first_day"), data.get("last_day")
        if not self.errors:
            data["scope"] = self._scope(data)
            try:
                data["rule"] = Rule(data["time_zone"], first, last)
            except ValueError:
                self.add_error("last_day", _("Give both days, the last not before the first, or neither."))
        return data

    def _scope(self, data: dict[str, Any]) -> BudgetScope | None:
        kind, _separator, key = data["place"].partition(":")
        if kind == "group":
            return BudgetScope("group", UUID(key))
        if kind == "organisation":
            return BudgetScope("organisation", UUID(key))
        email = normalise_email(data["email"])
        person = visible_users(self._administrator.user).filter(email=email).values_list("pk", flat=True).first()
        if person is None:
            self.add_error("email", _("Nobody of your scope has this address."))
            return None
        return BudgetScope("user", person)


def places_to_limit(administrator: Administrator) -> Choices:
    """The groups and organisations one level below him. At most two statements."""
    if not administrator.has_organisations:
        return []
    groups = groups_to_choose(administrator, of_his_organisations=True)
    return groups + organisations_to_choose(administrator) if administrator.is_super else groups
