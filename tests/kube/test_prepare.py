"""Where the tests' binaries come from: the folder that is named, else the cache under the pins' hash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube import prepare

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "gshare" / "kube"


def programs(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def test_the_cache_is_asked_for_these_very_pins(cache):
    with pytest.raises(
        prepare.NoControlPlane, match=r"no kube-apiserver, kube-scheduler, etcd in .*make kube builds it"
    ):
        prepare.binaries()

    programs(cache / prepare.pins_key(), *prepare.PROGRAMS)

    assert prepare.binaries() == cache / prepare.pins_key()


def test_a_named_folder_wins_and_says_what_it_lacks(cache, tmp_path, monkeypatch):
    programs(cache / prepare.pins_key(), *prepare.PROGRAMS)
    given = tmp_path / "given"
    programs(given, "kube-apiserver", "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(given))

    with pytest.raises(prepare.NoControlPlane, match=r"no kube-scheduler in .*given"):
        prepare.build()
    programs(given, "kube-scheduler")

    assert prepare.build() == prepare.binaries() == given


def test_what_is_built_already_needs_no_compiler(cache, monkeypatch, tmp_path):
    folder = cache / prepare.pins_key()
    programs(folder, *prepare.PROGRAMS)
    for name in prepare.PROGRAMS:
        (folder / f".{name}.key").write_text(f"{prepare.pins_key()}\n")
    programs(tmp_path / "bin", "go")  # it is there and can nothing
    (tmp_path / "bin" / "go").write_text("#!/bin/sh\necho go version go1.99.1 linux/amd64\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    old = [cache / f"{number:016x}" for number in range(4)]
    for path in old:
        programs(path, "etcd")
        os.utime(path, (1, 1))

    assert prepare.build() == folder
    assert sum(path.exists() for path in old) == prepare.KEPT_FOLDERS - 1


@pytest.mark.parametrize(
    ("said", "is_new_enough"),
    [
        ("go1.26.0", True),
        ("go1.26.8", True),
        ("go1.27rc1", True),
        ("go2.0.1", True),
        ("go1.25.9", False),
        ("nothing", False),
    ],
)
def test_a_compiler_is_taken_when_it_is_new_enough(tmp_path, said, is_new_enough):
    programs(tmp_path, "go")
    (tmp_path / "go").write_text(f"#!/bin/sh\necho go version {said} linux/amd64\n")

    assert prepare._is_new_enough(str(tmp_path / "go")) is is_new_enough
    assert prepare._is_new_enough(None) is False


def test_where_it_is_required_nothing_is_skipped_for_want_of_it_in_workers_either(tmp_path):
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(tmp_path), "GSHARE_TEST_REQUIRE_KUBE": "1"}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_ADDOPTS"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "tests/kube/test_control_plane.py"]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "required here" in done.stdout
    assert "skipped" not in done.stdout
