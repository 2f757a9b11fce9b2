"""Writes that are sent together: whoever reads sees them, what is rolled back is not sent, what fails is said."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import Organisation
from billing.models import Account
from billing.trial import differences
from catalog.models import Preset
from gshare_core.kit import locks, rows
from gshare_core.kit.rows import Each, Prepared, sample
from tests.builders import a_customer, fund

pytestmark = pytest.mark.django_db
AT = datetime(2026, 1, 1, tzinfo=UTC)


def a_place(name):
    return Organisation(name=name, created_at=AT)


def names():
    return sorted(Organisation.objects.values_list("name", flat=True))


def test_a_write_waits_for_the_next_statement_that_is_none_and_goes_before_it():
    with locks.ordered(), CaptureQueriesContext(connection) as sent:
        rows.insert(a_place("one"))
        rows.insert(a_place("two"))
        assert len(sent) == 0
        assert names() == ["one", "two"]
        assert [query["sql"][:6] for query in sent] == ["INSERT", "INSERT", "SELECT"]


def test_what_is_left_at_the_end_is_sent_before_the_commit():
    with locks.ordered():
        rows.insert(a_place("one"))
    assert names() == ["one"]


def test_a_savepoint_that_is_rolled_back_takes_its_writes_with_it_and_no_others():
    with locks.ordered():
        rows.insert(a_place("before"))
        with suppress(KeyError), locks.attempt():
            rows.insert(a_place("within"))
            raise KeyError
        rows.insert(a_place("after"))
    assert names() == ["after", "before"]


def test_what_the_database_refuses_in_a_savepoint_is_said_at_its_end_and_rolled_back_there():
    with locks.ordered():
        rows.insert(a_place("one"))
        with pytest.raises(IntegrityError), locks.attempt():
            rows.insert(a_place("two"), a_place("one"), a_place("three"))
        rows.insert(a_place("four"))
    assert names() == ["four", "one"]


def test_what_the_database_refuses_at_the_end_undoes_everything():
    with pytest.raises(IntegrityError), transaction.atomic(), locks.ordered():
        rows.insert(a_place("one"), a_place("one"))
    assert names() == []


def test_a_fault_sends_nothing():
    with suppress(KeyError), transaction.atomic(), locks.ordered():
        rows.insert(a_place("one"))
        raise KeyError
    assert names() == []


def test_writing_a_row_that_is_gone_is_a_fault():
    place = Organisation.objects.create(name="one", created_at=AT)
    Organisation.objects.all().delete()
    with pytest.raises(ObjectDoesNotExist), locks.ordered():
        rows.update(place)


def test_counts_come_after_what_was_written_before_them():
    with locks.ordered():
        rows.insert(a_place("one"), a_place("two"))
        statement = "UPDATE accounts_organisation SET name = name || %s WHERE name = ANY(%s)"
        assert rows.counts([(statement, ["!", ["one", "two", "three"]]), (statement, ["?", ["one!"]])]) == [2, 1]
    assert names() == ["one!?", "two!"]


def test_a_list_of_any_length_is_one_argument():
    found = Prepared(lambda keys: Organisation.objects.filter(pk__in=keys).order_by("name"), Each(sample(1)))
    places = [Organisation.objects.create(name=name, created_at=AT) for name in ("c", "a", "b")]
    assert [row.name for row in found([place.pk for place in places])] == ["a", "b", "c"]
    assert found([]) == []


def test_two_lists_in_one_filter_are_refused():
    twice = Prepared(lambda keys: Organisation.objects.filter(pk__in=keys).exclude(pk__in=keys), Each(sample(1)))
    with pytest.raises(ValueError, match="in one"):
        twice([])


def test_a_number_that_does_not_fit_its_column_is_refused_and_not_cut_off():
    size = Preset(tier="S", name="S", cpu_milli=2**32 + 5, memory_mib=1, scratch_gib=1, cards=0)
    with pytest.raises(DataError), transaction.atomic(), locks.ordered():
        rows.insert(size)
    with pytest.raises(DataError):
        rows.counts([("UPDATE accounts_organisation SET name = %s", [2**63])])
    assert not Preset.objects.exists()


def test_what_is_added_in_an_expression_may_be_wider_than_32_bits():
    alice = a_customer(11_000)
    fund(alice, 11_000)
    assert Account.objects.get(pk=alice.wallet).balance == 22_000 * 10**6
    assert list(differences()) == []
