"""What the resources of a cluster want, read as seldom as may be."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cluster.operator.feed import Wishes
from cluster.operator.substrates.kubernetes.feed import ResourceFeed
from gshare_core.contract import session_name
from gshare_core.contract.resources import session_resource
from tests.unit.operator.build import SESSION, wants


class Resources:
    """A collection that is what the test says."""

    def __init__(self, resource: dict[str, Any]) -> None:
        self.objects = {session_name(SESSION): resource}

    def becomes(self, **metadata: Any) -> dict[str, Any]:
        """Another version of the resource, a new object as a watch brings it."""
        [(name, before)] = self.objects.items()
        after = copy.deepcopy(before)
        after["metadata"] |= metadata
        self.objects = {name: after}
        return after


@pytest.fixture
def resources() -> Resources:
    resource = session_resource(wants())
    resource["metadata"] |= {"uid": "u1", "generation": 1, "resourceVersion": "1"}
    return Resources(resource)


def test_a_version_that_changed_nothing_wanted_is_not_read_again(resources: Resources) -> None:
    wishes, news = Wishes(), list[bool]()
    feed = ResourceFeed(wishes, news.append)
    feed.take(resources)  # type: ignore[arg-type]
    first = wishes.documents[SESSION]
    resources.becomes(resourceVersion="2", finalizers=["gshare.io/operator"])["status"] = {"phase": "Running"}
    feed.take(resources)  # type: ignore[arg-type]
    assert wishes.documents[SESSION] is first
    assert news == [True]


@pytest.mark.parametrize("change", [{"generation": 2}, {"uid": "u2"}, {"deletionTimestamp": "2026-11-30T12:00:00Z"}])
def test_a_version_that_may_want_something_else_is_read(resources: Resources, change: dict[str, Any]) -> None:
    wishes = Wishes()
    feed = ResourceFeed(wishes, lambda _first: None)
    feed.take(resources)  # type: ignore[arg-type]
    other = resources.becomes(resourceVersion="2", **change)
    other["spec"]["desired"], other["spec"]["generation"] = "Stopped", 2
    feed.take(resources)  # type: ignore[arg-type]
    document = wishes.documents[SESSION]
    if "deletionTimestamp" in change:
        assert document.spec is None and document.confirmed
    else:
        assert document.spec is not None and document.spec.desired == "Stopped"
