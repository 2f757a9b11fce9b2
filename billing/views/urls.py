"""Addresses of the pages of money."""

from django.urls import path

from billing.views import wallet

urlpatterns = [
    path("wallet/", wallet.wallet, name="wallet"),
    path("wallet/request/", wallet.request_credits, name="wallet_request"),
]
