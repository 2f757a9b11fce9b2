"""Sessions, their runs, the line they wait in, and what happened to them.

Guarantees by constraint: a run's number is unique in its session and at most one run is open; a session waits at most
once; usage never falls below zero; what ended did not end before it began. The timeline is insert-only for the
application's role. References to billing, cluster and catalogue rows point down the import arrow.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from gshare_core.kit.fields import Identified, MicroField
from sessions_app.domain.lifecycle import COUNTING, LIVE, OCCUPYING, Ending, State, allowed_verbs


class SessionQuerySet(models.QuerySet["Session"]):
    """Filters that more than one place uses."""

    def live(self) -> SessionQuerySet:
        """Not stopped and not failed."""
        return self.filter(state__in=LIVE)

    def counting(self) -> SessionQuerySet:
        """Those that the limits of running count."""
        return self.filter(state__in=COUNTING)

    def occupying(self) -> SessionQuerySet:
        """Those that may hold a card."""
        return self.filter(state__in=OCCUPYING)


class Mode(models.TextChoices):
    FRACTIONAL = "fractional"
    EXCLUSIVE = "exclusive"
    CPU = "cpu"


class PauseMode(models.TextChoices):
    COLD = "cold"
    YIELD = "yield"


class Session(Identified):
    """An interactive environment that somebody asked for. Its shape is frozen at create; its price per run."""

    name = models.CharField(max_length=63)
    owner = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    group = models.ForeignKey("accounts.Group", on_delete=models.PROTECT, related_name="+")
    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.PROTECT, related_name="+")

    mode = models.CharField(max_length=10, choices=Mode)
    offering = models.ForeignKey("catalog.Offering", on_delete=models.PROTECT, null=True, related_name="+")
    preset = models.ForeignKey("catalog.Preset", on_delete=models.PROTECT, null=True, related_name="+")
    image = models.ForeignKey("catalog.Image", on_delete=models.PROTECT, related_name="+")
    tier = models.CharField(max_length=10, blank=True)
    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    scratch_gib = models.PositiveIntegerField()
    cards = models.PositiveSmallIntegerField(default=0)
    vram_mib = models.PositiveIntegerField(default=0)  # per card
    core_milli = models.PositiveIntegerField(default=0)  # per card
    core_percent = models.PositiveSmallIntegerField(default=0)  # per card, as the pod asks it
    occupancy_numerator = models.BigIntegerField(default=0)
    occupancy_denominator = models.BigIntegerField(default=1)
    mounts = models.JSONField(default=list)  # [{"volume", "path", "mode"}]

    cluster = models.ForeignKey("cluster.Cluster", on_delete=models.PROTECT, null=True, related_name="+")
    priority = models.SmallIntegerField(default=0)
    priority_granted = models.BooleanField(default=False)  # above the policy, by a super administrator, for this wait
    preemptible = models.BooleanField(default=False)
    privileged = models.BooleanField(default=False)
    pause_mode = models.CharField(max_length=5, choices=PauseMode, default=PauseMode.COLD)
    auto_resume = models.BooleanField(default=False)

    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in State])
    reason = models.CharField(max_length=32, blank=True)
    detail = models.TextField(blank=True)
    state_since = models.DateTimeField()
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    run_number = models.PositiveIntegerField(default=0)
    run_floor = models.PositiveIntegerField(default=0)  # the highest run that a cluster has seen and the rows have not
    generation = models.PositiveIntegerField(default=0)
    wanted = models.CharField(max_length=8, default="Stopped")  # the desired document's word
    forced = models.BooleanField(default=False)
    ending = models.CharField(max_length=8, blank=True, choices=[(e.value, e.value) for e in Ending])
    deadline_at = models.DateTimeField(null=True)
    resume_at = models.DateTimeField(null=True)  # paused, and tried again by itself from then on
    woken_at = models.DateTimeField(null=True)  # when it was last resumed by itself
    resume_wanted = models.BooleanField(default=False)
    resumed = models.BooleanField(default=False)  # waits as one that was paused before
    restarting = models.BooleanField(default=False)
    misplaced = models.BooleanField(default=False)
    paused_by_owner = models.BooleanField(default=False)
    failed_starts = models.PositiveSmallIntegerField(default=0)
    vanished_at = models.DateTimeField(null=True)
    kept_alive_at = models.DateTimeField(null=True)
    kept_alive_until = models.DateTimeField(null=True)
    line_at = models.DateTimeField(null=True)  # the place in line of the first admission
    running_us = models.BigIntegerField(default=0)  # of runs that ended
    running_us_at_admission = models.BigIntegerField(default=0)  # `running_us` at the last create or resume
    charged = MicroField(default=0)  # of runs that ended

    objects = SessionQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(name="session_state_known", condition=Q(state__in=[s.value for s in State])),
            models.CheckConstraint(
                name="session_ended_after_created", condition=Q(ended_at=None) | Q(ended_at__gte=F("created_at"))
            ),
            models.CheckConstraint(
                name="session_occupancy_positive",
                condition=Q(occupancy_numerator__gte=0) & Q(occupancy_denominator__gt=0),
            ),
            models.CheckConstraint(
                name="session_cpu_has_no_card",
                condition=(Q(mode="cpu") & Q(cards=0) & Q(offering=None)) | (~Q(mode="cpu") & Q(cards__gte=1)),
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["owner", "-created_at", "-id"], name="session_of_owner"),
            models.Index(fields=["group", "-created_at", "-id"], name="session_of_group"),
            models.Index(fields=["organisation", "-created_at", "-id"], name="session_of_organisation"),
            models.Index(fields=["-created_at", "-id"], name="session_newest"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="session_name_words"),
            models.Index(fields=["deadline_at", "id"], name="session_deadline", condition=~Q(deadline_at=None)),
            models.Index(fields=["id"], name="session_live", condition=Q(state__in=[s.value for s in LIVE])),
            models.Index(fields=["resume_at", "id"], name="session_resume_at", condition=~Q(resume_at=None)),
            models.Index(fields=["id"], name="session_resume_wanted", condition=Q(resume_wanted=True)),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def occupancy(self) -> Fraction:
        """Share of a card per card, times cards; exact."""
        return Fraction(self.occupancy_numerator, self.occupancy_denominator)

    @property
    def life(self) -> State:
        """The state as the table's word."""
        return State(self.state)

    @property
    def allowed(self) -> list[str]:
        """The verbs that this session can be asked now."""
        return allowed_verbs(self.life, resumed=self.resumed, wakes=self.resume_at is not None)


class Run(Identified):
    """One stretch of a session, from its admission to the day its resources came back. Price and shape are frozen."""

    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="runs")
    number = models.PositiveIntegerField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    placed_at = models.DateTimeField(null=True)

    rate_micro_per_hour = MicroField(default=0)
    factor_milli = models.PositiveSmallIntegerField(default=1000)
    hold_micro = MicroField(default=0)
    charged = MicroField(default=0)  # as the timeline has told it so far

    cluster = models.ForeignKey("cluster.Cluster", on_delete=models.PROTECT, null=True, related_name="+")
    node = models.CharField(max_length=253, blank=True)
    card_uuids = models.JSONField(default=list)
    pod = models.CharField(max_length=253, blank=True)
    endpoints = models.JSONField(default=dict)

    phase = models.CharField(max_length=16, blank=True)
    message = models.TextField(blank=True)
    reported_generation = models.PositiveIntegerField(default=0)
    reported_sequence = models.BigIntegerField(default=0)
    ready_at = models.DateTimeField(null=True)
    last_alive_at = models.DateTimeField(null=True)
    pulling_since = models.DateTimeField(null=True)
    end_asked_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "number"], name="run_number_once"),
            models.UniqueConstraint(fields=["session"], condition=Q(closed_at=None), name="run_one_open"),
            models.CheckConstraint(
                name="run_closed_after_opened", condition=Q(closed_at=None) | Q(closed_at__gte=F("opened_at"))
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "id"], name="run_open_of_cluster", condition=Q(closed_at=None)),
            models.Index(fields=["opened_at"], name="run_opened"),
        ]

    def __str__(self) -> str:
        return f"run {self.number}"


class RunActivity(models.Model):
    """What was heard of a run's use, and what it came to: whether it is idle, when it will be paused, what was announced.

    `memory` is `domain.idle.Memory` as JSON. Written by inventories (the signals) and by the judging tick (the rest).
    """

    run = models.OneToOneField(Run, on_delete=models.PROTECT, primary_key=True, related_name="activity")
    sampled_at = models.DateTimeField(null=True)
    memory = models.JSONField(default=dict)

    judged_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=8, default="unknown")
    timeout_min = models.PositiveIntegerField(null=True)
    idle_since = models.DateTimeField(null=True)
    pause_at = models.DateTimeField(null=True)
    evidence = models.JSONField(default=dict)
    idle_told = models.JSONField(default=dict)  # what was announced: `domain.countdown.Told`

    runtime_max_min = models.PositiveIntegerField(null=True)
    runtime_ends_at = models.DateTimeField(null=True)
    runtime_told = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="activity_pause_after_idle",
                condition=Q(pause_at=None) | (Q(idle_since__isnull=False) & Q(pause_at__gte=F("idle_since"))),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.state} since {self.idle_since}"


class QueueEntry(models.Model):
    """A session's place in its lane. Order: priority descending, `order_at` (asked at, plus a penalty for use), id.

    `shape` names requests that are alike: what finds no room for one finds none for the others of its lane.
    """

    class Basis(models.TextChoices):
        """What an estimate rests on."""

        MAX_RUNTIME = "max_runtime"  # on runs that must end
        TYPICAL = "typical"  # on how long such runs usually last
        PREEMPTED = "preempted"  # on preempted sessions that give their cards back
        UNKNOWN = "unknown"

    session = models.OneToOneField(Session, on_delete=models.PROTECT, primary_key=True, related_name="waiting")
    lane = models.CharField(max_length=200)
    shape = models.CharField(max_length=120, default="")
    priority = models.SmallIntegerField(default=0)
    enqueued_at = models.DateTimeField()
    order_at = models.DateTimeField()
    reason = models.CharField(max_length=32, default="not_now")
    detail = models.TextField(blank=True)
    missing = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)  # of a gate that refuses it now: which limit, what is used of it
    looked_at = models.DateTimeField(null=True)
    estimate_at = models.DateTimeField(null=True)
    basis = models.CharField(max_length=12, choices=Basis, default=Basis.UNKNOWN)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["lane", "-priority", "order_at", "session"], name="queue_order"),
            models.Index(fields=["lane", "shape", "-priority", "order_at", "session"], name="queue_order_of_shape"),
            # Who is kept by a limit that holds for all of his that are alike: few, and asked for with each place that is told.
            models.Index(
                fields=["lane", "shape"],
                condition=models.Q(reason__in=["budget_exceeded", "quota_exceeded"]),
                name="queue_limited",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.session_id} in {self.lane}"


class LaneTally(models.Model):
    """How many joined and left a lane: the sum of a lane's rows is how many wait in it. Triggers on the line write them.

    Rows are added and never changed, so that nobody waits for anybody to be counted; `line.sum_up` makes one of many.
    """

    id = models.BigAutoField(primary_key=True)
    lane = models.CharField(max_length=200, db_index=True)
    change = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.change:+d} in {self.lane}"


class LaneLook(models.Model):
    """Why the requests of one lane and shape found no room when they were last looked at: one row for all of them."""

    lane = models.CharField(max_length=200)
    shape = models.CharField(max_length=120)
    reason = models.CharField(max_length=32)
    detail = models.TextField(blank=True)
    missing = models.JSONField(default=dict)
    looked_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["lane", "shape"], name="lane_look_once")]

    def __str__(self) -> str:
        return f"{self.shape} in {self.lane}: {self.reason}"


class Preemption(Identified):
    """A session that was chosen to make room for a waiting one; `asked_at` is null until it was asked."""

    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="preemptions")
    requester = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    victim = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="+")
    victim_run = models.PositiveIntegerField()
    chosen_at = models.DateTimeField()
    asked_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "victim", "victim_run"], name="preemption_once"),
            models.CheckConstraint(name="preemption_of_another", condition=~Q(session=F("victim"))),
        ]
        indexes: ClassVar = [
            models.Index(fields=["requester", "asked_at"], name="preemption_lately"),
        ]

    def __str__(self) -> str:
        return f"{self.victim_id} makes room for {self.session_id}"


class RecentUse(models.Model):
    """Card hours of a scope (`user:<id>`, `group:<id>`), each counting half after every half-life, as of a moment.

    One row more (`taken`) says up to when use is taken in.
    """

    scope = models.CharField(max_length=60, primary_key=True)
    hours = models.FloatField(default=0)
    as_of = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="recent_use_not_negative", condition=Q(hours__gte=0))]

    def __str__(self) -> str:
        return f"{self.scope}: {self.hours:.1f} h"


class TimelineEntry(Identified):
    """What happened, who did it and what it cost. Never changed."""

    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="timeline")
    run = models.PositiveIntegerField()
    at = models.DateTimeField()
    event = models.CharField(max_length=24)
    from_state = models.CharField(max_length=10, blank=True)
    to_state = models.CharField(max_length=10, blank=True)
    actor = models.CharField(max_length=254)
    reason = models.CharField(max_length=32, blank=True)
    detail = models.TextField(blank=True)
    charged = MicroField(default=0)
    held = MicroField(default=0)
    billed_from = models.DateTimeField(null=True)
    billed_to = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["session", "at", "id"], name="timeline_of_session")]

    def __str__(self) -> str:
        return f"{self.event} {self.from_state} → {self.to_state}"


class Attempt(Identified):
    """A create or resume that a gate refused; kept 30 days so that somebody can be helped."""

    user = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    group = models.UUIDField(null=True)
    session = models.UUIDField(null=True)
    at = models.DateTimeField()
    gate = models.PositiveSmallIntegerField()
    code = models.CharField(max_length=32)
    detail = models.TextField()
    asked = models.JSONField(default=dict)
    facts = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["user", "-at"], name="attempt_of_user"), models.Index(fields=["at"])]

    def __str__(self) -> str:
        return f"{self.code} at gate {self.gate}"


class Usage(models.Model):
    """How much of a limited field a scope uses; moved by conditional updates only."""

    scope = models.CharField(max_length=120)
    field = models.CharField(max_length=24)
    used = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["scope", "field"], name="usage_once"),
            models.CheckConstraint(name="usage_not_negative", condition=Q(used__gte=0)),
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.field}: {self.used}"


class AccessTicket(models.Model):
    """A one-time link's other half: the hash of its token and whom it lets in where."""

    token_hash = models.CharField(max_length=64, primary_key=True)
    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="+")
    run_number = models.PositiveIntegerField()
    user = models.ForeignKey("accounts.User", on_delete=models.PROTECT, related_name="+")
    app = models.CharField(max_length=16)
    host = models.CharField(max_length=253)
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["expires_at"], name="ticket_expiry")]

    def __str__(self) -> str:
        return f"{self.app} of {self.session_id}"
