"""The matrix, judged over frozen facts: no database."""

from __future__ import annotations

import pytest

from accounts.domain.rights import EVERYTHING, Seat, Standing, Target, governs
from accounts.domain.roles import Role
from accounts.permissions import MATRIX, Act, may
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7

ORG, OTHER_ORG = uuid7(), uuid7()
GROUP, SIBLING, FOREIGN = uuid7(), uuid7(), uuid7()


def person(*seats: Seat, home=ORG, **facts) -> Standing:
    return Standing(uuid7(), home_id=home, seats=seats, **facts)


def seat(role: Role, group=GROUP, organisation=ORG) -> Seat:
    return Seat(role, organisation, None if role is Role.ORG_ADMIN else group)


GUEST = person(seat(Role.GUEST))
MEMBER = person(seat(Role.MEMBER))
GROUP_ADMIN = person(seat(Role.GROUP_ADMIN))
ORG_ADMIN = person(seat(Role.ORG_ADMIN))
SUPER_ADMIN = person(home=None, super_admin=True)
STRANGER = person(seat(Role.GROUP_ADMIN, FOREIGN, OTHER_ORG), home=OTHER_ORG)
EVERYBODY = (GUEST, MEMBER, GROUP_ADMIN, ORG_ADMIN, SUPER_ADMIN, STRANGER)
NAMES = ("guest", "member", "group_admin", "org_admin", "super_admin", "stranger")
IN_GROUP = Target(ORG, GROUP)
IN_ORGANISATION = Target(ORG)


def who_may(act: Act, target: Target) -> set[str]:
    return {name for name, actor in zip(NAMES, EVERYBODY, strict=True) if may(actor, act, target).allowed}


GROUP_UP = {"group_admin", "org_admin", "super_admin"}
ORGANISATION_UP = {"org_admin", "super_admin"}
SUPER = {"super_admin"}


@pytest.mark.parametrize(
    ("act", "target", "allowed"),
    [
        (Act.SEE_OTHERS, IN_GROUP, GROUP_UP),
        (Act.SEE_OTHERS, IN_ORGANISATION, ORGANISATION_UP),
        (Act.ACT_ON_SESSIONS, IN_GROUP, GROUP_UP),
        (Act.READ_AUDIT, IN_GROUP, GROUP_UP),
        (Act.REGISTER_USER, Target(ORG, GROUP, role=Role.MEMBER), GROUP_UP),
        (Act.REGISTER_USER, Target(ORG, GROUP, role=Role.GROUP_ADMIN), ORGANISATION_UP),
        (Act.REGISTER_USER, IN_ORGANISATION, ORGANISATION_UP),
        (Act.MANAGE_MEMBERSHIP, Target(ORG, GROUP, role=Role.GUEST), GROUP_UP),
        (Act.MANAGE_MEMBERSHIP, Target(ORG, GROUP, role=Role.GROUP_ADMIN), ORGANISATION_UP),
        (Act.MANAGE_MEMBERSHIP, Target(ORG, role=Role.ORG_ADMIN), SUPER),
        (Act.MANAGE_GROUP, IN_ORGANISATION, ORGANISATION_UP),
        (Act.MANAGE_ORGANISATION, IN_ORGANISATION, SUPER),
        (Act.CREDIT_USER, IN_GROUP, GROUP_UP),
        (Act.CREDIT_GROUP, IN_GROUP, ORGANISATION_UP),
        (Act.CREDIT_ORGANISATION, IN_ORGANISATION, SUPER),
        (Act.ISSUE_CREDITS, EVERYTHING, SUPER),
        (Act.LIMIT_GROUP, IN_GROUP, ORGANISATION_UP),
        (Act.LIMIT_ORGANISATION, IN_ORGANISATION, SUPER),
        (Act.LIMIT_GLOBAL, EVERYTHING, SUPER),
        (Act.RAISE_RESERVED, IN_GROUP, SUPER),
        (Act.SET_PRIORITY, IN_GROUP, GROUP_UP),
        (Act.GRANT_POOL, IN_ORGANISATION, ORGANISATION_UP),
        (Act.MANAGE_CATALOGUE, EVERYTHING, SUPER),
        (Act.MANAGE_CLUSTERS, EVERYTHING, SUPER),
        (Act.ANNOUNCE, EVERYTHING, SUPER),
    ],
)
def test_a_role_reaches_exactly_as_far_as_the_matrix_says(act, target, allowed):
    assert who_may(act, target) == allowed


def test_the_matrix_has_a_row_for_every_act_and_no_row_lets_a_guest_do_anything():
    assert set(MATRIX) == set(Act)
    assert all(row for row in MATRIX.values())
    assert not any(Role.GUEST in row for row in MATRIX.values())


@pytest.mark.parametrize("act", list(Act))
def test_somebody_deactivated_may_nothing(act):
    gone = Standing(uuid7(), active=False, super_admin=True)
    assert not may(gone, act, IN_GROUP).allowed


def test_a_guest_has_no_work_of_his_own_and_a_member_has():
    assert not may(GUEST, Act.OWN_WORK, Target(ORG, GROUP, person=GUEST)).allowed
    assert may(MEMBER, Act.OWN_WORK, Target(ORG, GROUP, person=MEMBER)).allowed
    assert not may(MEMBER, Act.OWN_WORK, Target(ORG, SIBLING, person=MEMBER)).allowed
    assert not may(MEMBER, Act.OWN_WORK, Target(ORG, GROUP, person=GROUP_ADMIN)).allowed


def test_opening_a_session_needs_to_rank_above_its_owner():
    other_admin = person(seat(Role.GROUP_ADMIN))
    assert may(GROUP_ADMIN, Act.OPEN_SESSION, Target(ORG, GROUP, person=MEMBER)).allowed
    assert not may(GROUP_ADMIN, Act.OPEN_SESSION, Target(ORG, GROUP, person=other_admin)).allowed
    assert not may(GROUP_ADMIN, Act.OPEN_SESSION, Target(ORG, GROUP, person=ORG_ADMIN)).allowed
    assert may(ORG_ADMIN, Act.OPEN_SESSION, Target(ORG, GROUP, person=other_admin)).allowed
    assert not may(ORG_ADMIN, Act.OPEN_SESSION, Target(ORG, GROUP, person=SUPER_ADMIN)).allowed


def test_trap_55_a_group_admin_does_not_touch_the_sign_in_of_who_outranks_him():
    for act in (Act.MANAGE_SIGN_IN, Act.DEACTIVATE_USER):
        assert may(GROUP_ADMIN, act, Target(ORG, person=MEMBER)).allowed
        for above in (ORG_ADMIN, SUPER_ADMIN, person(seat(Role.GROUP_ADMIN))):
            assert not may(GROUP_ADMIN, act, Target(ORG, person=above)).allowed


def test_trap_55_a_group_admin_does_not_touch_the_sign_in_of_who_belongs_elsewhere_too():
    two_groups = person(seat(Role.MEMBER), seat(Role.MEMBER, SIBLING))
    two_organisations = person(seat(Role.MEMBER), seat(Role.MEMBER, FOREIGN, OTHER_ORG))
    at_home_elsewhere = person(seat(Role.MEMBER), home=OTHER_ORG)
    for elsewhere in (two_groups, two_organisations, at_home_elsewhere):
        assert not governs(GROUP_ADMIN, elsewhere)
    assert governs(ORG_ADMIN, two_groups)
    assert not governs(ORG_ADMIN, two_organisations)


def test_somebody_without_a_seat_is_the_affair_of_his_home_organisation():
    fresh = person()
    assert not governs(GROUP_ADMIN, fresh)
    assert governs(ORG_ADMIN, fresh)
    assert not governs(STRANGER, fresh)


def test_nobody_governs_himself_and_no_super_admin_ends_himself():
    for actor in (GROUP_ADMIN, ORG_ADMIN):
        assert not governs(actor, actor)
    assert not may(SUPER_ADMIN, Act.DEACTIVATE_USER, Target(person=SUPER_ADMIN)).allowed
    assert not may(SUPER_ADMIN, Act.GRANT_SUPER_ADMIN, Target(person=SUPER_ADMIN)).allowed
    assert may(SUPER_ADMIN, Act.DEACTIVATE_USER, Target(person=person(super_admin=True))).allowed


def test_trap_55_nobody_sets_the_limits_of_his_own_scope():
    assert not may(GROUP_ADMIN, Act.LIMIT_USER, Target(ORG, person=GROUP_ADMIN)).allowed
    assert not may(GROUP_ADMIN, Act.LIMIT_GROUP, IN_GROUP).allowed
    assert not may(ORG_ADMIN, Act.LIMIT_USER, Target(ORG, person=ORG_ADMIN)).allowed
    assert not may(ORG_ADMIN, Act.LIMIT_ORGANISATION, IN_ORGANISATION).allowed
    assert not may(SUPER_ADMIN, Act.LIMIT_USER, Target(person=SUPER_ADMIN)).allowed


def test_a_refusal_says_why_and_whom_to_ask():
    decision = may(MEMBER, Act.LIMIT_GROUP, IN_GROUP)
    with pytest.raises(DomainError) as refused:
        decision.require()
    assert refused.value.code == "forbidden"
    assert "administrator of the organisation" in (refused.value.remedy or "")
    assert refused.value.facts == {"act": "limit_group"}


def test_an_organisations_administrator_ranks_in_its_groups_and_nowhere_else():
    assert ORG_ADMIN.role_in(ORG, GROUP) is Role.ORG_ADMIN
    assert ORG_ADMIN.role_in(OTHER_ORG, FOREIGN) is None
    assert MEMBER.role_in(ORG) is None
