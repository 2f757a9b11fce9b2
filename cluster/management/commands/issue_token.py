"""`manage.py issue_token --cluster NAME`: a first token for a cluster's program, written where it reads it.

On Kubernetes: ``manage.py issue_token --cluster NAME --manifest | kubectl apply -f -``, in the cluster that the program runs in.
"""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import yaml
from django.core.management.base import BaseCommand, CommandError

from cluster import keys, tokens
from cluster.models import Cluster
from cluster.services import issue_cluster_token
from gshare_core.contract import NAMESPACE_SYSTEM


class Command(BaseCommand):
    """Writes JSON (`token`, `cluster`, `cluster_key`) to a file of mode 0600, or prints it, plain or as a Secret."""

    help = "Issue a token for one of a cluster's programs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", required=True, help="Name of the cluster.")
        parser.add_argument(
            "--scope", default="operator", choices=sorted(tokens.SCOPES), help="Which program it is for."
        )
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--file", type=Path, help="Where the program reads it; replaced as a whole.")
        where.add_argument(
            "--manifest", action="store_true", help="Print a Kubernetes Secret that holds it, for kubectl apply -f -."
        )
        parser.add_argument("--namespace", default=NAMESPACE_SYSTEM, help="Where the Secret belongs.")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = Cluster.objects.present().filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster named {options['cluster']!r}")
        try:
            issued = issue_cluster_token(by=None, cluster_id=cluster.pk, scope=options["scope"])
        except keys.NoKeyError as error:
            raise CommandError(f"{error}: run manage.py bootstrap first") from error
        if options["manifest"]:
            self.stdout.write(yaml.safe_dump(tokens.secret_manifest(issued, options["scope"], options["namespace"])))
            return
        if options["file"] is None:
            self.stdout.write(issued.as_json())
            return
        tokens.write_file(options["file"], issued)
        self.stdout.write(
            f"token for {cluster.name} ({options['scope']}), valid until {issued.expires_at:%Y-%m-%d %H:%M}"
        )
