"""Addresses of the pages of money."""

from django.urls import path

from billing.views import admin_credits, admin_wallet, credit_request, wallet

urlpatterns = [
    path("wallet/", wallet.wallet, name="wallet"),
    path("wallet/request/", credit_request.request_credits, name="wallet_request"),
    path("wallet/request/<uuid:request_id>/withdraw/", credit_request.withdraw, name="wallet_request_withdraw"),
    path("admin/credits/", admin_credits.credits, name="admin_credits"),
    path("admin/credits/wallets/<uuid:wallet_id>/", admin_wallet.wallet, name="admin_wallet"),
    path("admin/credits/<uuid:request_id>/<slug:verb>/", admin_credits.decide, name="admin_credit_decide"),
]
