"""What the sweep repairs, what it ends, and when it refuses to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise

import pytest
from django.test import Client

from billing.models import Meter
from cluster import queries, services, tokens
from cluster.adapters import port_of_cluster
from cluster.models import Claim, Cluster, Desired
from cluster.port import Observed, Rejected, Unavailable
from gshare_core.contract import DesiredDocument
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from sessions_app import reconciler
from sessions_app.models import Run, Session, TimelineEntry
from sessions_app.services import pause_session, resume_session, stop_session
from sessions_app.sweep import sweep
from tests.apps.sessions.world import a_world, asked, fresh, limit, manual_clock
from tests.builders import a_cluster, a_node, a_super_admin, cr
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(db):
    """Two cards with room for ten small sessions and more."""
    time = manual_clock()
    with clock.using(time):
        found = a_world(time, cards=2)
        for field, value in (
            ("max_sessions", 50),
            ("cpu_milli", 200_000),
            ("memory_mib", 500_000),
            ("scratch_gib", 500),
        ):
            limit("global", field, value)
        yield found


def the_cluster(world):
    return Cluster.objects.get(pk=world.cluster.pk)


def documents():
    return {(row.session_id, row.run): row.spec["desired"] if row.spec else "nothing" for row in Desired.objects.all()}


def many(world, number):
    return [world.run("S") for _number in range(number)]


def as_listed(sessions):
    return [(session, fresh(session).run_number, fresh(session).generation) for session in sessions]


def stopped(world, session):
    """Ended, as far as the rows know."""
    stop_session(asked(world, session))
    world.gone(session)
    world.time.advance(MINUTE)
    return fresh(session)


# What agrees is left alone -------------------------------------------------------------------------------------------


def test_where_everything_agrees_the_sweep_touches_nothing(world):
    sessions = [*many(world, 3), world.create("S"), world.create("cpu")]
    paused = world.run("S")
    pause_session(asked(world, paused))
    before = [(s.pk, s.state, s.version, s.generation) for s in Session.objects.order_by("id")]
    written = list(Desired.objects.order_by("id").values_list("seq", flat=True))
    for _beat in range(5):
        world.time.advance(MINUTE)
        world.beat(*as_listed([*sessions[:3], paused]))
        assert sweep() == 0

    assert [(s.pk, s.state, s.version, s.generation) for s in Session.objects.order_by("id")] == before
    assert list(Desired.objects.order_by("id").values_list("seq", flat=True)) == written
    assert the_cluster(world).sweep_held_at is None


def test_a_control_plane_that_was_away_for_a_day_touches_no_session_that_runs_on(world):
    session = world.run("L")
    world.time.advance(timedelta(days=1))
    assert sweep() == 0, "what was listed yesterday says nothing of now"
    world.beat((session, 1, 1))
    sweep()
    assert (fresh(session).state, fresh(session).run_number, fresh(session).generation) == ("running", 1, 1)


def test_a_silent_cluster_is_left_alone(world):
    world.beat((uuid7(), 1, 1), (stopped(world, world.run("S")), 1, 1))
    Cluster.objects.update(state="suspect")
    assert sweep() == 0
    assert documents() == {}


# What nobody wants ---------------------------------------------------------------------------------------------------


def test_a_pod_that_nobody_wants_is_told_to_end_and_forgotten_at_its_gone(world):
    running, ended = world.run("S"), world.run("S")
    ended = stopped(world, ended)
    world.beat((running, 1, 1), (ended, 1, 2))

    assert sweep() == 1

    assert documents() == {(running.pk, 1): "Running", (ended.pk, 1): "nothing"}
    assert Desired.objects.get(session_id=ended.pk).generation > 2
    assert sweep() == 0
    charged = fresh(ended).charged
    assert not world.report(ended, "gone", "stopped", generation=Desired.objects.get(session_id=ended.pk).generation)
    assert documents() == {(running.pk, 1): "Running"}
    assert (fresh(ended).state, fresh(ended).charged) == ("stopped", charged)
    assert everything_agrees()


def test_a_pod_that_was_gone_after_the_cluster_looked_is_no_stray(world):
    session = world.run("S")
    world.beat((session, 1, 1))
    world.time.advance(timedelta(seconds=1))
    stop_session(asked(world, session))
    world.gone(session)

    assert sweep() == 0
    assert documents() == {}


def test_an_earlier_run_beside_the_wanted_one_is_left_to_the_later_document(world):
    session = world.run("S")
    pause_session(asked(world, session))
    world.gone(session)
    resume_session(asked(world, session))
    world.time.advance(MINUTE)
    world.beat((session, 1, 2), (session, 2, 3))

    sweep()
    assert documents() == {(session.pk, 2): "Running"}


def test_a_session_on_another_cluster_is_ended_where_it_is_not_wanted_only(world):
    session = world.run("S")
    others = many(world, 5)
    other = a_node(a_cluster("other", last_beat_at=world.time.now()), "other-01", cards=[{}])
    world.time.advance(MINUTE)
    world.beat(*as_listed([session, *others]))
    foreign = [(uuid7(), 1, 1) for _number in range(1)]
    world.beat((session, 1, 1), *foreign, node=other)

    sweep()

    assert the_cluster(world).sweep_held_at is None
    assert Cluster.objects.get(name="other").sweep_ends == 2, "neither is known to have been there"
    assert documents()[session.pk, 1] == "Running"


# The brake -----------------------------------------------------------------------------------------------------------


def held(world):
    cluster = the_cluster(world)
    return (cluster.sweep_held_at is not None, cluster.sweep_ends, cluster.sweep_listed)


def test_the_sweep_refuses_when_the_database_knows_nothing_of_what_runs(world):
    world.beat(*[(uuid7(), 1, 1) for _number in range(5)])

    assert sweep() == 0

    assert held(world) == (True, 5, 5)
    assert documents() == {}
    assert queries.refused_sweeps() == {world.cluster.name: 5}


def test_one_unknown_pod_alone_is_refused_too(world):
    world.beat((uuid7(), 1, 1))
    sweep()
    assert held(world) == (True, 1, 1)
    assert documents() == {}


def test_unknown_pods_up_to_a_fifth_are_ended(world):
    sessions, strangers = many(world, 8), [uuid7(), uuid7()]
    world.time.advance(MINUTE)
    world.beat(*as_listed(sessions), *((stranger, 1, 1) for stranger in strangers))

    assert sweep() == 2

    assert held(world) == (False, 0, 0)
    assert {session for (session, _run), word in documents().items() if word == "nothing"} == set(strangers)


def test_more_than_a_fifth_is_refused_and_goes_on_when_the_difference_shrinks(world):
    sessions = many(world, 10)
    ended = [stopped(world, session) for session in sessions[:3]]
    rest = as_listed(sessions[3:])
    strays = [(session, 1, 2) for session in ended]
    world.beat(*rest, *strays)
    assert sweep() == 0
    assert held(world) == (True, 3, 10)

    world.beat(*rest, *strays[:2])
    assert sweep() == 2

    assert held(world) == (False, 0, 0)
    assert [word for word in documents().values() if word == "nothing"] == ["nothing"] * 2


def test_what_is_on_its_way_already_counts_so_that_nothing_dies_in_small_bites(world):
    sessions = many(world, 10)
    ended = [stopped(world, session) for session in sessions[:4]]
    rest = as_listed(sessions[4:])
    world.beat(*rest, *[(session, 1, 2) for session in ended[:2]])
    assert sweep() == 2
    world.beat(*rest, *[(session, 1, 2) for session in ended])

    assert sweep() == 0

    assert held(world) == (True, 4, 10)


def test_one_of_two_whose_end_the_rows_know_is_ordinary(world):
    running, ended = many(world, 2)
    stopped(world, ended)
    world.beat((running, 1, 1), (ended, 1, 2))
    assert sweep() == 1
    assert held(world) == (False, 0, 0)


def test_a_percentage_that_an_administrator_set_counts(world, gshare):
    gshare(sweep_absurd_percent=60)
    sessions = many(world, 4)
    world.time.advance(MINUTE)
    world.beat(*as_listed(sessions), *((uuid7(), 1, 1) for _number in range(5)))
    assert sweep() == 5


def test_a_confirmed_number_is_ended_and_no_more(world):
    root = a_super_admin()
    strangers = [(uuid7(), 1, 1) for _number in range(4)]
    world.beat(*strangers[:3])
    sweep()
    with pytest.raises(DomainError) as refused:
        services.confirm_sweep(by=root, cluster_id=world.cluster.pk, ends=2)
    assert refused.value.code == "conflict"

    services.confirm_sweep(by=root, cluster_id=world.cluster.pk, ends=3)
    world.beat(*strangers)
    assert sweep() == 0, "there are more by now than was confirmed"
    assert held(world) == (True, 4, 4)
    services.confirm_sweep(by=root, cluster_id=world.cluster.pk, ends=4)
    assert sweep() == 4

    assert held(world) == (False, 0, 0)
    feed = queries.desired_after(world.cluster.pk, 0)
    assert [(row.spec, row.confirmed) for row in feed.documents] == [(None, True)] * 4
    assert all(row["confirmed"] for row in feed.to_wire()["documents"])
    assert the_cluster(world).sweep_confirmed == 0, "it is used up"


def test_only_a_super_administrator_confirms_and_it_is_audited(world):
    world.beat((uuid7(), 1, 1))
    sweep()
    with pytest.raises(DomainError) as refused:
        services.confirm_sweep(by=world.alice.user, cluster_id=world.cluster.pk, ends=1)
    assert refused.value.code == "forbidden"
    with pytest.raises(DomainError) as missing:
        services.confirm_sweep(by=a_super_admin(), cluster_id=uuid7(), ends=1)
    assert missing.value.code == "not_found"


def test_what_ends_nothing_goes_on_while_the_sweep_refuses(world):
    session = world.run("L")
    Desired.objects.all().delete()
    world.beat((session, 1, 1), *((uuid7(), 1, 1) for _number in range(5)))

    sweep()

    assert held(world) == (True, 5, 6)
    assert documents() == {(session.pk, 1): "Running"}


@pytest.mark.urls("gshare_site.urls_internal")
def test_an_operator_that_has_seen_more_than_this_database_makes_the_sweep_ask_first(world, signing_keys):
    sessions = many(world, 10)
    ended = stopped(world, sessions[0])
    rest = as_listed(sessions[1:])
    token = tokens.issue(world.cluster, "operator", at=clock.now()).token
    headers = {"Authorization": f"Bearer {token}"}
    assert Client().get("/internal/v1/desired?after=1&wait=0", headers=headers).status_code == 200
    assert the_cluster(world).restored_at is None
    Client().get("/internal/v1/desired?after=1000000&wait=0", headers=headers)
    assert the_cluster(world).restored_at is not None

    world.time.advance(MINUTE)
    world.beat(*rest, (ended, 1, 2))
    assert sweep() == 0
    assert held(world) == (True, 1, 10)
    world.time.advance(MINUTE)
    world.beat(*rest)
    sweep()

    assert held(world) == (False, 0, 0)
    assert the_cluster(world).restored_at is None


# What is lacking -----------------------------------------------------------------------------------------------------


def test_a_document_deleted_by_hand_is_written_again_and_the_run_goes_on(world):
    session = world.run("L")
    Desired.objects.all().delete()
    world.time.advance(MINUTE)
    world.beat((session, 1, 1))

    assert sweep() == 1

    assert documents() == {(session.pk, 1): "Running"}
    again = fresh(session)
    assert (again.state, again.run_number, again.generation) == ("running", 1, 2)
    assert world.ready(again)
    assert everything_agrees()


def test_an_end_deleted_by_hand_is_written_again(world):
    session = world.run("L")
    pause_session(asked(world, session))
    Desired.objects.all().delete()

    assert sweep() == 1

    assert documents() == {(session.pk, 1): "Paused"}
    assert world.gone(fresh(session))
    assert fresh(session).state == "paused"
    assert everything_agrees()


def test_the_end_of_an_orphaned_run_deleted_by_hand_is_written_again(world):
    session = world.run("L")
    pause_session(asked(world, session))
    for _forced_then_ended in range(2):
        world.time.advance(4 * MINUTE)
        reconciler.reconcile()
    Desired.objects.all().delete()
    world.beat()
    assert Claim.objects.filter(state="orphaned").count() == 1

    sweep()

    assert documents() == {(session.pk, 1): "nothing"}
    assert world.report(fresh(session), "gone", "stopped", generation=Desired.objects.get().generation)
    assert documents() == {}
    assert not Claim.objects.holding().exists()
    assert everything_agrees()


def test_a_document_that_keeps_alive_what_nobody_wants_is_ended(world):
    session = world.run("L")
    document = Desired.objects.get()
    stopped(world, session)
    document.pk, document.seq = uuid7(), 1_000
    document.save(force_insert=True)
    world.beat()

    assert sweep() == 1
    assert documents() == {(session.pk, 1): "nothing"}


def test_a_gone_that_was_lost_for_ever_is_asked_for_again(world):
    session = world.run("L")
    world.pass_time(10 * MINUTE, session)
    for _silence in range(2):
        world.time.advance(MINUTE)
        world.beat()
        sweep()
    assert fresh(session).state == "running"
    asked_for = fresh(session).generation
    assert asked_for > 1
    assert Desired.objects.get().generation == asked_for

    # The operator answers every newly observed generation with what it knows.
    run = Run.objects.get(session=session)
    assert world.report(session, "gone", "evicted", generation=asked_for, last_alive_at=run.last_alive_at)

    assert (fresh(session).state, fresh(session).reason) == ("paused", "evicted")
    assert fresh(session).charged == cr("12.5") * 10 // 60
    assert everything_agrees()


def test_each_further_question_steps_further_so_that_rows_older_than_the_operator_catch_up(world):
    session = world.run("L")
    seen = []
    for _silence in range(6):
        world.time.advance(2 * MINUTE)
        world.beat()
        sweep()
        seen.append(fresh(session).generation)
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert steps == sorted(steps)
    assert seen[-1] >= 16, seen


@pytest.mark.parametrize("why", ["unreadable rows", "a node that is not ready", "a young document"])
def test_an_absence_that_means_nothing_asks_nothing(world, why):
    session = world.run("L")
    if why != "a young document":
        world.time.advance(5 * MINUTE)
    parts = {"sessions": [{"id": "unreadable"}]} if why == "unreadable rows" else {}
    world.beat(ready=why != "a node that is not ready", **parts)

    sweep()
    assert fresh(session).generation == 1


def test_a_lost_run_whose_gone_was_lost_with_it_comes_to_an_end(world):
    session = world.run("L")
    Cluster.objects.update(state="lost")
    reconciler.reconcile()
    assert fresh(session).state == "lost"
    world.time.advance(5 * MINUTE)
    world.beat()
    sweep()

    assert world.report(session, "gone", "node_lost", generation=fresh(session).generation)
    assert (fresh(session).state, fresh(session).reason) == ("paused", "node_lost")
    assert everything_agrees()


# Rows from a backup --------------------------------------------------------------------------------------------------


def backup(session):
    return {field.attname: getattr(session, field.attname) for field in Session._meta.concrete_fields}


def restore(row):
    Session.objects.filter(pk=row["id"]).update(**{name: value for name, value in row.items() if name != "id"})


def test_a_row_of_before_the_pause_ends_paused_and_is_billed_once(world):
    session = world.run("L")
    row = backup(session)
    world.pass_time(10 * MINUTE, session)
    pause_session(asked(world, session))
    world.gone(session)
    restore(row)
    assert fresh(session).state == "running"

    assert sweep() >= 1

    mended = fresh(session)
    assert mended.state == "paused"
    assert sum(Meter.objects.values_list("charged", flat=True)) == cr("12.5") * 10 // 60
    world.time.advance(MINUTE)
    assert sweep() == 0
    assert resume_session(asked(world, mended)).state == "starting"
    assert fresh(session).run_number == 2


def test_a_row_of_before_the_resume_ends_the_later_run_settled_once_and_can_be_resumed(world):
    session = world.run("L")
    pause_session(asked(world, session))
    world.gone(session)
    row = backup(fresh(session))
    resume_session(asked(world, session))
    world.ready(fresh(session))
    world.pass_time(20 * MINUTE, fresh(session))
    told = fresh(session).generation
    restore(row)
    assert (fresh(session).state, fresh(session).run_number) == ("paused", 1)
    world.beat((session, 2, told))

    sweep()

    second = Run.objects.get(session=session, number=2)
    assert second.closed_at is not None
    assert Claim.objects.get(run_id=second.pk).state == "orphaned"
    assert documents() == {(session.pk, 2): "nothing"}
    assert world.report(session, "gone", "stopped", run=2, generation=Desired.objects.get().generation)
    assert not Claim.objects.holding().exists()
    assert fresh(session).charged == cr("12.5") * 20 // 60 == sum(Meter.objects.values_list("charged", flat=True))
    resume_session(asked(world, session))
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 3)
    assert documents() == {(session.pk, 3): "Running"}


def test_a_gone_that_comes_before_the_sweep_settles_the_later_run_too(world):
    session = world.run("L")
    pause_session(asked(world, session))
    world.gone(session)
    row = backup(fresh(session))
    resume_session(asked(world, session))
    world.ready(fresh(session))
    world.pass_time(20 * MINUTE, fresh(session))
    restore(row)

    assert world.report(session, "gone", "evicted", run=2)

    assert Run.objects.get(session=session, number=2).closed_at is not None
    assert fresh(session).charged == cr("12.5") * 20 // 60
    assert TimelineEntry.objects.filter(session=session, run=2).exclude(charged=0).count() == 1
    assert not Claim.objects.holding().exists()
    assert documents() == {}
    assert sweep() == 0


def test_a_generation_behind_the_operators_is_caught_up_with(world):
    session = world.run("L")
    world.time.advance(MINUTE)
    world.beat((session, 1, 9))

    sweep()

    assert fresh(session).generation == 10
    assert Desired.objects.get().generation == 10
    assert fresh(session).state == "running"


def older_than_its_cluster(world):
    """A database restored to before run 2 began, which runs on: the rows know of run 1 only, and believe that it runs."""
    session, others = world.run("L"), many(world, 3)
    world.pass_time(10 * MINUTE, session)
    world.beat((session, 2, 5), *as_listed(others))
    return session


def test_rows_older_than_their_cluster_end_nothing_unasked(world):
    session = older_than_its_cluster(world)
    assert sweep() == 0
    assert held(world) == (True, 1, 4)
    assert fresh(session).state == "running"


def test_once_confirmed_the_later_run_is_ended_the_earlier_settled_and_the_next_numbered_above(world):
    session = older_than_its_cluster(world)
    sweep()
    services.confirm_sweep(by=a_super_admin(), cluster_id=world.cluster.pk, ends=1)

    assert sweep() == 1

    assert fresh(session).state == "paused"
    assert documents()[session.pk, 2] == "nothing"
    assert fresh(session).charged == cr("12.5") * 10 // 60
    assert not world.report(session, "gone", "stopped", run=2, generation=6)
    assert (session.pk, 2) not in documents()
    assert everything_agrees()
    resume_session(asked(world, session))
    assert (fresh(session).state, fresh(session).run_number) == ("starting", 3)
    assert everything_agrees()


def test_a_gone_of_a_run_that_the_rows_do_not_know_numbers_the_next_above_it(world):
    session = world.run("L")
    world.pass_time(10 * MINUTE, session)

    assert not world.report(session, "gone", "evicted", run=4)

    assert fresh(session).state == "paused"
    resume_session(asked(world, session))
    assert fresh(session).run_number == 5
    assert everything_agrees()


@pytest.mark.urls("sessions_app.api.internal_urls")
def test_the_end_of_a_session_that_the_database_does_not_know_is_acknowledged(world, signing_keys):
    stranger = uuid7()
    world.beat((stranger, 3, 7))
    sweep()
    headers = {"Authorization": f"Bearer {tokens.issue(world.cluster, 'operator', at=clock.now()).token}"}

    def gone():
        now = world.time.now().isoformat()
        body = {"run": 3, "generation": 8, "sequence": 1, "phase": "gone", "reason": "stopped", "observed_at": now}
        path = f"/internal/v1/sessions/{stranger}/status"
        return Client().post(path, body | {"sent_at": now}, content_type="application/json", headers=headers)

    assert gone().status_code == 403, "as long as its end is nobody's wish"
    services.confirm_sweep(by=a_super_admin(), cluster_id=world.cluster.pk, ends=1)
    sweep()
    assert documents() == {(stranger, 3): "nothing"}

    assert gone().status_code == 204

    assert documents() == {}


# The port ------------------------------------------------------------------------------------------------------------


class Remote:
    """A cluster whose documents are kept elsewhere, as behind an API."""

    def __init__(self):
        self.documents: dict = {}
        self.away = False

    def apply(self, document: DesiredDocument) -> None:
        self.documents[document.session] = document

    def remove(self, session) -> None:
        self.documents.pop(session, None)

    def observe(self) -> Sequence[Observed]:
        if self.away:
            raise Unavailable("nobody answers")
        return [
            Observed(
                key, row.spec.run if row.spec else row.run, row.spec.generation if row.spec else 1, row.spec is None
            )
            for key, row in self.documents.items()
        ]

    def logs(self, session, run, *, lines):
        return ""


def test_documents_that_the_cluster_lacks_are_applied_and_those_of_the_gone_removed(world):
    remote, session = Remote(), world.run("L")
    sweep(lambda _cluster: remote)
    assert [(key, row.spec.run) for key, row in remote.documents.items()] == [(session.pk, 1)]
    pause_session(asked(world, session))
    sweep(lambda _cluster: remote)
    assert remote.documents[session.pk].spec.desired == "Paused"

    world.gone(session)
    world.time.advance(MINUTE)
    world.beat()
    sweep(lambda _cluster: remote)

    assert remote.documents == {}


class Choosy(Remote):
    """A cluster that refuses one session's documents."""

    def __init__(self, refused):
        super().__init__()
        self.refused = refused

    def apply(self, document: DesiredDocument) -> None:
        if document.session == self.refused:
            raise Rejected("spec.image: unknown")
        super().apply(document)


def test_a_document_that_a_cluster_refuses_stops_none_of_its_neighbours(world):
    refused, *others = many(world, 3)
    choosy = Choosy(refused.pk)

    sweep(lambda _cluster: choosy)

    assert set(choosy.documents) == {session.pk for session in others}


def test_a_cluster_that_does_not_answer_holds_up_no_other(world):
    away, session = Remote(), world.run("L")
    away.away = True
    other = a_cluster("aa-other", last_beat_at=world.time.now())
    Desired.objects.all().delete()

    sweep(lambda cluster: away if cluster == other.pk else port_of_cluster(cluster))
    assert documents() == {(session.pk, 1): "Running"}


def test_reports_are_taken_as_before(world):
    """A sweep between any two words of a life changes nothing of it."""
    session = world.create("L")
    sweep()
    world.ready(session)
    sweep()
    world.pass_time(10 * MINUTE, session)
    pause_session(asked(world, session))
    sweep()
    assert world.gone(session)
    sweep()
    assert fresh(session).state == "paused"
    assert fresh(session).charged == cr("12.5") * 10 // 60
    assert everything_agrees()
