"""One written form per address; initial passwords that can be read aloud."""

from __future__ import annotations

import pytest

from accounts.domain.addresses import is_plain, normalise_email
from accounts.domain.passwords import ALPHABET, initial_password, is_monotonous


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("Ada@Example.ORG", "ada@example.org"),
        ("  ada@example.org\n", "ada@example.org"),
        ("ada@bücher.example", "ada@xn--bcher-kva.example"),
        ("\N{KELVIN SIGN}im@example.org", "kim@example.org"),
        ("no address", "no address"),
        ("", ""),
        ("a@" + "x" * 70 + ".org", "a@" + "x" * 70 + ".org"),
    ],
)
def test_an_address_has_one_stored_form(typed, stored):
    assert normalise_email(typed) == stored


def test_letters_that_only_look_like_others_are_not_plain():
    assert not is_plain(normalise_email("\N{LATIN SMALL LETTER LONG S}am@example.org"))
    assert is_plain(normalise_email("Sam@example.org"))


def test_initial_passwords_are_long_distinct_and_unambiguous():
    made = {initial_password() for _ in range(200)}
    assert len(made) == 200
    assert all(len(password) >= 12 for password in made)
    assert not set("".join(made)) - set(ALPHABET) - {"-"}
    assert not set("il1o0") & set(ALPHABET)


@pytest.mark.parametrize(
    ("password", "plain"),
    [
        ("passwordpassword", True),
        ("PasswordpassWord", True),
        ("abcabcabcabc", True),
        ("aaaabbbbaaaa", True),
        ("correct horse battery", False),
        ("k7mp-x2he-rt9a-bd4n", False),
        ("passwordpasswore", False),
    ],
)
def test_one_short_thing_again_and_again_is_no_password(password, plain):
    assert is_monotonous(password) is plain
