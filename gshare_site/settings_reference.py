"""The settings as a text for people, made from `config.py` so that it cannot be out of step."""

import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from gshare_site.config import Access, Clusters, Config, Identity, Lifecycle, Line, Money, Place, format_duration

HEAD = """\
# Every setting of GShare with its default. Copy to .env and uncomment what you change; the environment wins over .env.
# `GSHARE_X_FILE=/path` gives the content of a file as GSHARE_X. Durations: 90s, 10m, 24h, 7d. Unknown names stop the start.
# Written by `make env-example` from gshare_site/config.py; change it there.
"""


def sections() -> tuple[type[BaseSettings], ...]:
    return (Place, Identity, Lifecycle, Line, Money, Clusters, Access)


def env_example() -> str:
    """The text of `.env.example`."""
    return HEAD + "".join(_section(section) for section in sections())


def _section(section: type[BaseSettings]) -> str:
    title = (section.__doc__ or "").strip()
    lines = [f"\n# --- {title}\n"]
    for name in section.__annotations__:
        lines += list(_setting(name, Config.model_fields[name]))
    return "".join(lines)


def _setting(name: str, field: FieldInfo) -> Iterator[str]:
    yield "\n"
    for line in textwrap.wrap(field.description or "", width=116):
        yield f"# {line}\n"
    yield f"#GSHARE_{name.upper()}={_spelled(field.get_default() if field.default_factory is None else None)}\n"


def _spelled(value: Any) -> str:
    if value is None or isinstance(value, SecretStr):
        return ""
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
