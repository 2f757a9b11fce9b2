"""A process of its own that tries to open meters for one customer: `python -m tests.concurrency.money_child USER GROUP N`.

Prints `ready`, waits for a line on its standard input, then tries N times at once from threads of its own and prints how
many were admitted and how many refused. Anything but a refusal for lack of credit ends it with a traceback.
"""

from __future__ import annotations

import sys
from uuid import UUID

import django


def main(user_id: UUID, group_id: UUID, tries: int) -> None:
    django.setup()
    from accounts.models import Group
    from billing import services as billing
    from gshare_core.errors import DomainError
    from gshare_core.ids import uuid7
    from tests.apps.billing.stage import HOLD, QUARTER, t
    from tests.concurrency.rivals import times, together

    scopes = billing.Scopes(user_id, group_id, Group.objects.get(pk=group_id).organisation_id)

    def open_one() -> bool:
        try:
            billing.open_meter(billing.Opening(uuid7(), billing.Purpose(uuid7(), "x"), scopes, QUARTER, HOLD), at=t(0))
        except DomainError as refused:
            if refused.code != "insufficient_credit":
                raise
            return False
        return True

    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    results = together(*times(tries, open_one))
    for result in results:
        if isinstance(result, BaseException):
            raise result
    sys.stdout.write(f"{results.count(True)} {results.count(False)}\n")


if __name__ == "__main__":
    main(UUID(sys.argv[1]), UUID(sys.argv[2]), int(sys.argv[3]))
