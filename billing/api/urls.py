"""Paths below `/api/v1/` that billing answers."""

from django.urls import path

from billing.api import budgets, grants, requests, wallets

urlpatterns = [
    path("budgets", budgets.budgets),
    path("budgets/<uuid:budget_id>", budgets.budget),
    path("budgets/<uuid:budget_id>/forecast", budgets.forecast),
    path("credit-requests", requests.requests),
    path("credit-requests/<uuid:request_id>", requests.request_of),
    path("credit-requests/<uuid:request_id>/approve", requests.approve),
    path("credit-requests/<uuid:request_id>/reject", requests.reject),
    path("credit-requests/<uuid:request_id>/withdraw", requests.withdraw),
    path("credit-requests/<uuid:request_id>/forward", requests.forward),
    path("wallets", wallets.wallets),
    path("wallets/system/issue", wallets.issue),
    path("wallets/<uuid:wallet_id>", wallets.wallet),
    path("wallets/<uuid:wallet_id>/entries", wallets.entries),
    path("wallets/<uuid:wallet_id>/allocate", wallets.allocate),
    path("wallets/<uuid:wallet_id>/reclaim", wallets.reclaim),
    path("wallets/<uuid:wallet_id>/bulk", wallets.bulk),
    path("wallets/<uuid:wallet_id>/monthly-grant", grants.monthly_grant),
    path("wallets/<uuid:wallet_id>/refills", grants.refills),
    path("wallets/<uuid:wallet_id>/adjust", wallets.adjust),
]
