"""What accounts does for others: one verb per function, each in three beats: change, audit row, event on commit.

Every service takes `by` (the acting user; None is the system and needs no right), decides by the matrix on rows that it
holds still, and reads the clock once after its locks. Refusals are `DomainError`s.
"""

from accounts.services.bootstrapping import ensure_global_policy as ensure_global_policy
from accounts.services.bootstrapping import ensure_super_admin as ensure_super_admin
from accounts.services.drains import close_drain as close_drain
from accounts.services.importing import check_people as check_people
from accounts.services.importing import import_people as import_people
from accounts.services.limits import remove_policy as remove_policy
from accounts.services.limits import set_policy as set_policy
from accounts.services.memberships import add_membership as add_membership
from accounts.services.memberships import add_membership_by_email as add_membership_by_email
from accounts.services.memberships import change_role as change_role
from accounts.services.memberships import remove_membership as remove_membership
from accounts.services.passwords import change_password as change_password
from accounts.services.passwords import reset_password as reset_password
from accounts.services.passwords import sign_out_everywhere as sign_out_everywhere
from accounts.services.people import Registered as Registered
from accounts.services.people import change_email as change_email
from accounts.services.people import deactivate_user as deactivate_user
from accounts.services.people import move_home as move_home
from accounts.services.people import reactivate_user as reactivate_user
from accounts.services.people import register_user as register_user
from accounts.services.people import rename_user as rename_user
from accounts.services.people import set_preferences as set_preferences
from accounts.services.people import set_super_admin as set_super_admin
from accounts.services.places import create_group as create_group
from accounts.services.places import create_organisation as create_organisation
from accounts.services.places import rename_group as rename_group
from accounts.services.places import rename_organisation as rename_organisation
from accounts.services.places import set_group_active as set_group_active
from accounts.services.places import set_organisation_active as set_organisation_active
from accounts.services.requesters import Requester as Requester
from accounts.services.requesters import lock_requester as lock_requester
from accounts.services.requesters import lock_requesters as lock_requesters
from accounts.services.user_changes import UserChanges as UserChanges
from accounts.services.user_changes import change_user as change_user
