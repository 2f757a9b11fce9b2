"""`python -m gshare_site.benches.act MODULE ACT …`: one act of a bench's rows, in a process of its own.

Such a process serves the throw-away database and its secrets. What the act answers is printed as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys

import django


def main(module: str, act: str, *given: str) -> None:
    """Call the module's function of that name with texts, after Django was set up."""
    django.setup()
    found = importlib.import_module(f"gshare_site.benches.{module}")
    json.dump(getattr(found, act)(*given), sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
