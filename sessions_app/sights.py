"""What one page for one person reads once, however many requests it judges: the form judges its choices on every GPU.

Guarantees: it lives as long as the page and locks nothing, so nobody is admitted by it; the images in it are those that he
may see, the groups those that he has a seat in, and the volumes those that he may mount.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from accounts.domain.rights import Standing
from accounts.queries import SeatRow
from billing.queries import WalletRow
from cluster.queries import MountFact
from sessions_app.domain.facts import Requester
from sessions_app.plans import Sight
from sessions_app.requesters import Who

if TYPE_CHECKING:
    from accounts.models import User

T = TypeVar("T")


class PersonsSight(Sight):
    """Catalogue, seats and wallet as the page has read them; what else is his is read once."""

    def __init__(
        self, at: datetime, *, user: User, wallet: WalletRow, standing: Standing, volumes: Iterable[MountFact]
    ) -> None:
        super().__init__(at)
        self._user, self.wallet, self.standing = user, wallet, standing
        self.volumes = {fact.volume_id: fact for fact in volumes}

    def his(self, key: tuple[Hashable, ...], read: Callable[[], T]) -> T:
        """What is his, once."""
        return self.once(key, read)

    def know_seats(self, seats: Iterable[SeatRow]) -> None:
        """Take in who he is in his groups."""
        for seat in seats:
            if seat.group_id is not None:
                requester = Requester(
                    user=self._user.pk,
                    active=self._user.is_active,
                    group=seat.group_id,
                    group_name=seat.group_name,
                    organisation=seat.organisation_id,
                    group_active=seat.active,
                    role=seat.role,
                )
                self.know({("who", seat.group_id): Who(self._user, requester)})
