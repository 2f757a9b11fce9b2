"""Imports point one way, and the contracts that say so cover every room."""

import configparser
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def _contract(name: str) -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser[f"importlinter:contract:{name}"]


def test_every_import_keeps_the_contracts() -> None:
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_contract_of_pure_code_names_every_domain_and_every_word_of_the_core() -> None:
    listed = set(_contract("pure")["source_modules"].split())
    domains = {f"{path.parent.name}.domain" for path in ROOT.glob("*/domain") if (path / "__init__.py").exists()}
    core = {
        f"gshare_core.{path.stem}"
        for path in (ROOT / "gshare_core").iterdir()
        if path.name not in ("kit", "__init__.py") and (path.suffix == ".py" or (path / "__init__.py").exists())
    }
    assert listed == domains | core


def test_processes_outside_django_are_under_the_operators_contract() -> None:
    present = {f"cluster.{name}" for name in ("operator", "agent", "yielder") if (ROOT / "cluster" / name).is_dir()}
    assert set(_contract("operator")["source_modules"].split()) == present
