"""Paths below `/api/v1/` that this room answers."""

from django.urls import path

from accounts.api import people, places, trail

urlpatterns = [
    path("me/password", people.my_password),
    path("organisations", places.organisations),
    path("organisations/<uuid:organisation_id>", places.organisation),
    path("groups", places.groups),
    path("groups/<uuid:group_id>", places.group),
    path("users", people.users),
    path("users/<uuid:user_id>", people.user),
    path("users/<uuid:user_id>/reset-password", people.reset_password),
    path("users/<uuid:user_id>/sign-out", people.sign_out_everywhere),
    path("memberships", people.memberships),
    path("memberships/<uuid:membership_id>", people.membership),
    path("policies", places.policies),
    path("policies/<uuid:policy_id>", places.policy),
    path("audit", trail.audit),
    path("notifications", trail.notifications),
    path("notifications/read", trail.read_notifications),
    path("notifications/<uuid:notice_id>/read", trail.read_notification),
]
