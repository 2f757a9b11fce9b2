"""A run on a MIG instance asks HAMi for what just its profile has: a MiB more, and it would be given the next larger one."""

from __future__ import annotations

import pytest

from gshare_core.ids import uuid7
from tests.kube.documents import a_card_share
from tests.kube.hami_twin.bench import MIG_PROFILES
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import a_card, a_node
from tests.kube.operating import operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import reported, want

SLICED = "GPU-mig"


@pytest.fixture(autouse=True)
def mig_node(kubelet: Kubelet, cluster: str) -> None:
    kubelet.add_node(a_node("gpu-mig", [a_card(SLICED, mode="mig", count=7, migProfiles=MIG_PROFILES)]))


def test_the_pod_asks_for_the_memory_of_the_profile_where_the_tier_is_larger(plane: ControlPlane, cluster: str) -> None:
    memory = {profile["name"]: profile["memoryMB"] for profile in MIG_PROFILES}
    assert memory["1g.10gb"] < 10_194 < memory["2g.20gb"]
    asked = {}
    with operating(plane, cluster) as operator:
        for profile in ("1g.10gb", "2g.20gb"):
            session = uuid7()
            slice_of = {"profile": profile, "start": 0}
            gpu = a_card_share(node="gpu-mig", cards=[SLICED], vramMib=10_194, corePercent=12, mig=slice_of)
            want(plane, cluster, session, gpu=gpu, volumes=[])
            reported(operator, session, "running")
            pod = plane.rest().get(f"/api/v1/namespaces/{cluster}/pods/s-{session.hex}-1")
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            asked[profile] = (limits["nvidia.com/gpumem"], limits["nvidia.com/gpucores"])
            assert pod["metadata"]["annotations"]["nvidia.com/vgpu-mode"] == "mig"
    assert asked == {"1g.10gb": (str(memory["1g.10gb"]), "1"), "2g.20gb": ("10194", "1")}


def test_a_profile_that_the_card_does_not_offer_is_named_and_starts_nothing(plane: ControlPlane, cluster: str) -> None:
    session = uuid7()
    gpu = a_card_share(node="gpu-mig", cards=[SLICED], mig={"profile": "1g.5gb", "start": 0})
    with operating(plane, cluster) as operator:
        want(plane, cluster, session, gpu=gpu, volumes=[])
        reported(operator, session, "failed")
        last = operator.last(session)
        assert last is not None
        assert (last.reason, last.message) == ("claim_mismatch", f"card {SLICED} offers no MIG instance 1g.5gb")
