"""What pages of money share: an amount as people type it, and whose a wallet is."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from billing.models import Account
from gshare_core.money import parse_credits

# Commas that part thousands; one that parts decimals must not multiply the amount.
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


def owner_words(row: Account) -> str:
    """Whose wallet it is, in the reader's language."""
    return _("System") if row.owner_id is None else row.owner_name


def short_words(row: Account) -> str:
    """Whose wallet it is where there is little room: of an address the part before the @."""
    return owner_words(row).partition("@")[0] if row.user_id is not None else owner_words(row)


class AmountField(forms.CharField):
    """Credits such as 200, 12.5 or 1,000 into micro-credits; refuses what is no such number."""

    def __init__(self, **kwargs: Any) -> None:
        given: dict[str, Any] = {
            "label": gettext_lazy("Amount, cr"),
            "max_length": 30,
            "widget": forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}),
        }
        super().__init__(**(given | kwargs))

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return parse_credits(text.replace(",", "") if _GROUPED.fullmatch(text) else text)
        except ValueError:
            raise forms.ValidationError(_("Give an amount such as 200 or 12.5.")) from None
