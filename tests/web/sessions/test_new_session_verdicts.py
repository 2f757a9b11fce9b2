"""The new-session page before the click: what the gates say on every GPU, and about when who queues will start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from sessions_app import estimates
from sessions_app.models import QueueEntry
from tests.apps.sessions.world import World, an_offering, limit
from tests.builders import a_customer, a_node
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db

OTHER = "NVIDIA H100 80GB HBM3"


def rows(client: Client, world: World, tier: str = "M", **changes: str) -> dict[str, dict[str, str]]:
    """The verdicts of the GPU rows by model, and of the summary under "summary"."""
    form = {
        "name": "vit-ft",
        "group": str(world.alice.group.pk),
        "preset": str(world.presets[tier].pk),
        "offering": str(world.offering.pk),
        "image": str(world.image.pk),
    }
    context: Any = client.get("/sessions/new/", form | changes).context
    found = {row["name"]: row["verdict"] for row in context["offerings"]}
    return found | {"summary": context["review"]["verdict"]}


@pytest.fixture
def other(world: World) -> Any:
    """A second GPU with a free card, dearer than the first."""
    a_node(world.cluster, "gpu-02", cards=[{"model": OTHER, "vram_mib": 81_559, "slots": 16}])
    return an_offering(OTHER, rate=10_000)


def test_every_gpu_says_what_the_gates_say_on_it(world: World, alice: Client, other: Any) -> None:
    world.run("M")
    found = rows(alice, world)
    assert found[world.offering.name]["outcome"] == "starts"
    assert found[OTHER]["outcome"] == "refused"  # nobody can pay for it
    assert "credit hold" in found[OTHER]["title"]
    assert "10,000" in found[OTHER]["text"] or "1,250" in found[OTHER]["text"]


@pytest.mark.parametrize("why", ["no credits", "no sessions left", "not a member"])
def test_no_gpu_says_starts_now_while_another_gate_refuses(world: World, why: str) -> None:
    who = a_customer(0 if why == "no credits" else 100, group=world.alice.group)
    if why == "no sessions left":
        limit("user", "max_sessions", 0, target=who.user)
    group = str(a_customer(1).group.pk) if why == "not a member" else str(world.alice.group.pk)
    found = rows(browser(who.user), world, group=group)
    assert found[world.offering.name]["outcome"] == found["summary"]["outcome"] == "refused"
    assert "Starts now" not in {said["title"] for said in found.values()}


def test_who_would_queue_is_told_his_place_and_about_when(world: World, alice: Client) -> None:
    limit("global", "max_runtime_min", 60)
    world.run("exclusive")
    assert rows(alice, world, "exclusive")[world.offering.name] | {"text": ""} == {
        "outcome": "queues",
        "title": "Queues as 1st",
        "text": "",
    }
    waiting = world.create("exclusive")
    assert rows(alice, world, "exclusive")[world.offering.name]["text"] == "time unknown"
    estimates.refresh()
    assert QueueEntry.objects.get(session=waiting).estimate_at > world.time.now() + timedelta(minutes=50)
    found = rows(alice, world, "exclusive")
    assert found[world.offering.name]["title"] == found["summary"]["title"] == "Queues as 2nd"
    assert found[world.offering.name]["text"].startswith("after ")
    assert "after " in found["summary"]["text"]


def test_a_small_request_that_may_pass_who_waits_is_told_that_it_starts(world: World, alice: Client) -> None:
    world.run("XL")
    world.create("exclusive")
    assert rows(alice, world, "S")[world.offering.name]["outcome"] == "starts"
