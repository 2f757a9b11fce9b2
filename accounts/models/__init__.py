"""The rows of accounts. Constraints first; what they guarantee stands in each module."""

from accounts.models.columns import EMAIL_LENGTH as EMAIL_LENGTH
from accounts.models.columns import NAME_LENGTH as NAME_LENGTH
from accounts.models.limits import Policy as Policy
from accounts.models.limits import PolicyValue as PolicyValue
from accounts.models.machinery import DrainIntent as DrainIntent
from accounts.models.machinery import IdempotencyKey as IdempotencyKey
from accounts.models.machinery import Lease as Lease
from accounts.models.people import Group as Group
from accounts.models.people import Membership as Membership
from accounts.models.people import Organisation as Organisation
from accounts.models.people import SignIn as SignIn
from accounts.models.people import Theme as Theme
from accounts.models.people import User as User
from accounts.models.trail import AuditEntry as AuditEntry
from accounts.models.trail import AuditSeal as AuditSeal
from accounts.models.trail import Notification as Notification
