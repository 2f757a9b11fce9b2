"""The administrators' pages of people and places with real rows: each role its own scope, acts by the matrix, the import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from accounts import audit
from accounts.models import AuditEntry, Group, Membership, Organisation, User
from accounts.permissions import MATRIX, Act
from accounts.views.admin_words import ACT_WORDS, EXTENT_WORDS
from tests.builders import a_group, a_super_admin, a_user, an_org_admin, an_organisation

pytestmark = pytest.mark.django_db

HEAD = "email,name,group,role\n"


@dataclass(frozen=True)
class Us:
    """Engineering with Vision Lab and Language Lab, and Science with Genomics; an administrator of each kind."""

    engineering: Organisation
    vision: Group
    language: Group
    genomics: Group
    root: User
    org_admin: User
    group_admin: User
    alice: User
    linus: User
    gina: User

    @property
    def administrators(self) -> dict[str, User]:
        return {"super_admin": self.root, "org_admin": self.org_admin, "group_admin": self.group_admin}


@pytest.fixture
def us(db: None) -> Us:
    engineering = an_organisation("Engineering")
    vision, language = a_group(engineering, "Vision Lab"), a_group(engineering, "Language Lab")
    genomics = a_group(an_organisation("Science"), "Genomics")
    return Us(
        engineering=engineering,
        vision=vision,
        language=language,
        genomics=genomics,
        root=a_super_admin(),
        org_admin=an_org_admin(engineering),
        group_admin=a_user(vision, role="group_admin", email="grace@example.org"),
        alice=a_user(vision, email="alice@example.org"),
        linus=a_user(language, email="linus@example.org"),
        gina=a_user(genomics, email="gina@example.org"),
    )


def browser(user: User) -> Client:
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(user)
    return client


def text(answer: Any) -> str:
    return str(answer.content.decode())


# Scope ----------------------------------------------------------------------------------------------------------------

SEEN = {
    "super_admin": {
        "alice@example.org",
        "linus@example.org",
        "gina@example.org",
        "Vision Lab",
        "Language Lab",
        "Genomics",
    },
    "org_admin": {"alice@example.org", "linus@example.org", "Vision Lab", "Language Lab"},
    "group_admin": {"alice@example.org", "Vision Lab"},
}


@pytest.mark.parametrize("role", SEEN)
def test_each_role_lists_the_people_and_groups_of_its_scope_and_no_others(us: Us, role: str) -> None:
    client = browser(us.administrators[role])
    people = {row["name"] for row in client.get("/admin/users/").context["rows"]}
    groups = {row["name"] for row in client.get("/admin/groups/").context["rows"]}
    assert (people | groups) & SEEN["super_admin"] == SEEN[role]


def test_what_is_outside_of_the_scope_does_not_exist(us: Us) -> None:
    client = browser(us.group_admin)
    for path in (
        "/admin/organisations/",
        f"/admin/organisations/{us.engineering.pk}/",
        f"/admin/groups/{us.language.pk}/",
        f"/admin/users/{us.linus.pk}/",
        f"/admin/users/{us.linus.pk}/deactivate/",
        "/admin/groups/new/",
        "/admin/organisations/new/",
    ):
        assert client.get(path).status_code == 404, path
    seat = Membership.objects.get(user=us.linus)
    assert client.post(f"/admin/seats/{seat.pk}/", {"reason": "no"}).status_code == 404
    assert browser(us.alice).get("/admin/users/").status_code == 404


def test_a_persons_seats_elsewhere_are_not_told(us: Us) -> None:
    Membership.objects.create(user=us.alice, group=us.language, role="member", created_at=us.alice.created_at)
    assert "Language Lab" not in text(browser(us.group_admin).get(f"/admin/users/{us.alice.pk}/"))
    assert "Language Lab" in text(browser(us.org_admin).get(f"/admin/users/{us.alice.pk}/"))


def test_search_finds_by_address_and_says_when_nothing_does(us: Us) -> None:
    client = browser(us.root)
    assert [row["name"] for row in client.get("/admin/users/?q=linus").context["rows"]] == ["linus@example.org"]
    assert "Nothing matches" in text(client.get("/admin/users/?q=nobody-like-that"))
    assert client.get("/admin/users/?cursor=garbage").status_code == 302


# Acts -----------------------------------------------------------------------------------------------------------------


def test_places_are_made_renamed_and_a_taken_name_stays_on_the_form(us: Us) -> None:
    root, org = browser(us.root), browser(us.org_admin)
    assert root.post("/admin/organisations/new/", {"name": "Medicine"}).status_code == 302
    made = org.post("/admin/groups/new/", {"name": "Robotics", "organisation": str(us.engineering.pk)})
    robotics = Group.objects.get(name="Robotics")
    assert made.headers["Location"] == f"/admin/groups/{robotics.pk}/"
    taken = org.post("/admin/groups/new/", {"name": "vision lab", "organisation": str(us.engineering.pk)})
    assert taken.status_code == 422
    assert "This name is taken." in text(taken)
    org.post(f"/admin/groups/{robotics.pk}/", {"act": "rename", "name": "Robots"})
    assert Group.objects.get(pk=robotics.pk).name == "Robots"


def test_a_group_is_deactivated_with_a_reason_and_activated_again(us: Us) -> None:
    client, here = browser(us.org_admin), f"/admin/groups/{us.vision.pk}/"
    assert "Deactivate Vision Lab?" in text(client.get(f"{here}deactivate/"))
    client.post(f"{here}deactivate/", {"reason": "the project ended"})
    assert not Group.objects.get(pk=us.vision.pk).is_active
    assert AuditEntry.objects.get(act="group.deactivate").reason == "the project ended"
    client.post(f"{here}activate/")
    assert Group.objects.get(pk=us.vision.pk).is_active


def test_a_group_administrator_neither_switches_nor_renames_his_group(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/groups/{us.vision.pk}/"
    assert "Deactivate" not in text(client.get(here))
    client.post(f"{here}deactivate/", {"reason": "no"})
    refused = client.post(here, {"act": "rename", "name": "Mine"})
    assert refused.status_code == 422
    found = Group.objects.get(pk=us.vision.pk)
    assert (found.is_active, found.name) == (True, "Vision Lab")


def test_somebody_is_registered_and_the_password_is_shown_once_and_cached_nowhere(us: Us) -> None:
    client = browser(us.group_admin)
    place = f"group:{us.vision.pk}"
    shown = client.post(
        "/admin/users/new/", {"email": "New@example.org", "name": "New One", "place": place, "role": "member"}
    )
    password = shown.context["password"]
    made = User.objects.get(email="new@example.org")
    assert made.check_password(password)
    assert password in text(shown)
    assert shown.headers["Cache-Control"] == "no-store"
    assert password not in text(client.get(f"/admin/users/{made.pk}/"))
    again = client.post(
        "/admin/users/new/", {"email": "new@example.org", "name": "X", "place": place, "role": "member"}
    )
    assert again.status_code == 422
    assert "has an account already" in text(again)


def test_a_seat_is_given_by_address_with_the_same_words_whether_or_not_it_has_an_account(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/groups/{us.vision.pk}/"
    answers = [
        text(client.post(here, {"act": "seat", "email": email, "role": "member"}, follow=True)).replace(email, "…")
        for email in ("gina@example.org", "nobody@example.org")
    ]
    assert all("If … has an account, it has the seat now." in answer for answer in answers)
    assert Membership.objects.filter(group=us.vision, user=us.gina).exists()


def test_a_role_is_changed_and_a_seat_is_taken_after_asking(us: Us) -> None:
    client, seat = browser(us.org_admin), Membership.objects.get(user=us.alice, group=us.vision)
    client.post(f"/admin/seats/{seat.pk}/", {"act": "role", "role": "group_admin"})
    assert Membership.objects.get(pk=seat.pk).role == "group_admin"
    assert "Take alice@example.org out of Vision Lab?" in text(client.get(f"/admin/seats/{seat.pk}/"))
    client.post(f"/admin/seats/{seat.pk}/", {"reason": "left the project"})
    assert not Membership.objects.filter(pk=seat.pk).exists()
    assert AuditEntry.objects.get(act="membership.remove").reason == "left the project"


def test_trap_55_a_group_administrator_is_not_offered_and_not_allowed_what_is_above_him(us: Us) -> None:
    client, here = browser(us.group_admin), f"/admin/users/{us.alice.pk}/"
    assert "New password" in text(client.get(here))
    Membership.objects.create(user=us.alice, group=us.genomics, role="member", created_at=us.alice.created_at)
    assert "New password" not in text(client.get(here))
    client.post(f"{here}reset-password/", {"reason": "no"})
    client.post(f"{here}deactivate/", {"reason": "no"})
    client.post(here, {"act": "email", "email": "mine@example.org"})
    found = User.objects.get(pk=us.alice.pk)
    assert (found.email, found.is_active, found.must_change_password) == ("alice@example.org", True, False)


def test_access_is_ended_given_back_and_renewed_by_who_may(us: Us) -> None:
    client, here = browser(us.org_admin), f"/admin/users/{us.alice.pk}/"
    client.post(f"{here}deactivate/", {"reason": "left"})
    assert not User.objects.get(pk=us.alice.pk).is_active
    client.post(f"{here}activate/")
    assert User.objects.get(pk=us.alice.pk).is_active
    shown = client.post(f"{here}reset-password/", {"reason": "forgotten"})
    assert User.objects.get(pk=us.alice.pk).check_password(shown.context["password"])
    client.post(here, {"act": "rename", "name": "Alice A."})
    assert User.objects.get(pk=us.alice.pk).name == "Alice A."


def test_effective_rights_are_those_of_the_matrix_for_the_highest_role(us: Us) -> None:
    rights = browser(us.root).get(f"/admin/users/{us.group_admin.pk}/").context["rights"]
    acts = {right["act"] for right in rights}
    assert str(ACT_WORDS[Act.SEE_OTHERS]) in acts
    assert str(ACT_WORDS[Act.MANAGE_GROUP]) not in acts
    nobody = a_user(us.vision, role="guest")
    assert browser(us.root).get(f"/admin/users/{nobody.pk}/").context["rights"] == []


def test_every_act_and_every_extent_of_the_matrix_has_words() -> None:
    assert set(ACT_WORDS) == set(MATRIX)
    assert set(EXTENT_WORDS) >= {extent for reaches in MATRIX.values() for extent in reaches.values()}


# Import ---------------------------------------------------------------------------------------------------------------


def test_a_dry_run_judges_every_line_and_changes_nothing(us: Us) -> None:
    table = HEAD + "ok@example.org,Ok,Vision Lab,\nalice@example.org,Again,Vision Lab,member\nbad,Bad,Nowhere,boss\n"
    before = User.objects.count()
    answer = browser(us.group_admin).post("/admin/users/import/", {"act": "check", "table": table})
    assert answer.status_code == 422
    assert [bool(row["faults"]) for row in answer.context["rows"]] == [False, True, True]
    assert answer.context["rows"][1]["faults"] == ["This e-mail address has an account already."]
    assert len(answer.context["rows"][2]["faults"]) == 3
    assert "2 lines are at fault" in text(answer)
    assert User.objects.count() == before


def test_all_of_a_table_are_registered_or_nobody(us: Us) -> None:
    client, before = browser(us.org_admin), User.objects.count()
    good = HEAD + "one@example.org,One,Vision Lab,member\ntwo@example.org,Two,Engineering/Language Lab,group_admin\n"
    refused = client.post(
        "/admin/users/import/", {"act": "import", "table": good + "three@example.org,Three,Genomics,\n"}
    )
    assert refused.status_code == 422
    assert "You administer no group of this name." in text(refused)
    assert User.objects.count() == before
    done = client.post("/admin/users/import/", {"act": "import", "table": good})
    assert done.headers["Cache-Control"] == "no-store"
    assert User.objects.count() == before + 2
    for row in done.context["people"]:
        assert User.objects.get(email=row["email"]).check_password(row["password"])
    assert Membership.objects.get(user__email="two@example.org").role == "group_admin"
    assert AuditEntry.objects.filter(act="user.register").count() == 2


def test_a_file_is_read_like_a_typed_table_and_what_is_no_table_is_said(us: Us) -> None:
    client = browser(us.group_admin)
    file = SimpleUploadedFile(
        "people.csv", (HEAD + "ok@example.org,Ok,vision lab,\n").encode(), content_type="text/csv"
    )
    tried = client.post("/admin/users/import/", {"act": "check", "file": file})
    assert tried.status_code == 200
    assert "1 person would be registered." in text(tried)
    for table, said in (
        ("", "The first line must name the columns"),
        ("email,name\nx@example.org,X\n", "missing: group"),
        (HEAD, "There is no line below the head."),
        (HEAD + "a@example.org,A,Vision Lab,\n" * 201, "at most 200"),
    ):
        refused = client.post("/admin/users/import/", {"act": "check", "table": table})
        assert refused.status_code == 422
        assert said in text(refused)


def test_a_group_administrator_cannot_import_his_equals(us: Us) -> None:
    table = HEAD + "boss@example.org,Boss,Vision Lab,group_admin\n"
    answer = browser(us.group_admin).post("/admin/users/import/", {"act": "import", "table": table})
    assert answer.status_code == 422
    assert "You cannot give this role here." in text(answer)
    assert not User.objects.filter(email="boss@example.org").exists()


# Audit ----------------------------------------------------------------------------------------------------------------


def test_the_trail_shows_the_own_scope_with_before_and_after_and_as_a_file(us: Us) -> None:
    browser(us.root).post(f"/admin/groups/{us.vision.pk}/", {"act": "rename", "name": "Vision"})
    browser(us.root).post(f"/admin/groups/{us.genomics.pk}/", {"act": "rename", "name": "Genes"})
    for user, seen in ((us.root, {"Vision", "Genes"}), (us.org_admin, {"Vision"}), (us.group_admin, {"Vision"})):
        answer = browser(user).get("/admin/audit/")
        entries = [entry for entry in answer.context["entries"] if entry["act"] == "group.rename"]
        assert {entry["target"] for entry in entries} == seen
    changed = browser(us.group_admin).get("/admin/audit/").context["entries"][0]["changes"]
    assert changed == [("name", "Vision Lab", "Vision")]
    file = browser(us.group_admin).get("/admin/audit/?as=csv")
    assert file.headers["Content-Type"].startswith("text/csv")
    assert "group.rename" in text(file)
    assert "Genes" not in text(file)


def test_what_a_group_administrator_does_to_his_people_stands_in_his_trail(us: Us) -> None:
    client, alice = browser(us.group_admin), us.alice
    here = f"/admin/users/{alice.pk}/"
    client.post(here, {"act": "rename", "name": "Alice Amsel"})
    client.post(f"{here}reset-password/", {"reason": "forgotten"})
    client.post(f"/admin/policies/?scope=user:{alice.pk}", {"act": "save", "per_user-max_sessions": "3"})
    client.post(
        "/admin/budgets/new/",
        {"place": "person", "email": alice.email, "limit": "40", "mode": "warn", "time_zone": "UTC"},
    )
    done = {"user.rename", "user.reset_password", "policy.set", "budget.create"}
    told = {row["act"] for row in client.get("/admin/audit/").context["entries"] if row["target"] == alice.email}
    assert told >= done, told
    assert {row["act"] for row in browser(us.org_admin).get("/admin/audit/").context["entries"]} >= done
    stranger = browser(a_user(us.language, role="group_admin"))
    assert not {row["act"] for row in stranger.get("/admin/audit/").context["entries"]} & done


def test_of_somebody_with_seats_in_several_places_only_those_above_all_of_them_read(us: Us) -> None:
    Membership.objects.create(user=us.alice, group=us.language, role="member", created_at=us.alice.created_at)
    browser(us.org_admin).post(f"/admin/users/{us.alice.pk}/", {"act": "rename", "name": "Alice Amsel"})
    assert AuditEntry.objects.get(target_id=str(us.alice.pk), act__contains="name").group_id is None


def test_the_trail_is_narrowed_by_kind_words_and_days(us: Us) -> None:
    client = browser(us.root)
    client.post(f"/admin/groups/{us.vision.pk}/", {"act": "rename", "name": "Vision"})
    client.post(f"/admin/users/{us.alice.pk}/deactivate/", {"reason": "left"})
    assert {e["act"] for e in client.get("/admin/audit/?target_kind=group").context["entries"]} == {"group.rename"}
    assert {e["act"] for e in client.get("/admin/audit/?q=alice").context["entries"]} == {"user.deactivate"}
    assert client.get("/admin/audit/?to=2020-01-01").context["entries"] == []
    assert client.get("/admin/audit/?from=nonsense").status_code == 200


def test_the_chain_is_verified_for_super_administrators_and_a_change_is_found(us: Us) -> None:
    browser(us.root).post(f"/admin/groups/{us.vision.pk}/", {"act": "rename", "name": "Vision"})
    audit.seal_entries()
    whole = browser(us.root).get("/admin/audit/?verify=1")
    assert whole.context["chain"]["sound"]
    assert "The chain is whole:" in text(whole)
    assert browser(us.org_admin).get("/admin/audit/?verify=1").context["chain"] is None


def test_the_newest_links_are_checked_against_the_seal_before_them(us: Us) -> None:
    client = browser(us.root)
    for name in ("One", "Two", "Three"):
        client.post(f"/admin/groups/{us.vision.pk}/", {"act": "rename", "name": name})
    audit.seal_entries()
    found = audit.verify_newest(2)
    assert (found.is_sound, found.sealed, found.head) == (True, 2, audit.verify().head)
