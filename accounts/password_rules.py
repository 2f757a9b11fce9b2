"""Django's door to `accounts.domain.passwords.is_monotonous`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from accounts.domain.passwords import is_monotonous

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


class PlainPasswordValidator:
    """Refuses what is one short thing again and again."""

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Raises ValidationError."""
        if is_monotonous(password):
            raise ValidationError(self.get_help_text(), code="password_too_plain")

    def get_help_text(self) -> str:
        """What is expected."""
        return _("A password is not one short word again and again, nor made of very few characters.")
