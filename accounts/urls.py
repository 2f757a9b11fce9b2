"""Pages of this room."""

from django.urls import path

from accounts.views import account, admin_audit, admin_import, admin_lists, admin_people, admin_places, entrance

urlpatterns = [
    path("login/", entrance.login, name="login"),
    path("logout/", entrance.logout, name="logout"),
    path("password/", entrance.password_change, name="password_change"),
    path("account/", account.account, name="account"),
    path("account/theme/", entrance.theme, name="theme"),
    path("account/sign-out-everywhere/", account.sign_out_everywhere, name="sign_out_everywhere"),
    path("notifications/", account.notifications, name="notifications"),
    path("admin/organisations/", admin_lists.organisations, name="admin_organisations"),
    path("admin/organisations/new/", admin_places.new_organisation, name="admin_organisation_new"),
    path("admin/organisations/<uuid:organisation_id>/", admin_places.organisation, name="admin_organisation"),
    path("admin/organisations/<uuid:organisation_id>/activate/", admin_places.switch_organisation, {"active": True}),
    path("admin/organisations/<uuid:organisation_id>/deactivate/", admin_places.switch_organisation, {"active": False}),
    path("admin/groups/", admin_lists.groups, name="admin_groups"),
    path("admin/groups/new/", admin_places.new_group, name="admin_group_new"),
    path("admin/groups/<uuid:group_id>/", admin_places.group, name="admin_group"),
    path("admin/groups/<uuid:group_id>/activate/", admin_places.switch_group, {"active": True}),
    path("admin/groups/<uuid:group_id>/deactivate/", admin_places.switch_group, {"active": False}),
    path("admin/seats/<uuid:membership_id>/", admin_places.seat, name="admin_seat"),
    path("admin/users/", admin_lists.users, name="admin_users"),
    path("admin/users/new/", admin_people.register, name="admin_user_new"),
    path("admin/users/import/", admin_import.import_people, name="admin_user_import"),
    path("admin/users/<uuid:user_id>/", admin_people.person, name="admin_user"),
    path("admin/users/<uuid:user_id>/<slug:verb>/", admin_people.act, name="admin_user_act"),
    path("admin/audit/", admin_audit.trail, name="admin_audit"),
]
