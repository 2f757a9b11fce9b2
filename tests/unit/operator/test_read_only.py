"""A volume that a session may only read: real processes try to write it, as root's separate users and as one user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from cluster.operator.state import Pod
from cluster.operator.substrates.local import readonly
from cluster.operator.substrates.local.readonly import ReadOnlyMounts, Tools, User
from gshare_core.contract import AccessMode, Mount, Reason
from tests.unit.operator.build import spec
from tests.unit.operator.local import Cluster, StandIn, order, stand_in, tell_and_lose

SYSTEM_PYTHON = Path("/usr/bin/python3")
OTHER = UUID("0197f3c2-a1b2-7c4e-9d10-000000000001")
ORDINARY = 41_234
MODES: tuple[AccessMode, ...] = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany")


def _namespaces(*, separate_users: bool) -> str | None:
    ground = Path("/tmp")  # a folder that everybody may pass
    return ReadOnlyMounts(ground, separate_users=separate_users).obstacle()


is_root = os.geteuid() == 0 and SYSTEM_PYTHON.exists()
as_root = pytest.mark.skipif(not is_root, reason="NOT TESTED: needs root and /usr/bin/python3")
_OBSTACLE = _namespaces(separate_users=False)
with_namespaces = pytest.mark.skipif(_OBSTACLE is not None, reason=f"NOT TESTED: no user namespace: {_OBSTACLE}")


def mount(claim: str = "vol-shared", *, read_only: bool = False, access_mode: AccessMode = "ReadWriteMany") -> Mount:
    return Mount(claim=claim, mount_path="/home/work", size_gib=1, read_only=read_only, access_mode=access_mode)


def a_cluster(folder: Path, *, separate_users: bool, tools: Tools | None = None) -> Cluster:
    python = str(SYSTEM_PYTHON) if separate_users else ""
    app = StandIn(stand_in(folder, python) if python else stand_in(folder))
    return Cluster(folder, {"lab": app}, separate_users=separate_users, tools=tools or Tools())


def without_namespaces(folder: Path) -> Tools:
    """A machine that allows none."""
    program = folder / "unshare"
    program.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    program.chmod(0o755)
    return Tools(str(program), shutil.which("setpriv"))


async def a_writer_then_a_reader(cluster: Cluster, access_mode: AccessMode) -> Pod:
    """A claim with a file in it, its writer gone, and a session that may only read it."""
    writer = await cluster.ready(spec(volumes=(mount(access_mode="ReadWriteMany"),)))
    assert order(writer, "lab", "write").status_code == 200
    await cluster.end()
    return await cluster.ready(spec(session=OTHER, volumes=(mount(read_only=True, access_mode=access_mode),)))


@pytest.mark.parametrize("separate_users", [pytest.param(True, marks=as_root), False])
@pytest.mark.parametrize("access_mode", MODES)
@with_namespaces
async def test_a_reader_reads_and_cannot_write_whatever_it_tries(
    folder: Path, access_mode: AccessMode, separate_users: bool
) -> None:
    cluster = a_cluster(folder, separate_users=separate_users)
    reader = await a_writer_then_a_reader(cluster, access_mode)
    assert order(reader, "lab", "read").text.startswith("by ")
    assert order(reader, "lab", "trespass").json() == []
    claim = folder / "data/volumes/vol-shared"
    assert [entry.name for entry in claim.iterdir()] == ["written.txt"]


@pytest.mark.parametrize("separate_users", [pytest.param(True, marks=as_root), False])
@with_namespaces
async def test_a_writer_beside_the_reader_writes_on_and_the_reader_sees_it(folder: Path, separate_users: bool) -> None:
    cluster = a_cluster(folder, separate_users=separate_users)
    writer = await cluster.ready(spec(volumes=(mount(),)))
    reader = await cluster.ready(spec(session=OTHER, volumes=(mount(read_only=True),)))
    assert order(writer, "lab", "write").status_code == 200
    assert order(reader, "lab", "read").text == order(writer, "lab", "read").text
    assert order(reader, "lab", "trespass").json() == []
    assert len(order(writer, "lab", "trespass").json()) > 4  # what is refused to the reader is what a writer can


@with_namespaces
async def test_a_reader_is_still_one_after_the_operator_came_back_and_its_program_crashed(folder: Path) -> None:
    cluster = a_cluster(folder, separate_users=False)
    reader = await a_writer_then_a_reader(cluster, "ReadWriteMany")
    tell_and_lose(reader, "lab", "crash")
    cluster.restart()
    again = await cluster.until(lambda pod: pod.crashed_at and pod.ready, session=OTHER, what="the program's return")
    assert order(again, "lab", "trespass").json() == []


@with_namespaces
async def test_a_reader_ends_like_every_session(folder: Path) -> None:
    cluster = a_cluster(folder, separate_users=False)
    await cluster.ready(spec(volumes=(mount(read_only=True),)))
    await cluster.end()
    assert cluster.processes() == []
    assert await cluster.pods() == []


async def test_where_nothing_keeps_it_from_writing_a_reader_is_refused_with_the_reason(folder: Path) -> None:
    cluster = a_cluster(folder, separate_users=False, tools=without_namespaces(folder))
    await cluster.start(spec(volumes=(mount(read_only=True),)))
    refused = await cluster.pod()
    assert refused is not None
    assert refused.trouble is not None
    assert refused.trouble.reason is Reason.MOUNT_FAILED
    assert "Operation not permitted" in refused.trouble.message
    assert not refused.alive


async def test_a_machine_without_the_program_says_so(folder: Path) -> None:
    assert ReadOnlyMounts(folder, separate_users=False, tools=Tools(None, None)).obstacle() == (
        "the program unshare is not there"
    )


@as_root
@pytest.mark.parametrize("access_mode", ["ReadWriteOnce", "ReadOnlyMany"])
async def test_without_namespaces_roots_separate_users_read_what_is_closed_to_writing(
    folder: Path, access_mode: AccessMode
) -> None:
    cluster = a_cluster(folder, separate_users=True, tools=without_namespaces(folder))
    reader = await a_writer_then_a_reader(cluster, access_mode)
    assert order(reader, "lab", "read").text.startswith("by ")
    assert order(reader, "lab", "trespass").json() == []


@as_root
async def test_without_namespaces_what_others_write_meanwhile_is_not_mounted_at_all(folder: Path) -> None:
    cluster = a_cluster(folder, separate_users=True, tools=without_namespaces(folder))
    await cluster.start(spec(volumes=(mount(read_only=True),)))
    refused = await cluster.pod()
    assert refused is not None
    assert refused.trouble is not None
    assert refused.trouble.reason is Reason.MOUNT_FAILED


ATTEMPT = """
import importlib.util, json, os, subprocess, sys
from pathlib import Path
found = importlib.util.spec_from_file_location("readonly", sys.argv[1])
readonly = importlib.util.module_from_spec(found)
sys.modules["readonly"] = readonly
found.loader.exec_module(readonly)
ground = Path(sys.argv[2])
claim = ground / "claim"
claim.mkdir()
(claim / "written.txt").write_text("by the owner")
mounts = readonly.ReadOnlyMounts(ground, separate_users=False)
obstacle = mounts.obstacle()
script = 'id -u; cat written.txt; touch mine; touch "$0/mine"; rm -f written.txt; unshare -rm umount "$0"; ls "$0"'
line = mounts.around(["/bin/sh", "-c", script, str(claim)], [claim], claim, readonly.User(None))
ran = subprocess.run(line, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True)
(claim / "afterwards").write_text("the owner still writes")
print(json.dumps([obstacle, ran.stdout]))
"""


@as_root
@with_namespaces
def test_an_ordinary_user_is_kept_from_writing_his_own_files(folder: Path) -> None:
    """The module alone, run by an account without rights: the interpreter of the suite may be out of its reach."""
    module, ground = folder / "readonly.py", folder / "ground"
    shutil.copy(str(readonly.__file__), module)
    module.chmod(0o644)
    ground.mkdir()
    os.chown(ground, ORDINARY, ORDINARY)
    ran = subprocess.run(
        [SYSTEM_PYTHON, "-c", ATTEMPT, module, ground],
        user=ORDINARY,
        group=ORDINARY,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    obstacle, said = json.loads(ran.stdout)
    assert obstacle is None
    assert said == f"{ORDINARY}\nby the ownerwritten.txt\n"


@with_namespaces
def test_what_the_file_system_below_forbids_stays_forbidden(folder: Path) -> None:
    line = ReadOnlyMounts(folder, separate_users=False).around(["true"], [folder], folder, User(None))
    assert "ro" in line[line.index(str(folder)) + 1].split(",")
