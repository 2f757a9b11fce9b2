"""As root each local session is a user of its own: it reaches its own folders and nothing of its neighbours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from cluster.operator.state import Pod
from cluster.operator.substrates.local.users import (
    POD_NUMBERS,
    SessionUsers,
    SessionUsersError,
    free_number,
    separate_users,
)
from gshare_core.contract import Mount
from tests.unit.operator.build import spec
from tests.unit.operator.local import Cluster, StandIn, order, short_folder, stand_in

SYSTEM_PYTHON = Path("/usr/bin/python3")
OTHER = UUID("0197f3c2-a1b2-7c4e-9d10-000000000001")

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or not SYSTEM_PYTHON.exists(), reason="NOT TESTED: needs root and /usr/bin/python3"
)


@pytest.fixture
def users(folder: Path) -> Cluster:
    """A local cluster with a user per session."""
    app = StandIn(stand_in(folder, str(SYSTEM_PYTHON)))
    return Cluster(folder, {"lab": app}, separate_users=True)


def mount(*, read_only: bool = False, access_mode: str = "ReadWriteOnce") -> Mount:
    return Mount.model_validate(
        {
            "claim": "vol-shared",
            "mountPath": "/home/work",
            "readOnly": read_only,
            "sizeGib": 1,
            "accessMode": access_mode,
        }
    )


def facts(pod: Pod) -> dict[str, object]:
    return dict(json.loads(order(pod, "lab", "env").text))


async def both(users: Cluster, first: Mount, second: Mount) -> tuple[Pod, Pod]:
    """Two sessions that mount the same claim."""
    one = await users.ready(spec(volumes=(first,)))
    two = await users.ready(spec(session=OTHER, volumes=(second,)))
    return one, two


@as_root
async def test_sessions_are_users_of_their_own_without_groups_of_the_operator(users: Cluster) -> None:
    one, two = await both(users, mount(), Mount(claim="vol-mine", mount_path="/home/work", size_gib=1))
    first, second = facts(one), facts(two)
    assert first["uid"] != second["uid"]
    assert {first["uid"], second["uid"]} <= set(POD_NUMBERS)
    assert 0 not in first["groups"]  # type: ignore[operator]


@as_root
async def test_a_sessions_folders_and_sockets_are_closed_to_its_neighbours(users: Cluster) -> None:
    pod = await users.ready(spec())
    sockets = Path(pod.endpoints["lab"].removeprefix("unix:")).parent
    assert sockets.stat().st_mode & 0o777 == 0o700
    assert sockets.stat().st_uid == facts(pod)["uid"]
    assert os.stat(str(facts(pod)["cwd"])).st_mode & 0o007 == 0  # noqa: PTH116
    assert (users.folder / "pods").stat().st_mode & 0o077 == 0


@as_root
async def test_the_writer_of_a_claim_owns_it_while_it_runs_and_the_operator_between_runs(users: Cluster) -> None:
    pod = await users.ready(spec(volumes=(mount(),)))
    assert order(pod, "lab", "write").status_code == 200
    claim = users.folder / "data/volumes/vol-shared"
    assert claim.stat().st_uid == facts(pod)["uid"]
    await users.end()
    assert claim.stat().st_uid == 0
    again = await users.ready(spec(2, 2, volumes=(mount(),)))
    assert order(again, "lab", "read").text.startswith("by ")
    assert order(again, "lab", "write").status_code == 200


@as_root
async def test_a_read_only_mount_can_be_read_and_not_written(users: Cluster) -> None:
    writer, reader = await both(users, mount(), mount(read_only=True))
    order(writer, "lab", "write")
    assert order(reader, "lab", "read").text == f"by {facts(writer)['uid']}"
    with pytest.raises(httpx.HTTPError):
        order(reader, "lab", "write")


@as_root
async def test_a_link_in_a_volume_gives_nothing_of_the_machine_away(users: Cluster, folder: Path) -> None:
    treasure = folder / "treasure"
    treasure.write_text("of root")
    claim = users.folder / "data/volumes/vol-shared"
    claim.mkdir()
    (claim / "link").symlink_to(treasure)
    await users.ready(spec(volumes=(mount(),)))
    assert treasure.stat().st_uid == 0


@as_root
def test_a_private_folder_above_means_no_separate_users_and_a_refusal_where_they_are_required(folder: Path) -> None:
    private = folder / "private"
    (private / "state").mkdir(parents=True)
    private.chmod(0o700)
    assert separate_users(SessionUsers.AUTO, folders=[folder], programs=[SYSTEM_PYTHON])
    assert not separate_users(SessionUsers.AUTO, folders=[private / "state"], programs=[])
    with pytest.raises(SessionUsersError, match="private"):
        separate_users(SessionUsers.REQUIRE, folders=[private / "state"], programs=[])


def test_separate_users_can_be_switched_off() -> None:
    assert not separate_users(SessionUsers.OFF, folders=[], programs=[])


def test_a_number_is_not_given_twice() -> None:
    start = Path("/srv/one")
    first = free_number(POD_NUMBERS, set(), start=start)
    assert free_number(POD_NUMBERS, {first}, start=start) != first


def test_operators_of_one_machine_begin_at_different_numbers_and_find_the_last_free_one() -> None:
    numbers = {free_number(POD_NUMBERS, set(), start=Path(f"/srv/{name}")) for name in range(20)}
    assert len(numbers) > 15
    assert free_number(range(40_000, 40_010), set(range(40_001, 40_010)), start=Path("/srv")) == 40_000


@as_root
async def test_two_operators_with_the_same_session_end_only_their_own_processes(users: Cluster) -> None:
    with short_folder() as elsewhere:
        other = Cluster(elsewhere, {"lab": StandIn(stand_in(elsewhere, str(SYSTEM_PYTHON)))}, separate_users=True)
        await users.ready(spec())
        theirs = await other.ready(spec())
        await users.end()
        assert order(theirs, "lab").status_code == 200
        await other.end()
