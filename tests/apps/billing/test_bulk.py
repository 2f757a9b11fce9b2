"""Many lines at once: all of it or nothing, and a dry run that says which."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from accounts.models import AuditEntry, Group, User
from billing import services as billing
from billing.bulk import MOVES_MAX
from billing.models import SYSTEM_ID, Account, TransferKind
from gshare_core.errors import DomainError
from tests.apps.billing.stage import HOLD, books_agree, net, opened, transfers, wallet
from tests.builders import Customer, a_customer, a_group, a_user, an_org_admin, cr, fund_group

pytestmark = pytest.mark.django_db


def a_class(size: int, group: Group | None = None) -> list[Customer]:
    place = group or a_group()
    return [a_customer(group=place) for _one in range(size)]


def order(parent: Any, moves: list[tuple[Any, int]], kind: TransferKind = TransferKind.ALLOCATE) -> billing.BulkOrder:
    return billing.BulkOrder(kind, parent, [billing.Move(key, amount) for key, amount in moves], "term")


def moved(result: Any) -> billing.BulkResult:
    assert isinstance(result, billing.BulkResult)
    return result


def post(person: User, parent: Any, body: dict[str, Any], key: str = "k") -> Any:
    client = Client()
    client.force_login(person)
    path = f"/api/v1/wallets/{parent}/bulk"
    return client.post(path, body, content_type="application/json", headers={"Idempotency-Key": key})


def test_a_whole_class_gets_its_credits_in_one_transaction() -> None:
    people = a_class(3)
    group = fund_group(people[0].group, 100)
    result = moved(billing.move_in_bulk(order(group, [(one.wallet, cr(10)) for one in people]), by=None))
    assert (result.before, result.after, result.refused) == (cr(100), cr(70), [])
    assert [(line.before, line.after) for line in result.lines] == [(0, cr(10))] * 3
    assert all(line.transfer_id for line in result.lines)
    assert [wallet(one) for one in people] == [(cr(10), 0)] * 3
    assert [net(one.wallet, group) for one in people] == [cr(10)] * 3
    assert AuditEntry.objects.filter(act="credits.allocate", target_id__in=[one.wallet for one in people]).count() == 3
    assert books_agree()


def test_one_line_that_cannot_be_done_leaves_all_of_them_undone_and_every_one_is_named() -> None:
    people = a_class(3)
    stranger = a_customer()
    group = fund_group(people[0].group, 25)
    before = transfers()
    wanted = order(group, [*((one.wallet, cr(10)) for one in people), (stranger.wallet, cr(1))])
    with pytest.raises(DomainError) as refused:
        billing.move_in_bulk(wanted, by=None)
    assert refused.value.code == "insufficient_pool"
    assert set(refused.value.errors) == {"moves.2", "moves.3"}  # the third finds 5 left; the fourth is no member
    assert transfers() == before
    assert books_agree()


def test_a_dry_run_says_line_by_line_what_would_happen_and_changes_nothing() -> None:
    people = a_class(3)
    group = fund_group(people[0].group, 25)
    before = transfers()
    wanted = order(group, [(people[0].wallet, cr(20)), (people[1].wallet, cr(10)), (people[2].wallet, cr(5))])
    result = moved(billing.move_in_bulk(wanted, by=None, dry_run=True))
    assert result.refused == [1]
    assert [line.after for line in result.lines] == [cr(20), 0, cr(5)]  # what is refused leaves its part to the next
    assert result.after == 0
    assert transfers() == before
    assert wallet(people[0]) == (0, 0)


def test_taking_back_in_bulk_takes_at_most_what_is_net_and_free_of_each() -> None:
    people = a_class(2)
    group = fund_group(people[0].group, 100)
    billing.move_in_bulk(order(group, [(one.wallet, cr(20)) for one in people]), by=None)
    billing.adjust(wallet=people[1].wallet, amount=cr(50), reason="gift", by=None)
    opened(people[0])
    back = order(group, [(people[0].wallet, cr(8)), (people[1].wallet, cr(21))], TransferKind.RECLAIM)
    result = moved(billing.move_in_bulk(back, by=None, dry_run=True))
    assert [line.refusal is not None for line in result.lines] == [True, True]
    back = order(group, [(people[0].wallet, cr("7.5")), (people[1].wallet, cr(20))], TransferKind.RECLAIM)
    result = moved(billing.move_in_bulk(back, by=None))
    assert (result.before, result.after) == (cr(60), cr("87.5"))
    assert wallet(people[0]) == (HOLD, HOLD)
    assert net(people[1].wallet, group) == 0
    assert books_agree()


def test_the_system_gives_to_many_organisations_and_an_organisation_to_its_groups_only() -> None:
    group, other = a_group(), a_group()
    organisation = billing.ensure_wallet("organisation", group.organisation_id)
    below, foreign = billing.ensure_wallet("group", group.pk), billing.ensure_wallet("group", other.pk)
    billing.issue(amount=cr(10), by=None)
    billing.move_in_bulk(order(SYSTEM_ID, [(organisation, cr(10))]), by=None)
    result = moved(billing.move_in_bulk(order(organisation, [(below, 1), (foreign, 1)]), by=None, dry_run=True))
    assert result.refused == [1]


def test_who_may_not_give_to_one_of_them_gives_to_none() -> None:
    people = a_class(2)
    group = fund_group(people[0].group, 100)
    for person in (people[0].user, a_user(a_group(people[0].group.organisation), "group_admin")):
        with pytest.raises(DomainError) as refused:
            billing.move_in_bulk(order(group, [(one.wallet, cr(1)) for one in people]), by=person, dry_run=True)
        assert refused.value.code == "forbidden"


def test_lines_are_bounded_named_once_and_above_nothing() -> None:
    (alice,) = a_class(1)
    group = fund_group(alice.group, 10)
    for moves in ([], [(alice.wallet, 1)] * 2, [(alice.wallet, 0)], [(alice.wallet, 1)] * (MOVES_MAX + 1)):
        with pytest.raises(DomainError) as refused:
            billing.move_in_bulk(order(group, moves), by=None)
        assert refused.value.code == "invalid"


def test_over_http_a_dry_run_answers_200_the_real_thing_201_and_a_repetition_moves_nothing() -> None:
    people = a_class(2)
    group = fund_group(people[0].group, 30)
    chief = a_user(people[0].group, "group_admin")
    newcomer = a_user(people[0].group)
    lines = [{"wallet": str(people[0].wallet), "amount": "10"}, {"wallet": f"user:{newcomer.pk}", "amount": "5.5"}]
    body = {"act": "allocate", "moves": lines, "note": "term"}
    dry = post(chief, group, body | {"dry_run": True})
    assert dry.status_code == 200, dry.content
    assert (dry.json()["total"], dry.json()["after"], dry.json()["dry_run"]) == ("15.500000", "14.500000", True)
    real = post(chief, group, body)
    assert real.status_code == 201, real.content
    assert [line["transfer"] is not None for line in real.json()["lines"]] == [True, True]
    assert post(chief, group, body).json() == real.json()
    assert Account.objects.get(pk=group).balance == cr("14.5")
    other = post(chief, group, body | {"note": "another"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    refused = post(chief, group, {"act": "allocate", "moves": [lines[0] | {"amount": "15"}]}, key="k2")
    assert (refused.status_code, refused.json()["code"]) == (409, "insufficient_pool")
    assert list(refused.json()["errors"]) == ["moves.0"]
    assert books_agree()


def test_a_stranger_finds_no_wallet_to_give_from_or_to() -> None:
    (alice,) = a_class(1)
    group = fund_group(alice.group, 10)
    stranger = an_org_admin(a_group().organisation)
    body = {"act": "allocate", "moves": [{"wallet": str(alice.wallet), "amount": "1"}]}
    assert post(stranger, group, body).status_code == 404
    own = fund_group(a_group(stranger.organisation), 10)
    assert post(stranger, own, body).status_code == 404
