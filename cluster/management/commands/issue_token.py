"""`manage.py issue_token --cluster NAME`: a first token for a cluster's program, written where it reads it."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from cluster import keys, tokens
from cluster.models import Cluster
from cluster.services import issue_cluster_token


class Command(BaseCommand):
    """Writes JSON (`token`, `cluster`, `cluster_key`) to a file of mode 0600, or prints it when no file is named."""

    help = "Issue a token for one of a cluster's programs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", required=True, help="Name of the cluster.")
        parser.add_argument(
            "--scope", default="operator", choices=sorted(tokens.SCOPES), help="Which program it is for."
        )
        parser.add_argument("--file", type=Path, help="Where the program reads it; replaced as a whole.")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = Cluster.objects.present().filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster named {options['cluster']!r}")
        try:
            issued = issue_cluster_token(by=None, cluster_id=cluster.pk, scope=options["scope"])
        except keys.NoKeyError as error:
            raise CommandError(f"{error}: run manage.py bootstrap first") from error
        if options["file"] is None:
            self.stdout.write(issued.as_json())
            return
        tokens.write_file(options["file"], issued)
        self.stdout.write(
            f"token for {cluster.name} ({options['scope']}), valid until {issued.expires_at:%Y-%m-%d %H:%M}"
        )
