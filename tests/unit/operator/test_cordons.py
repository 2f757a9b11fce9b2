"""Which nodes of Kubernetes are cordoned for the control plane, and which cordons are left alone."""

from __future__ import annotations

import pytest

from cluster.operator.feed import Wishes
from cluster.operator.substrates.kubernetes.cordons import MARK, changes
from gshare_core.contract import DesiredFeed
from tests.kube.rest import JSON

ON = {"metadata": {"annotations": {MARK: "true"}}, "spec": {"unschedulable": True}}
OFF = {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}}


def a_node(*, ours: bool = False, unschedulable: bool = False) -> JSON:
    spec = {"unschedulable": True} if unschedulable else {}
    return {"metadata": {"name": "gpu-01", "annotations": {MARK: "true"} if ours else {}}, "spec": spec}


@pytest.mark.parametrize(
    ("node", "is_wanted", "change"),
    [
        (a_node(), True, ON),
        (a_node(), False, None),
        (a_node(ours=True, unschedulable=True), True, None),
        (a_node(ours=True, unschedulable=True), False, OFF),
        (a_node(ours=True), True, ON),
        (a_node(ours=True), False, OFF),
        (a_node(unschedulable=True), True, None),
        (a_node(unschedulable=True), False, None),
    ],
    ids=["new", "nothing", "stands", "over", "taken back by hand", "mark left", "by hand too", "by hand only"],
)
def test_only_cordons_of_ours_are_made_and_taken_back(node: JSON, is_wanted: bool, change: JSON | None) -> None:
    wanted = frozenset({"gpu-01", "of another cluster"} if is_wanted else ())
    assert list(changes({"gpu-01": node}, wanted)) == ([("gpu-01", change)] if change else [])


def test_what_is_not_said_or_is_no_list_of_names_is_unknown_and_so_is_everything_after_an_outage() -> None:
    def told(**body: object) -> frozenset[str] | None:
        wishes = Wishes()
        wishes.take(DesiredFeed.read({"seq": 1} | body)[0], everything=True)
        return wishes.cordoned_nodes

    assert (told(), told(cordoned_nodes="gpu-01"), told(cordoned_nodes=[])) == (None, None, frozenset())
    assert told(cordoned_nodes=["gpu-01", 7]) == {"gpu-01"}
    wishes = Wishes()
    wishes.take(DesiredFeed(seq=1, cordoned_nodes=("gpu-01",)), everything=True)
    wishes.lose_touch()
    assert wishes.cordoned_nodes is None
