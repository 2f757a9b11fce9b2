"""The rights matrix in words: every act and every extent, as a person reads them."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.domain.rights import Extent
from accounts.permissions import Act

Words = str | Promise

ACT_WORDS: Mapping[Act, Words] = {
    Act.OWN_WORK: _("Run sessions, keep volumes, spend credits"),
    Act.SEE_OTHERS: _("See others' sessions, queue, volumes and use"),
    Act.ACT_ON_SESSIONS: _("Pause and stop others' sessions"),
    Act.OPEN_SESSION: _("Open others' sessions, with a reason"),
    Act.READ_AUDIT: _("Read the audit trail"),
    Act.REGISTER_USER: _("Register people"),
    Act.MANAGE_SIGN_IN: _("Reset passwords, correct names and addresses"),
    Act.DEACTIVATE_USER: _("Deactivate people"),
    Act.MOVE_HOME: _("Change where somebody is at home"),
    Act.GRANT_SUPER_ADMIN: _("Make super administrators"),
    Act.MANAGE_MEMBERSHIP: _("Give and take seats and roles"),
    Act.MANAGE_GROUP: _("Make, name and deactivate groups"),
    Act.MANAGE_ORGANISATION: _("Make, name and deactivate organisations"),
    Act.CREDIT_USER: _("Give credits to people"),
    Act.CREDIT_GROUP: _("Give credits to groups"),
    Act.CREDIT_ORGANISATION: _("Give credits to organisations"),
    Act.ISSUE_CREDITS: _("Issue credits, correct wallets"),
    Act.LIMIT_USER: _("Set policy and budget of people"),
    Act.LIMIT_GROUP: _("Set policy and budget of groups"),
    Act.LIMIT_ORGANISATION: _("Set policy and budget of organisations"),
    Act.LIMIT_GLOBAL: _("Set the general policy"),
    Act.RAISE_RESERVED: _("Allow privileged sessions, shared pools, high priority"),
    Act.SET_PRIORITY: _("Set the priority of who waits"),
    Act.GRANT_POOL: _("Give pools to groups"),
    Act.MANAGE_POOLS: _("Make and change pools"),
    Act.MANAGE_CATALOGUE: _("Change catalogue and prices"),
    Act.MANAGE_CLUSTERS: _("Change clusters, nodes and cards"),
    Act.ANNOUNCE: _("Announce to everybody"),
}

EXTENT_WORDS: Mapping[Extent, Words] = {
    Extent.OWN: _("own things only"),
    Extent.GROUP: _("in groups of his"),
    Extent.GROUP_BELOW: _("of who ranks below him, in groups of his"),
    Extent.ORGANISATION: _("in organisations of his"),
    Extent.ORGANISATION_BELOW: _("of who ranks below him, in organisations of his"),
    Extent.WHOLE_PERSON: _("of whom he outranks wherever they sit"),
    Extent.ALL: _("everywhere"),
    Extent.ALL_OTHERS: _("everywhere, but not himself"),
}
