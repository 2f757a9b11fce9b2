"""Names that people give to sessions and volumes: one rule, and its words.

The rule is that of a host name's label (RFC 1123), since names appear in addresses and folders.
"""

from __future__ import annotations

import re

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
LENGTH = 63
WORDS = _("Use 1 to 63 small letters, digits and hyphens, not a hyphen at an end.")


def is_name(text: str) -> bool:
    """Whether the text keeps the rule."""
    return re.fullmatch(PATTERN.strip("^$"), text) is not None


class NameField(serializers.RegexField):
    """A name in a body of the API."""

    def __init__(self, *, required: bool = True) -> None:
        super().__init__(PATTERN, error_messages={"invalid": WORDS, "blank": WORDS}, required=required)
