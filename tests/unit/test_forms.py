"""Refusals of services on forms: at the fields that they name, else above the form, with what would change it."""

from __future__ import annotations

from django import forms

from gshare_core.errors import DomainError
from gshare_core.kit.forms import offer, put_refusal, refusal_text


class Given(forms.Form):
    name = forms.CharField()
    place = forms.ChoiceField()


def filled() -> Given:
    form = Given({"name": "Vision Lab", "place": "here"})
    offer(form, "place", [("here", "Here")])
    assert form.is_valid()
    return form


def test_a_refusal_is_told_with_what_would_change_it() -> None:
    assert refusal_text(DomainError("conflict", "It is off.", remedy="Activate it first.")) == (
        "It is off. Activate it first."
    )
    assert refusal_text(DomainError("conflict", "It is off.")) == "It is off."


def test_a_refusal_that_names_a_field_stands_there_and_any_other_above_the_form() -> None:
    at_field, above = filled(), filled()
    put_refusal(at_field, DomainError("invalid", "No.", errors={"name": ["Taken."], "elsewhere": ["Not here."]}))
    assert at_field.errors == {"name": ["Taken."]}
    put_refusal(above, DomainError("invalid", "No.", errors={"elsewhere": ["Not here."]}, remedy="Ask."))
    assert above.non_field_errors() == ["No. Ask."]


def test_a_field_takes_what_it_is_offered_and_nothing_else() -> None:
    form = Given({"name": "Vision Lab", "place": "there"})
    offer(form, "place", [("here", "Here")])
    assert set(form.errors) == {"place"}
