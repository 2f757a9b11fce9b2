"""How a node's cards come to be cut another way: asked for, empty, told to the cluster, confirmed by inventory; and each way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest

from accounts.models import AuditEntry
from cluster import heartbeat, mode_changes, queries, services
from cluster.models import Card, Cluster, Deafness, Heartbeat, ModeChange, Node, NodeDrain
from cluster.port import ModeSeen, Rejected, Unavailable
from cluster.services import ModeWish
from gshare_core.contract import ModeChangePhase as Phase
from gshare_core.contract.resources import ModeChange as Wanted
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.apps.cluster.test_inventory import beat, card, node
from tests.builders import a_cluster
from tests.cluster_acts import a_quarter, release, take
from tests.dying import KilledError, every_death_then_again

pytestmark = pytest.mark.django_db

UUIDS = ("GPU-aaaa", "GPU-bbbb")
PROFILES = [{"name": "1g.10gb", "vram_mib": 9728, "core_percent": 15, "placements": [{"start": 0, "size": 1}]}]
MIG = ModeWish("mig", whole_node=True)
SHARED = ModeWish("hami-core", whole_node=True)
GONE_FOR = timedelta(hours=3)


@dataclass
class FakeCluster:
    """The port's promises about mode changes, kept in memory; `says` is what the operator writes."""

    wanted: dict[UUID, Wanted] = field(default_factory=dict)
    said: dict[UUID, ModeSeen] = field(default_factory=dict)
    away: bool = False
    refuses: str = ""
    told: int = 0
    dies_at: int = -1
    calls: int = 0

    def _called(self) -> None:
        self.calls += 1
        if self.away:
            raise Unavailable("it does not answer")

    def _done(self) -> None:
        if self.calls == self.dies_at:
            raise KilledError

    def change_mode(self, change: UUID, wanted: Wanted) -> None:
        self._called()
        if self.refuses:
            raise Rejected(self.refuses)
        assert self.wanted.get(change, wanted) == wanted, "a mode change is never edited"
        self.told += change not in self.wanted
        self.wanted[change] = wanted
        self._done()

    def modes(self) -> Sequence[ModeSeen]:
        self._called()
        self._done()
        return [self.said.get(each, ModeSeen(each, None, "", begun=False)) for each in sorted(self.wanted)]

    def withdraw_mode(self, change: UUID) -> bool:
        self._called()
        if change in self.said and self.said[change].begun:
            return False
        self.wanted.pop(change, None)
        self._done()
        return True

    def forget_mode(self, change: UUID) -> None:
        self._called()
        self.wanted.pop(change, None)
        self._done()

    def says(self, phase: Phase, message: str = "", *, begun: bool = True) -> None:
        """The operator writes this of the one change it has."""
        (change,) = self.wanted
        self.said[change] = ModeSeen(change, phase, message, begun)


@pytest.fixture
def there() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def cluster(there: FakeCluster) -> Cluster:
    made = a_cluster("kube", kind="kube", kubeconfig="kube", state="pending")
    Heartbeat.objects.create(name=heartbeat.INTERNAL, stamped_at=clock.now())
    report(made)
    return made


def report(cluster: Cluster, mode: str = "hami-core", **fields: object) -> None:
    """A beat in which both cards are cut so."""
    profiles = PROFILES if mode == "mig" else []
    cards = [card(uuid, index, mode=mode, mig_profiles=profiles, **fields) for index, uuid in enumerate(UUIDS)]
    beat(cluster, node(cards=cards))


def ask(wish: ModeWish = MIG, uuid: str = UUIDS[0]) -> ModeChange | None:
    return services.change_mode(by=None, card_id=Card.objects.get(uuid=uuid).pk, wish=wish)


def look(there: FakeCluster) -> ModeChange:
    """One pass; the newest change as it is then."""
    mode_changes.look_after(lambda _cluster: there)  # type: ignore[arg-type, return-value]
    return ModeChange.objects.order_by("-pk")[0]


def much_later(change: ModeChange | None) -> None:
    """As if the change had taken its last step hours ago, with everybody listening."""
    assert change is not None
    ago = clock.now() - GONE_FOR
    ModeChange.objects.filter(pk=change.pk).update(asked_at=ago, stepped_at=ago)


def closed() -> set[bool]:
    return set(Card.objects.values_list("is_draining", flat=True))


def refusal(wish: ModeWish = MIG) -> DomainError:
    with pytest.raises(DomainError) as refused:
        ask(wish)
    assert not ModeChange.objects.filter(closed_at=None).exclude(state="failed").exists()
    return refused.value


def is_cordoned() -> bool:
    return Node.objects.get().is_cordoned


# The way ------------------------------------------------------------------------------------------------------------


def test_trap_46_cards_are_cut_when_they_are_empty_and_used_again_when_inventory_shows_it(
    cluster: Cluster, there: FakeCluster
) -> None:
    change = ask()
    assert change is not None
    assert not take(a_quarter()), "nothing is placed on a card that is being cut another way"
    assert (closed(), is_cordoned(), queries.cordoned_nodes(cluster.pk)) == ({True}, True, ["gpu-01"])

    assert look(there).state == "applying"
    assert there.wanted == {change.pk: Wanted(node="gpu-01", card_uuids=UUIDS, target_mode="mig")}
    for phase in (Phase.DRAINING, Phase.APPLYING, Phase.VERIFYING, Phase.DONE):
        there.says(phase, f"it is {phase}", begun=phase is not Phase.DRAINING)
        seen = look(there)
        assert (seen.state, seen.phase, seen.has_begun) == ("applying", phase, phase is not Phase.DRAINING)
    assert closed() == {True}, "the operator's word is not enough"

    report(cluster, "mig")
    assert look(there).state == "done"
    assert (closed(), is_cordoned()) == ({False}, False)
    assert set(Card.objects.values_list("mode", flat=True)) == {"mig"}
    look(there)
    assert (there.wanted, ModeChange.objects.filter(is_written=True).exists()) == ({}, False)
    acts = AuditEntry.objects.filter(act__startswith="card.mode").order_by("at").values_list("act", "target_label")
    assert list(acts) == [("card.mode", "gpu-01"), ("card.mode_done", "gpu-01")]


def test_an_inventory_of_before_the_operators_word_confirms_nothing(cluster: Cluster, there: FakeCluster) -> None:
    ask()
    look(there)
    report(cluster, "mig")
    there.says(Phase.DONE)
    assert look(there).state == "applying"
    report(cluster, "mig", healthy=False)
    assert look(there).state == "applying", "a card that HAMi holds for broken confirms nothing"
    report(cluster, "mig")
    assert look(there).state == "done"


def test_a_card_that_shows_up_meanwhile_is_one_of_them(cluster: Cluster, there: FakeCluster) -> None:
    ask()
    beat(cluster, node(cards=[card("GPU-new", 2), *(card(uuid, at) for at, uuid in enumerate(UUIDS))]))
    assert not take(a_quarter())
    assert closed() == {True}


# Refusals -----------------------------------------------------------------------------------------------------------


def test_cards_in_use_are_refused_with_what_uses_them(cluster: Cluster) -> None:
    run = uuid7()
    assert take(a_quarter(), run_id=run)
    assert take(a_quarter())

    refused = refusal()

    assert (refused.code, refused.facts["sessions"], refused.facts["foreign_pods"]) == ("in_use", 2, 0)
    assert "drain" in str(refused.remedy)
    assert closed() == {False}


def test_pods_of_others_are_counted_and_never_drained(cluster: Cluster) -> None:
    foreign = {"session": None, "vram_mib": 1_000, "core_percent": 5}
    beat(cluster, node(cards=[card(UUIDS[0], bound=[foreign, foreign]), card(UUIDS[1], 1)]))

    refused = refusal(ModeWish("mig", whole_node=True, drain="stop", reason="MIG"))

    assert (refused.code, refused.facts["foreign_pods"]) == ("in_use", 2)


def test_what_cannot_be_is_named(cluster: Cluster) -> None:
    assert refusal(ModeWish("mps")).errors.keys() == {"mode"}
    assert refusal(ModeWish("mig")).errors.keys() == {"whole_node"}
    assert refusal(ModeWish("mig", whole_node=True, drain="burn", reason="x")).errors.keys() == {"drain"}
    assert refusal(ModeWish("mig", whole_node=True, drain="stop")).code == "reason_required"
    Cluster.objects.update(state="suspect")
    assert refusal().code == "unavailable"
    Cluster.objects.update(state="connected")
    beat(cluster, node(cards=[card(UUIDS[0]), card(UUIDS[1], 1, model="Tesla T4", vram_mib=15_360)]))
    refused = refusal()
    assert (refused.code, "Tesla T4" in refused.detail) == ("invalid", True)
    with pytest.raises(DomainError, match="not_found"):
        services.change_mode(by=None, card_id=uuid7(), wish=MIG)


def test_a_local_cluster_says_that_nothing_there_can_cut_cards(cluster: Cluster) -> None:
    Cluster.objects.update(kind="local", kubeconfig="")
    assert refusal().code == "not_implemented"


def test_asking_for_what_is_changes_nothing(cluster: Cluster) -> None:
    assert ask(SHARED) is None
    assert (ModeChange.objects.count(), closed(), is_cordoned()) == (0, {False}, False)


def test_asking_twice_is_asking_once(cluster: Cluster, there: FakeCluster) -> None:
    first, again = ask(), ask(uuid=UUIDS[1])
    look(there)
    third = ask()
    assert first == again == third
    assert ModeChange.objects.count() == 1


# Emptying -----------------------------------------------------------------------------------------------------------


def test_sessions_leave_and_the_cluster_is_told_only_then(cluster: Cluster, there: FakeCluster) -> None:
    run = uuid7()
    assert take(a_quarter(), run_id=run)
    ask(ModeWish("mig", whole_node=True, drain="reschedule", reason="MIG for the course"))
    drain = NodeDrain.objects.get(closed_at=None)
    assert (drain.mode, drain.reason) == ("reschedule", "MIG for the course")

    waiting = look(there)
    assert (waiting.state, waiting.message) == ("draining", "still held by 1 sessions and 0 pods of others")
    assert there.wanted == {}
    assert release(run)
    assert look(there).state == "applying"
    there.says(Phase.DONE)
    look(there)
    report(cluster, "mig")
    assert look(there).state == "done"
    assert (is_cordoned(), NodeDrain.objects.filter(closed_at=None).exists()) == (False, False)


def test_a_node_that_was_cordoned_before_stays_so(cluster: Cluster, there: FakeCluster) -> None:
    services.cordon_node(by=None, node_id=Node.objects.get().pk, cordoned=True)
    ask()
    assert ask(SHARED) is None
    assert (closed(), is_cordoned()) == ({False}, True)


def test_who_cordons_the_node_meanwhile_keeps_it_so_and_nobody_uses_it_before_the_end(cluster: Cluster) -> None:
    node_id = Node.objects.get().pk
    ask()
    with pytest.raises(DomainError, match="conflict"):
        services.cordon_node(by=None, node_id=node_id, cordoned=False)
    services.cordon_node(by=None, node_id=node_id, cordoned=True)
    ask(SHARED)
    assert is_cordoned()


def test_cards_that_do_not_become_empty_fail_the_change_and_stay_closed(cluster: Cluster, there: FakeCluster) -> None:
    assert take(a_quarter())
    change = ask(ModeWish("mig", whole_node=True, drain="stop", reason="MIG"))
    much_later(change)
    failed = look(there)
    assert (failed.state, failed.message) == ("failed", "still held by 1 sessions and 0 pods of others")
    assert closed() == {True}
    assert ask(SHARED) is None
    assert (closed(), is_cordoned()) == ({False}, False)


# Deadlines, and the ways out -----------------------------------------------------------------------------------------


def test_an_operator_that_never_answers_is_asked_no_more_and_the_way_back_is_free(
    cluster: Cluster, there: FakeCluster
) -> None:
    ask()
    much_later(look(there))
    failed = look(there)
    assert (failed.state, failed.message) == ("failed", "the operator did not answer; nothing was changed")
    assert (there.wanted, closed()) == ({}, {True})
    assert ask(SHARED) is None
    assert (closed(), is_cordoned()) == ({False}, False)


def test_nobody_is_late_while_nobody_listened_or_the_cluster_could_not_be_reached(
    cluster: Cluster, there: FakeCluster
) -> None:
    ask()
    much_later(look(there))
    there.away = True
    assert look(there).state == "applying"
    there.away = False
    now = clock.now()
    Deafness.objects.create(since=now - GONE_FOR - timedelta(minutes=1), until=now)
    assert look(there).state == "applying"


def test_what_has_not_begun_is_called_off_and_what_has_is_not(cluster: Cluster, there: FakeCluster) -> None:
    ask()
    look(there)
    there.says(Phase.DRAINING, begun=False)
    change = ask(SHARED)
    assert change is not None
    assert change.calls_off
    assert look(there).state == "called_off"
    assert (there.wanted, closed(), is_cordoned()) == ({}, {False}, False)

    ask()
    look(there)
    ask(SHARED)
    there.says(Phase.APPLYING)  # it begins in the very moment
    assert look(there).state == "applying"
    with pytest.raises(DomainError, match="conflict"):
        ask(SHARED)
    assert closed() == {True}


def test_what_has_begun_and_does_not_end_fails_and_a_late_answer_still_counts(
    cluster: Cluster, there: FakeCluster
) -> None:
    ask()
    look(there)
    there.says(Phase.APPLYING, "waits for the plugin")
    much_later(look(there))
    failed = look(there)
    assert (failed.state, failed.closed_at) == ("failed", None)
    assert failed.message == "the operator did not come to an end in time; waits for the plugin"
    there.says(Phase.DONE)
    look(there)
    report(cluster, "mig")
    assert look(there).state == "done"
    assert closed() == {False}


def test_what_failed_half_way_is_asked_for_anew_or_taken_back_by_the_operator(
    cluster: Cluster, there: FakeCluster
) -> None:
    ask()
    first = look(there)
    there.says(Phase.FAILED, "its plugin does not start")
    failed = look(there)
    assert (failed.state, failed.message, closed()) == ("failed", "its plugin does not start", {True})

    back = ask(SHARED)
    assert back is not None, "how the cards are cut now, nobody knows: the operator has to see to it"
    assert back.has_cordoned, "the node is used again when that is done"
    first.refresh_from_db()
    assert first.closed_at is not None
    look(there)
    assert set(there.wanted) <= {back.pk}, "the cluster forgets the one before it hears of the next"
    assert look(there).state == "applying"
    there.says(Phase.DONE)
    look(there)
    report(cluster)
    assert look(there).state == "done"
    assert (closed(), is_cordoned()) == ({False}, False)


def test_what_the_operator_refused_before_it_began_is_taken_back_at_once(cluster: Cluster, there: FakeCluster) -> None:
    ask()
    look(there)
    there.says(Phase.FAILED, "its plugin runs with mig-strategy mixed", begun=False)
    assert look(there).state == "failed"
    assert ask(SHARED) is None
    assert closed() == {False}
    look(there)
    assert there.wanted == {}


def test_a_refusal_of_the_cluster_is_shown(cluster: Cluster, there: FakeCluster) -> None:
    there.refuses = "403 no rights"
    ask()
    seen = look(there)
    assert (seen.state, seen.message) == ("applying", "the cluster refuses: 403 no rights")


def test_a_node_that_is_forgotten_takes_its_change_along(cluster: Cluster, there: FakeCluster) -> None:
    ask()
    Node.objects.update(retired_at=clock.now())
    lost = look(there)
    assert (lost.state, lost.closed_at is not None) == ("failed", True)


def test_who_tells_the_cluster_late_leaves_nothing_there(cluster: Cluster, there: FakeCluster) -> None:
    """A pass that was overtaken: it tells what another has called off meanwhile."""
    change = ask()
    look(there)
    ask(SHARED)
    look(there)
    stale = ModeChange.objects.select_related("node__cluster").get()
    assert (stale.state, there.wanted) == ("called_off", {})
    mode_changes._tell(stale, there)  # type: ignore[arg-type]
    assert change is not None
    assert set(there.wanted) == {change.pk}
    look(there)
    assert there.wanted == {}
    assert closed() == {False}


# Killed at any point --------------------------------------------------------------------------------------------------


def test_a_request_that_is_killed_leaves_all_or_nothing(cluster: Cluster) -> None:
    def whole() -> None:
        begun = ModeChange.objects.filter(closed_at=None).exists()
        assert (closed(), is_cordoned()) == ({begun}, begun)

    assert every_death_then_again(ask, whole, whole) > 5


def test_a_pass_that_is_killed_before_any_statement_or_after_any_call_is_gone_on_with(
    cluster: Cluster, there: FakeCluster
) -> None:
    def true() -> None:
        change = ModeChange.objects.get()
        assert change.is_written or not there.wanted, "a row knows of it before the cluster does"
        assert closed() == {change.state != "done"}

    def told() -> None:
        assert look(there).state == "applying"
        assert len(there.wanted) == 1
        there.wanted.clear()  # the rows are rolled back to the start now, and so is the cluster

    ask()
    assert every_death_then_again(lambda: look(there), true, told) > 3
    look(there)
    there.says(Phase.DONE)
    look(there)
    report(cluster, "mig")

    def done() -> None:
        look(there)
        assert (ModeChange.objects.get().state, closed()) == ("done", {False})

    assert every_death_then_again(lambda: look(there), true, done) > 5


@pytest.mark.parametrize("dies_at", range(1, 5))
def test_a_pass_that_is_killed_right_after_a_call_does_nothing_twice(
    cluster: Cluster, there: FakeCluster, dies_at: int
) -> None:
    there.dies_at = dies_at
    ask()
    for _pass in range(4):
        try:
            look(there)
        except KilledError:
            continue
    assert (there.told, len(there.wanted)) == (1, 1)
    ask(SHARED)
    there.dies_at = there.calls + dies_at
    for _pass in range(4):
        try:
            look(there)
        except KilledError:
            continue
    assert (ModeChange.objects.get().state, there.wanted, closed()) == ("called_off", {}, {False})
