"""The rows of billing. Private to this application; others call `billing.services` and `billing.queries`."""

from billing.models.checkpoints import (
    Checkpoint,
    VerifiedAllocation,
    VerifiedMeter,
    VerifiedPeriod,
    VerifiedWallet,
)
from billing.models.documents import Budget, BudgetAlert, BudgetMode, BudgetPeriod
from billing.models.entries import Entry
from billing.models.grants import GrantRefill, MonthlyGrant
from billing.models.ledger import (
    MINT_ID,
    REVENUE_ID,
    SYSTEM_ID,
    WALLET_KINDS,
    Account,
    AccountKind,
    Allocation,
    Transfer,
    TransferKind,
)
from billing.models.meter import LowBalance, Meter, MeterInterval, Posting
from billing.models.requests import CreditRequest, RequestState

__all__ = [
    "MINT_ID",
    "REVENUE_ID",
    "SYSTEM_ID",
    "WALLET_KINDS",
    "Account",
    "AccountKind",
    "Allocation",
    "Budget",
    "BudgetAlert",
    "BudgetMode",
    "BudgetPeriod",
    "Checkpoint",
    "CreditRequest",
    "Entry",
    "GrantRefill",
    "LowBalance",
    "Meter",
    "MeterInterval",
    "MonthlyGrant",
    "Posting",
    "RequestState",
    "Transfer",
    "TransferKind",
    "VerifiedAllocation",
    "VerifiedMeter",
    "VerifiedPeriod",
    "VerifiedWallet",
]
