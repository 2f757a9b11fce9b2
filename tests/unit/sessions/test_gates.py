"""Gates 1 to 6 over frozen facts: what is refused, with which code, why, and what would change it."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from uuid import UUID, uuid4

import pytest

from cluster.domain.shapes import Host, Shape, custom_shape, tier_shape
from gshare_core.verdicts import Gate, Verdict
from sessions_app.domain.facts import (
    Ask,
    BudgetFact,
    Facts,
    ImageFact,
    LimitFact,
    MoneyFact,
    MountAsk,
    MountFact,
    OfferingFact,
    Requester,
    RightFact,
    Rights,
)
from sessions_app.domain.gates import first_refusal, judge, path_fault, queue_policy

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)
CREDIT = 1_000_000
HOST = Host(8000, 32_768, 50)
A100 = OfferingFact(
    id=uuid4(),
    name="A100 80GB",
    model="NVIDIA A100-SXM4-80GB",
    vram_mib=81_559,
    min_cuda="12.0",
    tiers=("XL", "L", "M", "exclusive"),
    yield_allowed=True,
    preemptible_factor_milli=300,
    rate_micro_per_hour=50 * CREDIT,
)
PYTORCH = ImageFact(uuid4(), "PyTorch 2.9", "12.8", ("lab", "terminal"))
WALLET = uuid4()


def quarter() -> Shape:
    shape = tier_shape("L", offering_vram_mib=A100.vram_mib, host=HOST)
    assert isinstance(shape, Shape)
    return shape


def requester(**changes):
    facts = {
        "user": uuid4(),
        "active": True,
        "group": uuid4(),
        "group_name": "Vision Lab",
        "organisation": uuid4(),
        "group_active": True,
        "role": "member",
    }
    return Requester(**(facts | changes))


def limit(field="max_sessions", value=4, used=0, asked=1, scope="global"):
    return LimitFact(field, value, scope, used, asked)


def facts(**changes) -> Facts:
    ask = changes.pop("ask", None) or Ask(name="vit-ft", group=uuid4(), image=PYTORCH.id, offering=A100.id)
    base = Facts(
        ask=ask,
        requester=requester(),
        offering=A100,
        preset_found=True,
        image=PYTORCH,
        cluster_found=True,
        shape=quarter(),
        shape_refusal=None,
        mounts=(),
        personal_wallet=WALLET,
        limits=(limit(),),
        queue_limits=(limit("max_queued"),),
        rights=Rights(RightFact(0, "global"), RightFact(1, "global"), RightFact(0, "global"), RightFact(1, "global")),
        money=MoneyFact(12_500_000, 12_500_000, 100 * CREDIT, WALLET, ()),
        now=NOW,
    )
    return replace(base, **changes)


def refusal(**changes) -> Verdict:
    found = first_refusal(judge(facts(**changes)))
    assert found is not None, "nothing refused it"
    assert found.remedy, "a refusal says what would change it"
    assert found.detail
    return found


def test_a_good_request_passes_every_gate_and_each_says_why():
    verdicts = judge(facts())
    assert [verdict.gate for verdict in verdicts] == [1, 2, 3, 4, 5, 6]
    assert all(verdict.passed and verdict.detail for verdict in verdicts)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"requester": None}, "not_found"),
        ({"requester": requester(role=None)}, "not_found"),
        ({"requester": requester(group_active=False)}, "not_found"),
        ({"requester": requester(active=False)}, "forbidden"),
        ({"requester": requester(role="guest")}, "forbidden"),
        ({"offering": None}, "not_found"),
        ({"offering": replace(A100, rate_micro_per_hour=None)}, "not_found"),
        ({"image": None}, "not_found"),
        ({"cluster_found": False}, "not_found"),
        ({"image": replace(PYTORCH, cuda="11.8")}, "image_incompatible"),
        ({"image": replace(PYTORCH, cuda=None)}, "image_incompatible"),
    ],
)
def test_references_that_do_not_hold_are_refused_at_gate_1(changes, code):
    found = refusal(**changes)
    assert (found.gate, found.code) == (Gate.REFERENCES, code)


def test_cuda_versions_compare_as_versions():
    needs = replace(A100, min_cuda="12.9")
    assert first_refusal(judge(facts(offering=needs, image=replace(PYTORCH, cuda="12.10")))) is None
    assert refusal(offering=replace(A100, min_cuda="12.10"), image=replace(PYTORCH, cuda="12.9")).code == (
        "image_incompatible"
    )


def test_a_missing_price_refuses_to_launch_and_never_means_free():
    found = refusal(offering=replace(A100, rate_micro_per_hour=None))
    assert "no price" in found.detail


@pytest.mark.parametrize(
    ("vram_mib", "core_percent", "code"),
    [
        (20_390, 25, None),
        (40_779, 25, None),  # just under twice
        (20_390, 50, None),  # just under twice the other way
        (40_780, 25, "asymmetric_shape"),
        (20_390, 52, "asymmetric_shape"),
        (1_023, 2, "never_fits"),
        (1_024, 2, None),
        (81_560, 100, "never_fits"),
        (81_559, 100, None),
    ],
)
def test_shares_of_a_custom_shape_differ_by_at_most_twice(vram_mib, core_percent, code):
    found = custom_shape(
        vram_mib=vram_mib, core_percent=core_percent, cards=0, offering_vram_mib=A100.vram_mib, host=HOST
    )
    if code is None:
        assert isinstance(found, Shape)
        assert found.occupancy == max(Fraction(vram_mib, A100.vram_mib), Fraction(core_percent, 100))
    else:
        assert isinstance(found, Verdict)
        assert refusal(shape=None, shape_refusal=found).code == code


@pytest.mark.parametrize(
    "path",
    [
        "/home/work",
        "/home/work/deep/er",
        "/data/imagenet-1k",
        "/mnt/x_1.y",
        "/workspace",
    ],
)
def test_paths_under_the_four_roots_are_legal(path):
    assert path_fault(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/etc",
        "/home",
        "/home/worker",
        "data/x",
        "/data/../etc",
        "/data/.",
        "/data//x",
        "/data/x/",
        "/data/a b",
        "/data/" + "a" * 65,
        "/data/" + "/".join(["a" * 60] * 5),
        "/data/ümlaut",
    ],
)
def test_other_paths_are_refused_and_told_why(path):
    assert path_fault(path)
    found = refusal(mounts=(mount(path=path),))
    assert (found.gate, found.code) == (Gate.MOUNTS, "mount_path_invalid")


def mount(path="/home/work", mode="rw", **changes):
    fact = MountFact(
        ask=MountAsk(changes.pop("volume", uuid4()), path, mode),
        name="home",
        found=True,
        writable=True,
        single_writer=True,
        cluster=UUID(int=1),
        held_by=None,
        holder_stopping=False,
    )
    return replace(fact, **changes)


@pytest.mark.parametrize(
    ("mounts", "code"),
    [
        ((mount(found=False),), "mount_forbidden"),
        ((mount(writable=False),), "mount_forbidden"),
        ((mount(held_by=uuid4()),), "mount_conflict"),
        ((mount(), mount()), "mount_path_invalid"),
        ((mount(), mount(path="/home/work/inside")), "mount_path_invalid"),
        ((mount(), mount(path="/data/x", cluster=UUID(int=2))), "mount_forbidden"),
    ],
)
def test_mounts_that_cannot_be_are_refused_at_gate_2(mounts, code):
    assert refusal(mounts=mounts).code == code


def test_a_read_only_mount_of_a_volume_shared_read_only_is_fine():
    assert first_refusal(judge(facts(mounts=(mount(mode="ro", writable=False),)))) is None


def test_a_holder_that_is_stopping_is_worth_waiting_for():
    found = refusal(mounts=(mount(held_by=uuid4(), holder_stopping=True),))
    assert found.remedy is not None
    assert "shortly" in found.remedy


@pytest.mark.parametrize("wallet", [uuid4(), UUID(int=0)])
def test_any_wallet_but_ones_own_is_refused_at_gate_3(wallet):
    ask = Ask(name="x", group=uuid4(), image=PYTORCH.id, offering=A100.id, wallet=wallet)
    found = refusal(ask=ask)
    assert (found.gate, found.code) == (Gate.WALLET, "wallet_forbidden")


def test_ones_own_wallet_may_be_named():
    ask = Ask(name="x", group=uuid4(), image=PYTORCH.id, offering=A100.id, wallet=WALLET)
    assert first_refusal(judge(facts(ask=ask))) is None


def test_a_limit_that_is_reached_names_field_limit_use_and_scope():
    found = refusal(limits=(limit(), limit("vram_mib", 40_000, 30_000, 20_389, "group:x")))
    assert (found.gate, found.code) == (Gate.POLICY, "quota_exceeded")
    assert found.facts == {"field": "vram_mib", "limit": 40_000, "used": 30_000, "scope": "group:x", "asked": 20_389}


def test_the_last_one_within_a_limit_passes():
    assert first_refusal(judge(facts(limits=(limit(used=3),)))) is None
    assert refusal(limits=(limit(used=4),)).code == "quota_exceeded"


def test_a_limit_of_nothing_means_none_but_binds_only_what_is_asked():
    assert refusal(limits=(limit("cards", 0, 0, 1),)).code == "quota_exceeded"
    assert first_refusal(judge(facts(limits=(limit("cards", 0, 0, 0),)))) is None


def test_waiting_has_its_own_limit():
    assert not queue_policy(facts(queue_limits=(limit("max_queued", 2, 2),))).passed
    assert queue_policy(facts(queue_limits=(limit("max_queued", 2, 1),))).passed


@pytest.mark.parametrize(
    ("wish", "rights"),
    [
        ({"privileged": True}, {}),
        ({"privileged": True}, {"privileged": RightFact(1, "group:x")}),  # never with a GPU
        ({"preemptible": True}, {"preemptible": RightFact(0, "group:x")}),
        ({"priority": 1}, {}),
        ({"priority": 6}, {"max_priority": RightFact(5, "user:x")}),
    ],
)
def test_what_only_a_policy_allows_is_refused_without_it(wish, rights):
    base = Rights(RightFact(0, "global"), RightFact(1, "global"), RightFact(0, "global"), RightFact(1, "global"))
    ask = Ask(name="x", group=uuid4(), image=PYTORCH.id, offering=A100.id, **wish)
    found = refusal(ask=ask, rights=replace(base, **rights))
    assert (found.gate, found.code) == (Gate.POLICY, "quota_exceeded")


def budget(limit_credits, spent=0, held=0, mode="block"):
    return BudgetFact(uuid4(), "group:x", limit_credits * CREDIT, spent * CREDIT, held * CREDIT, mode)


def money(available=100, budgets=()):
    return MoneyFact(12_500_000, 12_500_000, available * CREDIT, WALLET, tuple(budgets))


def test_a_blocking_budget_counts_spent_held_and_this_hold():
    assert first_refusal(judge(facts(money=money(budgets=[budget(100, 60, 27)])))) is None
    found = refusal(money=money(budgets=[budget(100, 60, 28)]))
    assert (found.gate, found.code) == (Gate.BUDGET, "budget_exceeded")
    assert found.facts["needed"] == "12.500000"


def test_a_warning_budget_refuses_nothing():
    assert first_refusal(judge(facts(money=money(budgets=[budget(1, 60, 28, "warn")])))) is None


def test_an_empty_wallet_is_refused_with_the_way_to_credits():
    found = refusal(money=money(available=0))
    assert (found.gate, found.code) == (Gate.HOLD, "insufficient_credit")
    assert found.facts == {"needed": "12.500000", "available": "0.000000"}
    assert "Request 12.50 cr" in str(found.remedy)


def test_a_balance_that_is_exactly_the_hold_passes():
    exact = MoneyFact(12_500_000, 12_500_000, 12_500_000, WALLET, ())
    assert first_refusal(judge(facts(money=exact))) is None


def test_a_session_without_a_card_skips_money_altogether():
    cpu = tier_shape(None, offering_vram_mib=0, host=HOST)
    assert isinstance(cpu, Shape)
    ask = Ask(name="prep", group=uuid4(), image=PYTORCH.id)
    verdicts = judge(facts(ask=ask, offering=None, shape=cpu, money=None))
    assert [verdict.gate for verdict in verdicts] == [1, 2, 3, 4]
    assert first_refusal(verdicts) is None


def test_the_first_gate_that_refuses_decides():
    found = refusal(requester=requester(role="guest"), money=money(available=0), limits=(limit(used=9),))
    assert found.gate is Gate.REFERENCES
