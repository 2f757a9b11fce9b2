"""Pages of this room."""

from django.urls import path

from accounts.views import account, entrance

urlpatterns = [
    path("login/", entrance.login, name="login"),
    path("logout/", entrance.logout, name="logout"),
    path("password/", entrance.password_change, name="password_change"),
    path("account/", account.account, name="account"),
    path("account/theme/", entrance.theme, name="theme"),
    path("account/sign-out-everywhere/", account.sign_out_everywhere, name="sign_out_everywhere"),
    path("notifications/", account.notifications, name="notifications"),
]
