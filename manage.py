#!/usr/bin/env python3
"""Command line of the control plane: `python manage.py help` lists every command.

Guarantees that a configuration fault ends the process with one line that names the variable, not with a traceback.
"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gshare_site.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(f"Django is not installed in {sys.executable} ({error}); run `make setup` first.") from error
    from gshare_site.environment import ConfigError

    try:
        execute_from_command_line(sys.argv)
    except ConfigError as error:
        raise SystemExit(f"gshare: {error}") from error


if __name__ == "__main__":
    main()
