"""Setting limits: one level above, within bounds, with before and after on record."""

from __future__ import annotations

import pytest

from accounts import queries, services
from accounts.domain.policies import GLOBAL, GLOBAL_DEFAULTS, Scope, ScopeKind
from accounts.models import AuditEntry, Membership, Policy, PolicyValue
from gshare_core.errors import DomainError
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin

pytestmark = pytest.mark.django_db


def set_(scope: Scope, by, totals=None, **per_user):
    return services.set_policy(scope=scope, per_user=per_user, totals=totals or {}, by=by)


def code(scope: Scope, by, totals=None, **per_user) -> str:
    with pytest.raises(DomainError) as refused:
        set_(scope, by, totals, **per_user)
    return refused.value.code


@pytest.fixture
def group():
    services.ensure_global_policy()
    return a_group()


def of_group(group) -> Scope:
    return Scope(ScopeKind.GROUP, group.pk)


def of_user(user) -> Scope:
    return Scope(ScopeKind.USER, user.pk)


def test_each_scope_is_edited_one_level_above_it(group):
    member, group_admin = a_user(group), a_user(group, "group_admin")
    org_admin, top = an_org_admin(group.organisation), a_super_admin()
    organisation = Scope(ScopeKind.ORGANISATION, group.organisation_id)
    assert code(of_group(group), group_admin, max_sessions=3) == "forbidden"
    assert code(organisation, org_admin, max_sessions=3) == "forbidden"
    assert code(GLOBAL, org_admin, max_sessions=3) == "forbidden"
    assert code(of_user(member), member, max_sessions=3) == "forbidden"
    set_(GLOBAL, top, max_sessions=5)
    set_(organisation, top, {"max_sessions": 40}, max_sessions=4)
    set_(of_group(group), org_admin, {"max_sessions": 20}, max_sessions=3)
    set_(of_user(member), group_admin, max_sessions=2)
    effective = queries.effective(member.pk, group.pk)
    assert (effective["max_sessions"].value, effective["max_sessions"].scope) == (2, f"user:{member.pk}")
    assert effective["cards"].scope == "global"
    bounds = {(x.scope, x.limit) for x in queries.limits(member.pk, group.pk) if x.field == "max_sessions"}
    assert bounds == {
        (f"user:{member.pk}", 2),
        (f"group:{group.pk}", 20),
        (f"organisation:{group.organisation_id}", 40),
    }


def test_trap_55_nobody_raises_the_limits_of_his_own_scope(group):
    group_admin, org_admin, top = a_user(group, "group_admin"), an_org_admin(group.organisation), a_super_admin()
    for actor in (group_admin, org_admin, top):
        assert code(of_user(actor), actor, max_sessions=100) == "forbidden"


def test_a_group_admin_stays_within_what_his_group_may(group):
    member, group_admin = a_user(group), a_user(group, "group_admin")
    set_(of_group(group), None, max_sessions=3, max_runtime_min=600)
    assert code(of_user(member), group_admin, max_sessions=4) == "forbidden"
    assert code(of_user(member), group_admin, cards=GLOBAL_DEFAULTS["cards"] + 1) == "forbidden"
    assert code(of_user(member), group_admin, max_runtime_min=0) == "forbidden"
    set_(of_user(member), group_admin, max_sessions=3, max_runtime_min=60)
    set_(of_user(member), an_org_admin(group.organisation), max_sessions=9)


def test_a_group_admin_does_not_limit_who_belongs_elsewhere_too_or_ranks_beside_him(group):
    group_admin, equal, both = a_user(group, "group_admin"), a_user(group, "group_admin"), a_user(group)
    Membership.objects.create(user=both, group=a_group(group.organisation), role="member", created_at=LONG_AGO)
    assert code(of_user(equal), group_admin, max_sessions=1) == "forbidden"
    assert code(of_user(both), group_admin, max_sessions=1) == "forbidden"


@pytest.mark.parametrize("field", ["allow_privileged", "shared_pool", "max_priority"])
def test_what_is_reserved_only_super_administrators_raise_and_unsetting_is_raising(group, field):
    org_admin, top = an_org_admin(group.organisation), a_super_admin()
    assert code(of_group(group), org_admin, **{field: 1}) == "forbidden"
    set_(of_group(group), org_admin, **{field: 0})
    assert code(of_group(group), org_admin, **{field: None}) == "forbidden"
    for value in (0, 1):  # his own refusal and a super administrator's grant alike
        set_(of_group(group), top, **{field: value})
        with pytest.raises(DomainError, match="forbidden") as refused:
            services.remove_policy(scope=of_group(group), by=org_admin)
        assert list(refused.value.errors) == [field]
    services.remove_policy(scope=of_group(group), by=top)


def test_an_organisations_administrator_removes_a_groups_policy_that_sets_nothing_reserved(group):
    org_admin = an_org_admin(group.organisation)
    set_(of_group(group), org_admin, {"cards": 8}, max_sessions=1)
    services.remove_policy(scope=of_group(group), by=org_admin)
    assert queries.effective(a_user(group).pk, group.pk)["max_sessions"].scope == "global"


def test_a_change_names_only_what_it_means_null_unsets_and_the_trail_shows_both_sides(group):
    top = a_super_admin()
    policy = set_(of_group(group), top, {"cards": 8}, max_sessions=3, cards=2)
    set_(of_group(group), top, max_sessions=None, cards=4)
    assert queries.policy_values(Policy.objects.get(pk=policy.pk)) == {"per_user": {"cards": 4}, "totals": {"cards": 8}}
    entry = AuditEntry.objects.filter(act="policy.set").order_by("-id").first()
    assert entry.before == {"per_user": {"max_sessions": 3, "cards": 2}, "totals": {}}
    assert entry.after == {"per_user": {"max_sessions": None, "cards": 4}, "totals": {}}
    assert (entry.target_id, entry.group_id) == (f"group:{group.pk}", group.pk)
    entries = AuditEntry.objects.count()
    set_(of_group(group), top, cards=4)
    assert AuditEntry.objects.count() == entries


def test_the_global_policy_sets_everything_and_stays(group):
    top = a_super_admin()
    assert code(GLOBAL, top, max_sessions=None) == "invalid"
    with pytest.raises(DomainError, match="conflict"):
        services.remove_policy(scope=GLOBAL, by=top)
    assert PolicyValue.objects.filter(policy__scope_kind="global").count() == len(GLOBAL_DEFAULTS)


def test_bootstrap_fills_in_what_is_missing_and_keeps_what_was_chosen(group):
    set_(GLOBAL, a_super_admin(), max_sessions=1)
    PolicyValue.objects.filter(field="cards").delete()
    services.ensure_global_policy()
    found = queries.effective(a_user(group).pk, group.pk)
    assert (found["max_sessions"].value, found["cards"].value) == (1, GLOBAL_DEFAULTS["cards"])


def test_removing_a_policy_lets_everything_inherit_again(group):
    top, member = a_super_admin(), a_user(group)
    set_(of_group(group), top, max_sessions=1)
    services.remove_policy(scope=of_group(group), by=top)
    assert queries.effective(member.pk, group.pk)["max_sessions"].scope == "global"
    with pytest.raises(DomainError, match="not_found"):
        services.remove_policy(scope=of_group(group), by=top)


def test_a_foreign_scope_does_not_exist(group):
    stranger = an_org_admin(a_group().organisation)
    assert code(of_group(group), stranger, max_sessions=1) == "not_found"
    assert code(of_user(a_user(group)), stranger, max_sessions=1) == "not_found"


def test_limits_and_effective_values_are_a_constant_number_of_statements(group, django_assert_max_num_queries):
    member = a_user(group)
    with django_assert_max_num_queries(2):
        queries.limits(member.pk, group.pk)
    with django_assert_max_num_queries(2):
        queries.effective(member.pk, None)


def test_people_see_their_own_limits_and_administrators_those_below(group):
    member, admin = a_user(group), a_user(group, "group_admin")
    other = a_group(group.organisation)
    assert queries.may_see_limits(member, user_id=member.pk, group_id=group.pk)
    assert not queries.may_see_limits(member, user_id=member.pk, group_id=other.pk)
    assert not queries.may_see_limits(member, user_id=admin.pk, group_id=group.pk)
    assert queries.may_see_limits(admin, user_id=member.pk, group_id=group.pk)
    assert not queries.may_see_limits(admin, user_id=member.pk, group_id=other.pk)
