"""Claims of volumes that were given up: their folders go, and nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gshare_core.contract import BadRow, DesiredFeed, Mount
from tests.unit.operator.build import spec
from tests.unit.operator.local import Cluster
from tests.waiting import until_async

CLAIM = "vol-0197f3c2"


def mounted() -> Mount:
    return Mount(claim=CLAIM, mount_path="/home/work", size_gib=3)


@pytest.fixture
def volumes(cluster: Cluster) -> Path:
    """The folder of the claims."""
    return cluster.folder / "data/volumes"


@pytest.fixture
def claim(volumes: Path) -> Path:
    """A claim with files in it."""
    folder = volumes / CLAIM
    (folder / "deep").mkdir(parents=True)
    (folder / "deep/file.txt").write_text("kept for long enough")
    (volumes / f".{CLAIM}.json").write_text('{"size_gib": 3}')
    return folder


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def close(claim: Path) -> None:
    """What a session may do to its own folders."""
    (claim / "deep").chmod(0o000)
    claim.chmod(0o500)


async def listed(cluster: Cluster) -> list[str]:
    return [row.claim for row in await cluster.substrate.volumes()]


async def removed(cluster: Cluster) -> None:
    """Ask again until the cluster has the claim no more, as the loop does."""

    async def gone() -> bool:
        await cluster.substrate.remove_volume(CLAIM)
        return CLAIM not in await listed(cluster)

    await until_async(gone, within=10, what="the removal of the claim")


async def test_a_claim_that_was_given_up_leaves_nothing_behind_and_may_be_named_again(
    cluster: Cluster, claim: Path, volumes: Path
) -> None:
    (volumes / "vol-neighbour").mkdir()
    await removed(cluster)
    await cluster.substrate.remove_volume(CLAIM)
    assert names(volumes) == ["vol-neighbour"]


async def test_a_claim_is_out_of_reach_at_once_and_listed_until_nothing_of_it_is_left(
    cluster: Cluster, claim: Path, volumes: Path
) -> None:
    assert await listed(cluster) == [CLAIM]
    await cluster.substrate.remove_volume(CLAIM)
    assert CLAIM not in names(volumes)
    await removed(cluster)
    assert await listed(cluster) == []


async def test_a_removal_that_was_cut_short_is_finished_by_the_next_operator(
    cluster: Cluster, claim: Path, volumes: Path
) -> None:
    os.rename(claim, volumes / f".going-{CLAIM}")  # noqa: PTH104 (killed after this)
    cluster.restart()
    assert await listed(cluster) == [CLAIM]
    await removed(cluster)
    assert names(volumes) == []


async def test_a_claim_that_a_pod_mounts_stays_until_the_pod_is_removed(cluster: Cluster, claim: Path) -> None:
    await cluster.ready(spec(volumes=(mounted(),)))
    await cluster.substrate.remove_volume(CLAIM)
    assert (claim / "deep/file.txt").exists()
    await cluster.end()
    await removed(cluster)


async def test_a_pod_that_cannot_be_read_may_mount_it(cluster: Cluster, claim: Path) -> None:
    await cluster.ready(spec(volumes=(mounted(),)))
    record = next(cluster.folder.glob("pods/*/pod.json"))
    good = record.read_text()
    record.write_text("{")
    cluster.restart()
    await cluster.substrate.remove_volume(CLAIM)
    assert (claim / "deep/file.txt").exists()
    record.write_text(good)


async def test_a_link_in_the_place_of_a_claim_goes_and_what_it_points_to_stays(
    cluster: Cluster, folder: Path, volumes: Path
) -> None:
    treasure = folder / "treasure"
    treasure.mkdir()
    (treasure / "gold").touch()
    (volumes / CLAIM).symlink_to(treasure)
    await cluster.substrate.remove_volume(CLAIM)
    assert (treasure / "gold").exists()
    assert not (volumes / CLAIM).is_symlink()


async def test_links_in_a_claim_are_not_followed(cluster: Cluster, claim: Path, folder: Path) -> None:
    treasure = folder / "treasure"
    treasure.mkdir(mode=0o700)
    (treasure / "gold").touch()
    (claim / "link").symlink_to(treasure)
    (claim / "deep").chmod(0o000)
    await removed(cluster)
    assert (treasure / "gold").exists()
    assert treasure.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["..", ".", "", "vol-/../x", "vol-a/b", "../vol-a", "vol-A", "vol-a\n", "home"])
async def test_what_is_no_claims_name_removes_nothing(cluster: Cluster, claim: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a claim"):
        await cluster.substrate.remove_volume(name)
    assert (claim / "deep/file.txt").exists()
    assert (cluster.folder / "data/sessions").exists()


def test_names_in_the_feed_are_checked_one_by_one() -> None:
    feed, bad = DesiredFeed.read({"seq": 1, "removed_volumes": [CLAIM, "../x", 7, "vol-a\n"]})
    assert feed.removed_volumes == (CLAIM,)
    assert [row.where for row in bad] == [f"removed_volumes[{index}]" for index in (1, 2, 3)]
    assert DesiredFeed.read(feed.to_wire())[0] == feed
    assert DesiredFeed.read({"seq": 1, "removed_volumes": {"a": 1}})[1][0] == BadRow("removed_volumes[0]", bad[1].why)


@pytest.mark.skipif(os.geteuid() == 0, reason="NOT TESTED: root opens every folder")
async def test_a_folder_that_its_session_closed_is_opened_to_be_removed(cluster: Cluster, claim: Path) -> None:
    close(claim)
    await removed(cluster)
