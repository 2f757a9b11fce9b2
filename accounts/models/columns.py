"""What the columns of this room share: lengths, and conditions and indexes that occur more than once."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db.models import Q
from django.db.models.functions import Upper

EMAIL_LENGTH = 254
NAME_LENGTH = 150


def trigram(column: str, name: str) -> GinIndex:
    """The index that answers "contains", in any case, on a text column."""
    return GinIndex(OpClass(Upper(column), name="gin_trgm_ops"), name=name)


def is_one_of(column: str, values: Iterable[str]) -> Q:
    """The column holds one of these texts."""
    return Q(**{f"{column}__in": [str(value) for value in values]})
