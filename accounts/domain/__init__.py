"""The rules of accounts as pure functions: names, ranks and rights, limits and their resolution, the audit chain."""
