"""Forms that services judge: what a service refused stands at the fields that it names, in words, with what would change it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from gshare_core.errors import DomainError

Choices = list[tuple[str, str]]


def refusal_text(refusal: DomainError) -> str:
    """What was refused and what would change it, as one text."""
    return " ".join(str(part) for part in (refusal.detail, refusal.remedy) if part)


def put_refusal(form: forms.Form, refusal: DomainError) -> None:
    """What a service refused, at the fields it names, else on the form as a whole."""
    named = {name: texts for name, texts in (refusal.errors or {}).items() if name in form.fields}
    for name, texts in named.items():
        for text in texts:
            form.add_error(name, str(text))
    if not named:
        form.add_error(None, refusal_text(refusal))


def offer(form: forms.Form, name: str, choices: Iterable[tuple[Any, Any]]) -> None:
    """Give a field its choices, which are known only when the form is made."""
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = list(choices)
