"""Addresses of the pages of money."""

from django.urls import path

from billing.views import admin_credits, admin_wallet, wallet

urlpatterns = [
    path("wallet/", wallet.wallet, name="wallet"),
    path("wallet/request/", wallet.request_credits, name="wallet_request"),
    path("admin/credits/", admin_credits.credits, name="admin_credits"),
    path("admin/credits/wallets/<uuid:wallet_id>/", admin_wallet.wallet, name="admin_wallet"),
    path("admin/credits/<uuid:request_id>/<slug:verb>/", admin_credits.decide, name="admin_credit_decide"),
]
