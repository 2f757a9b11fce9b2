"""Pure arithmetic of money: prices, meters, periods of budgets."""
