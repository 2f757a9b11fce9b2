"""The front door is described where people look for it."""

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_target_of_the_makefile_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split()) - {"runtime", "browser"}
    described = set(re.findall(r"^([a-z][a-z-]*):.*## ", text, re.MULTILINE))
    assert phony == described


def test_the_readme_leads_with_the_two_commands_and_names_only_targets_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.index("make demo") < readme.index("make test")
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    named = {
        (document.name, target)
        for document in documents
        for target in re.findall(r"`make ([a-z][a-z-]*)", document.read_text(encoding="utf-8"))
    }
    assert sorted((name, target) for name, target in named if target not in targets) == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = [
        f"{document.relative_to(ROOT)} → {link}"
        for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
        if not (document.parent / link).exists()
    ]
    assert broken == []


def test_ci_is_runnable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_every_document_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(docs).as_posix() for path in docs.glob("**/*.md") if path.name != "README.md"]
    assert [page for page in pages if f"]({page})" not in index and not page.startswith("ko/")] == []
