"""What billing does for others, in one place. Billing knows references, never sessions.

Meters: `open_meter` takes the hold, `meter_ready` starts billing, `prove` moves the proof of life, `request_end` fixes
the end, `settle` charges and releases; `suspend` and `reopen` for runs that fall silent and come back, `carry_meter` for
a run that is followed by the next. Ticks: `top_up_due`, `top_up_ended`, `refill_due`, `rederive_budgets`. Credits: `issue`,
`allocate`, `reclaim`, `adjust`, `move_in_bulk`, `return_net`, `return_to_parents`, `set_monthly_grant`.
Requests: `ask_for_credits`, `approve_request`, `reject_request`, `withdraw_request`, `forward_request`.
"""

from billing.budgeting import BudgetScope as BudgetScope
from billing.budgeting import change_budget as change_budget
from billing.budgeting import close_budget as close_budget
from billing.budgeting import create_budget as create_budget
from billing.budgeting import rederive_budgets as rederive_budgets
from billing.bulk import BulkOrder as BulkOrder
from billing.bulk import BulkResult as BulkResult
from billing.bulk import Move as Move
from billing.bulk import move_in_bulk as move_in_bulk
from billing.domain.facts import BudgetFact as BudgetFact
from billing.domain.facts import Cost as Cost
from billing.domain.facts import MoneyFacts as MoneyFacts
from billing.domain.facts import Purpose as Purpose
from billing.domain.facts import Scopes as Scopes
from billing.domain.facts import Settlement as Settlement
from billing.domain.facts import TickResult as TickResult
from billing.grants import refill_due as refill_due
from billing.grants import set_monthly_grant as set_monthly_grant
from billing.leaving import return_to_parents as return_to_parents
from billing.meters import carry_meter as carry_meter
from billing.meters import hand_off as hand_off
from billing.meters import holds_meter as holds_meter
from billing.meters import lock_meter as lock_meter
from billing.meters import lock_meters as lock_meters
from billing.meters import lock_money_of as lock_money_of
from billing.meters import meter_ready as meter_ready
from billing.meters import prove as prove
from billing.meters import reopen as reopen
from billing.meters import request_end as request_end
from billing.meters import settle as settle
from billing.meters import suspend as suspend
from billing.openings import Opening as Opening
from billing.openings import Openings as Openings
from billing.openings import lock_money as lock_money
from billing.openings import open_meter as open_meter
from billing.requests import approve_request as approve_request
from billing.requests import ask_for_credits as ask_for_credits
from billing.requests import forward_request as forward_request
from billing.requests import reject_request as reject_request
from billing.requests import wallet_above as wallet_above
from billing.requests import withdraw_request as withdraw_request
from billing.ticks import top_up_due as top_up_due
from billing.ticks import top_up_ended as top_up_ended
from billing.wallets import adjust as adjust
from billing.wallets import allocate as allocate
from billing.wallets import ensure_wallet as ensure_wallet
from billing.wallets import ensure_wallets as ensure_wallets
from billing.wallets import issue as issue
from billing.wallets import prepare as prepare
from billing.wallets import reclaim as reclaim
from billing.wallets import return_net as return_net
