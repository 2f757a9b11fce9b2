"""Sessions as real local processes: JupyterLab, a terminal, VS Code where code-server is present.

Guarantees: a session's processes outlive the operator and are adopted when it comes back; `gone` is said only when no
process of the run is left; children get a clean environment, and for root a numeric user of their own; applications
listen on unix sockets in a folder of that user (on loopback where the path would be too long) and demand the token.
A volume is a folder, reached through a link at its path below the session's root (`/home/work` is `<root>/home/work`,
which is also HOME); one that a session may only read is mounted read-only in a mount namespace of the session's own
(`readonly` says how, and when such a session is refused).
Limits, said plainly: there are no cgroups; memory, CPU and scratch limits are told to the programs (`MEM_LIMIT`,
`CPU_LIMIT`), not enforced. A terminal's token stands on ttyd's command line, which every local user can read; for root it opens nothing,
since the socket's folder is private. Local sessions are isolated neither from each other nor from GShare.
"""

from cluster.operator.substrates.local.substrate import Ground, LocalSubstrate

__all__ = ["Ground", "LocalSubstrate"]
