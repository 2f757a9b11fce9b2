"""The message catalogues: collected from the sources, merged, compiled. Babel does the work, so no gettext tools are needed.

Guarantees: `update` finds every string that Python modules and templates translate and keeps all translations that still
apply; nothing is guessed, so no entry is ever fuzzy. `compile_all` writes what Django reads.
Refuses: a catalogue whose placeholders differ from its source (it would break a page in one language only).
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from babel.messages import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "locale"
SOURCES = (
    "accounts", "billing", "catalog", "cluster", "gshare_core", "gshare_site", "sessions_app", "templates",
)  # fmt: skip
LANGUAGES = ("ko",)
KEYWORDS: dict[str, Any] = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop")),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (1, 2)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), ((1, "c"), 2)),
    **dict.fromkeys(("npgettext", "npgettext_lazy"), ((1, "c"), 2, 3)),
}
_PLACEHOLDER = re.compile(r"%\((\w+)\)[#0\- +]*\d*(?:\.\d+)?[sdr]|%%")
_CALL = re.compile(r"(?<!\w)(_|n?p?gettext)\(")
_LITERAL = re.compile(r"""\s*u?("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')\s*,?""")


def extract_templates(
    file: IO[bytes], *_unused: object, **_options: object
) -> Iterator[tuple[int, str, Any, list[str]]]:
    """Babel's extractor for templates, over Django's own reading of them."""
    for number, line in _calls(templatize(file.read().decode())):
        yield number, line[0], line[1], []


def _calls(source: str) -> Iterator[tuple[int, tuple[str, Any]]]:
    for call in _CALL.finditer(source):
        texts, at = [], call.end()
        while literal := _LITERAL.match(source, at):
            texts.append(ast.literal_eval(literal[1]))
            at = literal.end()
        if texts:
            yield source.count("\n", 0, call.start()) + 1, (call[1], tuple(texts) if len(texts) > 1 else texts[0])


def extract() -> Catalog:
    """Everything that the sources translate."""
    found = Catalog(project="GShare", charset="utf-8")
    for file in _files():
        method: Any = extract_templates if file.suffix == ".html" else "python"
        for line, message, _comments, context in extract_from_file(method, file, keywords=KEYWORDS, comment_tags=()):
            plural = isinstance(message, tuple)
            if any(message) if plural else message:
                found.add(message, None, [(file.relative_to(ROOT).as_posix(), line)], context=context)
    return found


def _files() -> list[Path]:
    found = [file for name in SOURCES for kind in ("*.py", "*.html") for file in (ROOT / name).rglob(kind)]
    return sorted(file for file in found if "migrations" not in file.parts)


def path_of(language: str) -> Path:
    """The catalogue's file."""
    return LOCALES / language / "LC_MESSAGES" / "django.po"


def load(language: str) -> Catalog:
    """The catalogue as it stands; an empty one when there is none."""
    file = path_of(language)
    if not file.exists():
        return Catalog(locale=language)
    with file.open("rb") as stream:
        return read_po(stream, locale=language)


def merged(language: str) -> Catalog:
    """The catalogue with exactly the messages of the sources, and the translations it has for them."""
    known, wanted = load(language), extract()
    result = Catalog(locale=language, project="GShare", charset="utf-8", header_comment=f"# GShare, {language}")
    for message in wanted:
        if message.id:
            old = known.get(message.id, message.context)
            result.add(message.id, old.string if old else None, message.locations, context=message.context)
    return result


def written(catalog: Catalog) -> bytes:
    """The text of a catalogue: sorted, without line numbers, so that a change of code changes only what it says."""
    stream = BytesIO()
    write_po(stream, catalog, sort_output=True, include_lineno=False, omit_header=True, width=120)
    head = (
        f'# GShare\nmsgid ""\nmsgstr ""\n"Language: {catalog.locale}\\n"\n"MIME-Version: 1.0\\n"\n'
        '"Content-Type: text/plain; charset=utf-8\\n"\n"Content-Transfer-Encoding: 8bit\\n"\n'
        f'"Plural-Forms: {catalog.plural_forms}\\n"\n\n'
    )
    return head.encode() + stream.getvalue()


def faults(catalog: Catalog) -> list[str]:
    """What is missing or wrong in a catalogue, one line each."""
    wrong = []
    for message in catalog:
        if not message.id:
            continue
        sources = message.id if isinstance(message.id, tuple | list) else (message.id,)
        targets = message.string if isinstance(message.string, tuple | list) else (message.string,)
        if message.fuzzy or not all(targets):
            wrong.append(f"not translated: {sources[0]!r}")
            continue
        allowed = {name for source in sources for name in _placeholders(source)}
        needed = set(_placeholders(sources[-1]))
        wrong += [
            f"placeholders differ: {sources[0]!r} and {target!r}"
            for target in targets
            if not needed <= (have := set(_placeholders(target))) or not have <= allowed
        ]
    return wrong


def _placeholders(text: str | None) -> list[str]:
    return [found[1] or "%" for found in _PLACEHOLDER.finditer(text or "")]


def compile_all() -> None:
    """Write the binary catalogues beside their texts. Raises ValueError when placeholders differ."""
    for language in LANGUAGES:
        catalog = load(language)
        if wrong := [fault for fault in faults(catalog) if fault.startswith("placeholders")]:
            raise ValueError("\n".join(wrong))
        with path_of(language).with_suffix(".mo").open("wb") as stream:
            write_mo(stream, catalog)


def update() -> None:
    """Bring the catalogues in step with the sources."""
    for language in LANGUAGES:
        path_of(language).parent.mkdir(parents=True, exist_ok=True)
        path_of(language).write_bytes(written(merged(language)))


def main(arguments: list[str]) -> int:
    """`update` collects and merges, then names what has no translation; `compile` writes the binary catalogues."""
    if arguments == ["update"]:
        update()
        open_ends = [fault for language in LANGUAGES for fault in faults(load(language))]
        sys.stdout.write("".join(f"{line}\n" for line in open_ends))
        compile_all()
        return 1 if open_ends else 0
    compile_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
