"""A stand-in for a session's application, with ttyd's command line: small, quick, and it does what it is told.

Run as a program by any Python 3 without packages. Every path needs the credential (basic or token); the last segment is
an order: `env` (what it was given), `exit`, `crash`, `deaf` (ignore SIGTERM), `escape` (leave a deaf child behind in a
session of its own), `write` and `read` (a file in the working directory; the answer breaks off where that is refused), `trespass` (change the home
in every way there is; answers with those that worked), anything else just answers.
"""

import argparse
import base64
import http.server
import json
import os
import pathlib
import signal
import socketserver
import subprocess
import sys

DEAF_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("-i", dest="interface", required="--version" not in sys.argv)
    parser.add_argument("-p", dest="port", type=int)
    parser.add_argument("-b", dest="base", default="/")
    parser.add_argument("-c", dest="credential")
    parser.add_argument("-d", dest="level", type=int)
    parser.add_argument("-O", action="store_true")
    parser.add_argument("-W", action="store_true")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("shell", nargs="*")
    return parser.parse_args()


def trespass() -> list[str]:
    """Change the home through every path and tool; the ways that worked."""
    here, home = pathlib.Path(), pathlib.Path(os.environ["HOME"])
    claim = home.resolve()
    through = pathlib.Path(f"/proc/{os.getppid()}/root") / claim.relative_to("/")
    ways = {f"a file in {path}": path / "mine.txt" for path in (here, home, claim, through)}
    worked = []
    for way, file in ways.items():
        try:
            file.write_text("mine")
        except OSError:
            continue
        worked.append(way)
    for act in ((claim / "written.txt").unlink, (claim / "d").mkdir, lambda: claim.chmod(0o777)):
        try:
            act()
        except OSError:
            continue
        worked.append("a change of what is there")
    for tool in (("mount", "-o", "remount,bind,rw"), ("umount",)):
        for command in (tool, ("unshare", "--user", "--map-root-user", "--mount", *tool)):
            if subprocess.run([*command, str(claim)], capture_output=True, check=False).returncode == 0:
                worked += command
    try:
        (claim / "later.txt").write_text("after all that")
    except OSError:
        return worked
    return [*worked, "a file after all that"]


class Handler(http.server.BaseHTTPRequestHandler):
    credential = ""
    deaf = False

    def do_GET(self) -> None:
        basic = base64.b64encode(self.credential.encode()).decode()
        if self.headers.get("Authorization") not in {f"Basic {basic}", f"token {self.credential.partition(':')[2]}"}:
            self.answer(401, "credentials are needed")
            return
        order = self.path.rstrip("/").rpartition("/")[2]
        if order == "exit":
            os._exit(0)
        if order == "crash":
            sys.stderr.write("my own last words\n")
            sys.stderr.flush()
            os._exit(3)
        if order == "deaf":
            Handler.deaf = True
        if order == "write":
            pathlib.Path("written.txt").write_text("by " + str(os.getuid()))
        if order == "trespass":
            self.answer(200, json.dumps(trespass()))
            return
        if order == "read":
            self.answer(200, pathlib.Path("written.txt").read_text())
            return
        if order == "escape":
            child = subprocess.Popen([sys.executable, "-c", DEAF_CHILD], start_new_session=True)
            self.answer(200, str(child.pid))
            return
        fds = sorted(entry.name for entry in pathlib.Path("/proc/self/fd").iterdir())
        facts = {"env": dict(os.environ), "pid": os.getpid(), "uid": os.getuid(), "groups": os.getgroups()}
        self.answer(200, json.dumps({**facts, "cwd": str(pathlib.Path.cwd()), "fds": fds}))

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def address_string(self) -> str:
        return "local"

    def log_message(self, *args: object) -> None:
        pass


class UnixServer(socketserver.ThreadingUnixStreamServer):
    def get_request(self):
        request, _ = super().get_request()
        return request, ("local", 0)


def main() -> None:
    given = arguments()
    if given.version:
        return
    Handler.credential = given.credential
    signal.signal(signal.SIGTERM, lambda *_: None if Handler.deaf else os._exit(143))
    if given.port:
        http.server.ThreadingHTTPServer((given.interface, given.port), Handler).serve_forever()
    else:
        UnixServer(given.interface, Handler).serve_forever()


if __name__ == "__main__":
    main()
