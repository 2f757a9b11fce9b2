"""What the API answers has exactly the fields that its OpenAPI document names."""

from __future__ import annotations

import pytest

from accounts import audit, services
from accounts.api import answers, documents
from accounts.domain.policies import Scope, ScopeKind
from accounts.models import Membership
from accounts.notices import notify
from tests.builders import LONG_AGO, a_group, a_user

pytestmark = pytest.mark.django_db


def test_every_document_has_the_fields_of_its_answer():
    group = a_group()
    user = a_user(group)
    policy = services.set_policy(scope=Scope(ScopeKind.GROUP, group.pk), per_user={"cards": 1}, totals={}, by=None)
    notice = notify(user_id=user.pk, kind="test", title="t", body="", at=LONG_AGO)
    entry = audit.record(by=user, act="thing.change", target_kind="thing", at=LONG_AGO)
    made = {
        answers.OrganisationAnswer: documents.organisation(group.organisation),
        answers.GroupAnswer: documents.group(group),
        answers.UserAnswer: documents.user(user),
        answers.MembershipAnswer: documents.membership(Membership.objects.get()),
        answers.PolicyAnswer: documents.policy(policy),
        answers.NotificationAnswer: documents.notice(notice),
        answers.AuditEntryAnswer: documents.audit_entry(entry),
    }
    for answer, document in made.items():
        assert list(answer().fields) == list(document), answer.__name__
    assert tuple(documents.audit_entry(entry)) == documents.AUDIT_COLUMNS
    assert tuple(documents.notice(notice)) == documents.NOTICE_COLUMNS
