"""Fields and bases that models share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

from gshare_core.ids import uuid7


class Identified(models.Model):
    """A row whose key is a UUIDv7 made in Python, so that rows made later sort later."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True


if TYPE_CHECKING:
    _BigInteger = models.BigIntegerField[Any, Any]
else:
    _BigInteger = models.BigIntegerField


class MicroField(_BigInteger):
    """Micro-credits; integers in Python, bigint in rows."""

    description = "Micro-credits"

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, float):
            raise TypeError("money is an integer of micro-credits, never a float")
        return super().get_prep_value(value)
