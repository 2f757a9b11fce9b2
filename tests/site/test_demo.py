"""Bootstrap and demo data: made once, whatever happens in between, by the services that the consoles call."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth import authenticate
from django.core.management import CommandError, call_command
from django.test import RequestFactory
from django.utils import timezone

from accounts.permissions import visible_users
from billing import queries as billing
from billing.services import Scopes
from gshare_core.errors import DomainError
from gshare_core.money import MICRO_PER_CREDIT
from gshare_site.bootstrapping import bootstrap
from gshare_site.demo import PEOPLE, Login, Memory, seed_people

pytestmark = pytest.mark.django_db(transaction=True)

EMAIL, PASSWORD = "root@gshare.example", "correct-horse-battery"


def _can_sign_in(email: str, password: str) -> bool:
    return authenticate(RequestFactory().post("/login/"), username=email, password=password) is not None


def test_bootstrap_names_the_missing_variables() -> None:
    with pytest.raises(
        CommandError, match="GSHARE_BOOTSTRAP_ADMIN_EMAIL and GSHARE_BOOTSTRAP_ADMIN_PASSWORD must be set"
    ):
        call_command("bootstrap")


def test_bootstrap_makes_the_administrator_once_and_keeps_its_password() -> None:
    first = bootstrap(email=EMAIL, password=PASSWORD)
    assert (first.administrator_is_new, first.policy_is_new) == (True, True)
    again = bootstrap(email=EMAIL, password="another-password-entirely")
    assert (again.administrator_is_new, again.policy_is_new, again.signing_key_is_new) == (False, False, False)
    assert again.administrator.pk == first.administrator.pk
    assert _can_sign_in(EMAIL, PASSWORD)
    assert not _can_sign_in(EMAIL, "another-password-entirely")


def test_a_weak_bootstrap_password_is_refused_in_words() -> None:
    with pytest.raises(DomainError, match="not strong enough"):
        bootstrap(email=EMAIL, password="short")


def test_the_demos_people_can_sign_in_with_what_was_written_down(tmp_path: Path) -> None:
    admin = bootstrap(email=EMAIL, password=PASSWORD).administrator
    memory = Memory.read(tmp_path / "users.json")
    seed_people(admin, memory)
    assert (tmp_path / "users.json").stat().st_mode & 0o077 == 0
    written = {user["email"]: user for user in json.loads((tmp_path / "users.json").read_text())["users"]}
    assert set(written) == {plan.email for plan in PEOPLE}
    for plan in PEOPLE:
        user = visible_users(admin).get(email=plan.email)
        assert user.must_change_password is plan.newcomer
        assert user.check_password(written[plan.email]["password"])
        wallet = billing.personal_wallet_id(user.pk)
        assert wallet is not None


def test_seeding_again_changes_nothing(tmp_path: Path) -> None:
    admin = bootstrap(email=EMAIL, password=PASSWORD).administrator
    seed_people(admin, Memory.read(tmp_path / "users.json"))
    before = (tmp_path / "users.json").read_text()
    hashes = dict(visible_users(admin).values_list("email", "password"))
    seed_people(admin, Memory.read(tmp_path / "users.json"))
    assert (tmp_path / "users.json").read_text() == before
    assert dict(visible_users(admin).values_list("email", "password")) == hashes


class Killed(BaseException):
    """As if the process had been killed at this point."""


class DyingMemory(Memory):
    """Dies instead of writing down the so-manieth login."""

    left = 0

    def remember(self, login: Login) -> None:
        self.left -= 1
        if self.left == 0:
            raise Killed
        super().remember(login)


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_seeding_that_was_interrupted_is_completed(step: int, tmp_path: Path) -> None:
    admin = bootstrap(email=EMAIL, password=PASSWORD).administrator
    dying = DyingMemory.read(tmp_path / "users.json")
    dying.left = step
    with pytest.raises(Killed):
        seed_people(admin, dying)
    memory = Memory.read(tmp_path / "users.json")
    seed_people(admin, memory)
    for plan in PEOPLE:
        user = visible_users(admin).get(email=plan.email)
        assert user.check_password(memory.users[plan.email].password)
        assert user.must_change_password is plan.newcomer


def test_first_credits_are_given_once_and_add_up(tmp_path: Path) -> None:
    admin = bootstrap(email=EMAIL, password=PASSWORD).administrator
    for _ in range(2):
        seed_people(admin, Memory.read(tmp_path / "users.json"))
    for plan in PEOPLE:
        user = visible_users(admin).get(email=plan.email)
        scopes = Scopes(user_id=user.pk, group_id=user.organisation_id, organisation_id=user.organisation_id)
        assert billing.money_facts(scopes, at=timezone.now()).balance == plan.credits * MICRO_PER_CREDIT
    call_command("trial_balance", full=True, stdout=StringIO())
