"""Pages of this room."""

from django.urls import path

from accounts.views import entrance

urlpatterns = [
    path("login/", entrance.login, name="login"),
    path("logout/", entrance.logout, name="logout"),
    path("password/", entrance.password_change, name="password_change"),
    path("account/sign-out-everywhere/", entrance.sign_out_everywhere, name="sign_out_everywhere"),
    path("theme/", entrance.theme, name="theme"),
]
