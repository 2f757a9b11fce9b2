"""Which number binds, who said it, and against what it is counted."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accounts.domain.policies import (
    COUNTED,
    FIELDS,
    GLOBAL,
    GLOBAL_DEFAULTS,
    Kind,
    Person,
    Scope,
    ScopeKind,
    Value,
    check_values,
    exceeds,
    limits,
    resolve,
)
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7

USER, GROUP, ORG = UUID(int=1), UUID(int=2), UUID(int=3)
PERSON = Person(USER, GROUP, ORG)
OF_USER = Scope(ScopeKind.USER, USER)
OF_GROUP = Scope(ScopeKind.GROUP, GROUP)
OF_ORG = Scope(ScopeKind.ORGANISATION, ORG)
MOST_SPECIFIC_FIRST = (OF_USER, OF_GROUP, OF_ORG, GLOBAL)


def default(scope: Scope, value: int, field: str = "max_sessions") -> Value:
    return Value(scope, Kind.PER_USER, field, value)


def total(scope: Scope, value: int, field: str = "max_sessions") -> Value:
    return Value(scope, Kind.TOTAL, field, value)


@given(st.lists(st.sampled_from(MOST_SPECIFIC_FIRST), unique=True))
def test_the_most_specific_scope_that_sets_a_field_supplies_it(setting):
    values = [default(scope, place) for place, scope in enumerate(MOST_SPECIFIC_FIRST) if scope in setting]
    found = resolve(PERSON.scopes, values)["max_sessions"]
    expected = next((scope for scope in MOST_SPECIFIC_FIRST if scope in setting), None)
    assert found.scope == (str(expected) if expected else None)
    assert found.value == (MOST_SPECIFIC_FIRST.index(expected) if expected else None)


def test_zero_is_a_value_and_does_not_inherit():
    found = resolve(PERSON.scopes, [default(GLOBAL, 5), default(OF_GROUP, 0)])["max_sessions"]
    assert (found.value, found.scope) == (0, f"group:{GROUP}")


@pytest.mark.parametrize(
    ("supplier", "counted_under"),
    [
        (OF_USER, f"user:{USER}"),
        (GLOBAL, f"user:{USER}"),
        (OF_GROUP, f"user:{USER}@group:{GROUP}"),
        (OF_ORG, f"user:{USER}@organisation:{ORG}"),
    ],
)
def test_a_per_user_number_is_held_against_the_use_within_the_scope_that_supplied_it(supplier, counted_under):
    (limit,) = limits(PERSON, [default(supplier, 3)])
    assert (limit.scope, limit.usage_scope, limit.limit, limit.kind) == (str(supplier), counted_under, 3, "per_user")


def test_totals_bind_at_every_level_at_once_beside_the_per_user_number():
    values = [default(GLOBAL, 2), total(OF_GROUP, 10), total(OF_ORG, 50), total(Scope(ScopeKind.GROUP, uuid7()), 1)]
    found = {(limit.scope, limit.usage_scope, limit.limit) for limit in limits(PERSON, values)}
    assert found == {
        ("global", f"user:{USER}", 2),
        (f"group:{GROUP}", f"group:{GROUP}", 10),
        (f"organisation:{ORG}", f"organisation:{ORG}", 50),
    }


def test_only_fields_whose_use_adds_up_become_limits():
    assert limits(PERSON, [default(GLOBAL, 1, "allow_privileged"), default(GLOBAL, 60, "idle_timeout_min")]) == []


def test_the_global_defaults_set_every_field_and_are_acceptable():
    assert set(GLOBAL_DEFAULTS) == set(FIELDS)
    check_values(GLOBAL, Kind.PER_USER, GLOBAL_DEFAULTS)


@pytest.mark.parametrize(
    ("scope", "kind", "field", "value"),
    [
        (GLOBAL, Kind.PER_USER, "max_tea", 1),
        (GLOBAL, Kind.PER_USER, "max_sessions", -1),
        (GLOBAL, Kind.PER_USER, "max_sessions", 2**60),
        (GLOBAL, Kind.PER_USER, "allow_privileged", 2),
        (GLOBAL, Kind.TOTAL, "max_sessions", 1),
        (OF_USER, Kind.TOTAL, "max_sessions", 1),
        (OF_GROUP, Kind.TOTAL, "max_runtime_min", 1),
    ],
)
def test_numbers_that_no_scope_can_hold_are_refused_by_field(scope, kind, field, value):
    with pytest.raises(DomainError) as refused:
        check_values(scope, kind, {field: value})
    assert refused.value.code == "invalid"
    assert list(refused.value.errors) == [field]


def test_unset_and_a_runtime_of_zero_are_without_end():
    assert exceeds("max_sessions", None, 5)
    assert not exceeds("max_sessions", 0, 5)
    assert exceeds("max_runtime_min", 0, 600)
    assert not exceeds("max_runtime_min", 600, 0)
    assert not exceeds("cards", 4, None)


@pytest.mark.parametrize("text", ["", "galaxy", "group", "group:x", "global:1", f"team:{GROUP}"])
def test_a_scope_that_is_none_is_refused(text):
    with pytest.raises(DomainError):
        Scope.parse(text)


def test_a_scope_is_read_as_it_is_written():
    for scope in MOST_SPECIFIC_FIRST:
        assert Scope.parse(str(scope)) == scope


def test_without_a_group_the_home_organisation_and_the_person_count():
    alone = Person(USER, None, ORG)
    assert [limit.usage_scope for limit in limits(alone, [default(OF_ORG, 7, "storage_gib")])] == [
        f"user:{USER}@organisation:{ORG}"
    ]
    assert set(COUNTED) >= {"storage_gib", "max_sessions", "cards"}
