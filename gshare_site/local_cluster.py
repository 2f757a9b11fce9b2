"""The local cluster of the embedded default: registered once, its operator's token written anew at every start."""

from io import StringIO
from pathlib import Path

from django.core.management import call_command

from cluster.services import register_cluster
from gshare_core.errors import DomainError

NAME = "local"


def ensure_local_cluster(token_file: Path) -> bool:
    """Register the cluster unless it is there and give its operator a fresh token. Answers whether it was new."""
    try:
        register_cluster(by=None, name=NAME)
    except DomainError as error:
        if error.code != "conflict":
            raise
        new = False
    else:
        new = True
    call_command("issue_token", cluster=NAME, scope="operator", file=token_file, stdout=StringIO())
    return new
