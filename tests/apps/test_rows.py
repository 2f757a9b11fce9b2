"""Writes that are sent together: whoever reads sees them, what is rolled back is not sent, what fails is said."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import Organisation
from billing.models import Account
from billing.trial import differences
from catalog.models import Preset
from gshare_core.ids import uuid7
from gshare_core.kit import clock, locks, rows
from gshare_core.kit.parameters import wide
from gshare_core.kit.rows import Each, Prepared, sample
from sessions_app.models import Run
from tests.apps.sessions.world import a_world, manual_clock
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
        assert [query["sql"][:6] for query in sent] == ["INSERT", "SELECT"]


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


ODD = 'a "quoted" \\ back\\slash, {curly}, é 한국어 \U0001f680 \t tab'


def test_what_is_inserted_is_what_the_orm_would_have_written():
    """Every kind of column that rows have: text, numbers, moments, keys, documents, and none of them."""
    time = manual_clock()
    with clock.using(time):
        session = a_world(time).create("S")
    run = Run.objects.get(session=session)
    told = {f.attname: getattr(run, f.attname) for f in Run._meta.concrete_fields}
    odd = {
        "card_uuids": [ODD, "", "a,b", "NULL"],
        "endpoints": {ODD: [1, 2.5, None, True, {"nested": ODD}]},
        "message": ODD,
        "opened_at": datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=timezone(timedelta(hours=-11, minutes=-30))),
        "placed_at": None,
        "rate_micro_per_hour": 2**62 + 1,
        "closed_at": datetime(2026, 3, 2, tzinfo=UTC),
    }
    one, two = Run(**told | odd | {"id": uuid7(), "number": 8}), Run(**told | odd | {"id": uuid7(), "number": 9})
    one.save(force_insert=True)
    rows.insert(two)
    by_orm, by_us = (Run.objects.values().get(pk=row.pk) for row in (one, two))
    assert by_us | {"id": one.pk, "number": 8} == by_orm
    assert by_us["card_uuids"] == odd["card_uuids"]
    assert by_us["endpoints"] == odd["endpoints"]


def test_a_value_that_no_column_has_is_refused_before_anything_is_sent():
    with pytest.raises(TypeError, match="object"), locks.ordered():
        rows.insert(Preset(tier="S", name="S", cpu_milli=1, memory_mib=1, scratch_gib=1, cards=object()))
    assert not Preset.objects.exists()


def test_what_is_written_in_the_same_way_goes_as_one_statement_with_each_rows_own_values():
    one, two, three = (a_place(name) for name in ("one", 'two "quoted" \\ {,}', "three"))
    rows.insert(one, two, three)
    with locks.ordered(), CaptureQueriesContext(connection) as sent:
        for place, name in ((one, "eins"), (two, "zwei"), (three, "drei")):
            place.name = name
            rows.update(place)
            rows.delete(Preset, place.pk)
        assert names() == ["drei", "eins", "zwei"]
    assert [query["sql"][:6] for query in sent] == ["UPDATE", "DELETE", "SELECT"]


def test_a_row_that_is_written_twice_has_what_was_written_last_and_what_comes_between_keeps_its_place():
    place, other = a_place("first"), a_place("other")
    table = Organisation._meta.db_table
    with locks.ordered():
        rows.insert(place)
        for name in ("second", "third"):
            place.name = name
            rows.update(place)
        rows.write(f"UPDATE {table} SET name = name || %s", [" seen"])
        rows.insert(other)
        place.name = "fourth"
        rows.update(place)
        rows.delete(Organisation, other.pk)
        rows.insert(other)
    assert names() == ["fourth", "other"]


def test_of_several_rows_one_that_is_gone_is_said_and_nothing_is_written():
    here, gone = a_place("here"), a_place("gone")
    rows.insert(here)
    here.name = gone.name = "changed"

    def change():
        with locks.ordered():
            rows.update(here)
            rows.update(gone)

    with pytest.raises(ObjectDoesNotExist, match=str(gone.pk)):
        change()
    assert names() == ["here"]


def test_rows_of_one_key_are_refused_before_anything_is_sent():
    place = a_place("one")
    with pytest.raises(ValueError, match="one key"):
        rows.insert(place, place)
    assert names() == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["plain", "", "NULL", 'a "b" \\ {c,d}', "\u00e4\n\t'", None]),
        ("bigint", [0, -1, 2**63 - 1, None]),
        ("uuid", [sample(1), sample(2)]),
        ("timestamptz", [AT, AT.replace(microsecond=1), None]),
        ("text", []),
    ],
)
def test_a_list_arrives_as_it_was_given(kind, values):
    with rows.prepared() as cursor:
        cursor.execute(f"SELECT %s::{kind}[]", wide([values]))
        assert cursor.fetchone()[0] == values


def test_a_number_in_a_list_that_fits_no_column_is_refused():
    with rows.prepared() as cursor, pytest.raises(DataError):
        cursor.execute("SELECT %s::bigint[]", wide([[2**63]]))
