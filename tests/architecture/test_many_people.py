"""Trap 50: with many people no answer lists them all, and no tick reads them: rows that statements return are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.utils.module_loading import import_string

from accounts.models import Group, Membership, User
from gshare_site import ticks
from tests.architecture.everybody import Everybody
from tests.architecture.test_every_url import Browsers, all_of_us, signing_keys
from tests.architecture.url_table import SECTIONS
from tests.builders import LONG_AGO

__all__ = ["all_of_us", "signing_keys"]

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(600)]

MANY = 600
MOST = 210  # a page of the longest list, and one more to see that it goes on


@contextmanager
def rows_read() -> Iterator[list[tuple[int, str]]]:
    """How many rows each statement returned, with the statement."""
    seen: list[tuple[int, str]] = []

    def count(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        result = execute(sql, params, many, context)
        cursor = context["cursor"]
        returned = cursor.description is not None
        seen.append((max(cursor.rowcount, 0) if returned else 0, sql))
        return result

    # A cursor on the server does not say how much it returns.
    before = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = True
    try:
        with connection.execute_wrapper(count):
            yield seen
    finally:
        connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = before


def many_join(group_id: Any) -> None:
    """Six hundred people come into alice's group; nobody has done anything yet."""
    group = Group.objects.get(pk=group_id)
    people = User.objects.bulk_create(
        User(
            email=f"many{number}@example.org",
            name=f"Many {number}",
            organisation_id=group.organisation_id,
            created_at=LONG_AGO,
        )
        for number in range(MANY)
    )
    Membership.objects.bulk_create(
        Membership(user=person, group=group, role="member", created_at=LONG_AGO) for person in people
    )


def test_who_reads_everybody_is_seen(all_of_us: Everybody) -> None:
    many_join(all_of_us.things["group"])
    with rows_read() as seen:
        assert len(list(User.objects.iterator())) > MANY
    assert max(many for many, _sql in seen) > MANY


@pytest.mark.parametrize("section", SECTIONS)
def test_no_answer_reads_all_people(section: str, all_of_us: Everybody) -> None:
    browsers = Browsers(all_of_us)
    many_join(all_of_us.things["group"])
    wrong = []
    for row in (row for row in SECTIONS[section] if row.method == "GET"):
        for persona in ("owner", "group_admin", "super_admin"):
            with rows_read() as seen:
                browsers.ask(persona, row)
            wrong += [f"{row.path} for {persona}: {many} rows by {sql[:300]}" for many, sql in seen if many > MOST]
    assert wrong == []


def test_no_tick_reads_more_when_there_are_more_people(all_of_us: Everybody) -> None:
    def read_by(tick: ticks.Tick) -> list[int]:
        work = import_string(tick.call)
        work()  # what is due now is done
        with rows_read() as seen:
            work()
        return [many for many, _sql in seen]

    few = {tick.name: read_by(tick) for tick in ticks.table()}
    many_join(all_of_us.things["group"])
    assert {tick.name: read_by(tick) for tick in ticks.table()} == few
