"""A form's choices as the gates judge them, on the chosen GPU and on every other; what is read for one is read for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from catalog.queries import OfferingRow
from cluster.queries import known_pools
from gshare_core.errors import DomainError
from sessions_app import line, services
from sessions_app.domain.facts import Requester
from sessions_app.plans import policy_of
from sessions_app.previews import Preview
from sessions_app.requesters import who
from sessions_app.sights import PersonsSight
from sessions_app.spec import shared_pool_open
from sessions_app.views.new_form import Values, ask_of

if TYPE_CHECKING:
    from accounts.models import User


class Judged:
    """The previews of one form."""

    def __init__(self, user: User, values: Values, sight: PersonsSight) -> None:
        self._user, self._values, self._sight = user, values, sight
        self._found: dict[UUID | None, Preview | DomainError | None] = {}

    def on(self, offering: OfferingRow | None) -> Preview | DomainError | None:
        """What would happen on this GPU; an error where the choices contradict each other, None where some are missing."""
        key = offering.id if offering else None
        if key not in self._found:
            self._found[key] = self._judge(offering)
        return self._found[key]

    def _judge(self, offering: OfferingRow | None) -> Preview | DomainError | None:
        ask, _errors = ask_of(replace(self._values, offering=offering))
        if ask is None:
            return None
        try:
            return services.preview(ask, by=self._user, sight=self._sight)
        except DomainError as refusal:
            return refusal

    def rights(self) -> Mapping[str, Any]:
        """What policies allow him in the chosen group; nothing where he is no member."""
        requester = self._requester()
        return policy_of(self._user.pk, requester, self._sight)[1] if requester else {}

    def pools(self) -> tuple[UUID, ...]:
        """The pools that he may use in the chosen group; none where he is no member."""
        requester = self._requester()
        if requester is None:
            return ()
        known = self._sight.once(("pools",), known_pools)
        shared = shared_pool_open(policy_of(self._user.pk, requester, self._sight)[1])
        return known.eligible(group_id=requester.group, organisation_id=requester.organisation, shared=shared).pool_ids

    def _requester(self) -> Requester | None:
        """He as a member of the chosen group, however complete the rest of the form is."""
        try:
            group = UUID(self._values.group)
        except ValueError:
            return None
        return self._sight.his(("who", group), lambda: who(self._user, group)).requester

    def lengths(self) -> dict[UUID, int]:
        """How many wait for each offering, whatever their pools."""
        found: dict[UUID, int] = {}
        for lane, front in self._sight.his(("fronts",), line.fronts).items():
            offering = UUID(lane.partition("|")[0])
            found[offering] = found.get(offering, 0) + front.waiting
        return found
