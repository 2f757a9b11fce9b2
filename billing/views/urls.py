"""Addresses of the pages of money."""

from django.urls import path

from billing.views import admin_budgets, admin_credits, admin_grants, admin_wallet, credit_request, wallet

urlpatterns = [
    path("wallet/", wallet.wallet, name="wallet"),
    path("wallet/request/", credit_request.request_credits, name="wallet_request"),
    path("wallet/request/<uuid:request_id>/withdraw/", credit_request.withdraw, name="wallet_request_withdraw"),
    path("admin/credits/", admin_credits.credits, name="admin_credits"),
    path("admin/credits/issue/", admin_grants.issue, name="admin_issue"),
    path("admin/credits/refills/", admin_grants.refills, name="admin_refills"),
    path("admin/credits/wallets/<uuid:wallet_id>/", admin_wallet.wallet, name="admin_wallet"),
    path("admin/credits/<uuid:request_id>/<slug:verb>/", admin_credits.decide, name="admin_credit_decide"),
    path("admin/budgets/", admin_budgets.budgets, name="admin_budgets"),
    path("admin/budgets/new/", admin_budgets.new, name="admin_budget_new"),
    path("admin/budgets/<uuid:budget_id>/", admin_budgets.budget, name="admin_budget"),
    path("admin/budgets/<uuid:budget_id>/close/", admin_budgets.close, name="admin_budget_close"),
]
