"""`python -m gshare_site.embedded.up [--demo]`, the same as `manage.py up`, without loading Django into the supervisor."""

import argparse
import os
from pathlib import Path

from gshare_site.embedded.stack import Stack, StackError
from gshare_site.environment import ConfigError, default_env_file, load

HELP = "Runs everything on this machine: private PostgreSQL and Valkey, web, worker, beat, a local cluster. Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--demo", action="store_true", help="Also make the demo's people, credits and catalogue.")


def run(*, demo: bool) -> None:
    """Return after a clean end. Raises StackError, ConfigError."""
    config = load(env_file=default_env_file())
    os.chdir(Path(__file__).anchor)
    Stack(config=config, demo=demo, say=lambda text: print(text, flush=True)).run()  # noqa: T201 -- a command's voice


def main() -> None:
    parser = argparse.ArgumentParser(description=HELP)
    add_arguments(parser)
    try:
        run(demo=parser.parse_args().demo)
    except (ConfigError, StackError) as error:
        raise SystemExit(f"gshare: {error}") from error


if __name__ == "__main__":
    main()
