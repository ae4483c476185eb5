# SPDX-License-Identifier: Apache-2.0
"""What the rows of servers have in common: a certificate, files with known hashes, foreign clients that fetch
them, and a look at what the server's processes hold."""

import concurrent.futures
import functools
import hashlib
import http.server
import os
import pathlib
import re
import socket
import subprocess
import threading

from harness import Failed, await_that, tail

# Debian's libraries negotiate encrypt-then-mac; then libssl takes these from the provider, on x86 too.
SUITES = {"ECDHE-ECDSA-AES128-SHA": "AES-128-CBC", "ECDHE-ECDSA-AES256-SHA": "AES-256-CBC",
          "ECDHE-ECDSA-AES128-SHA256": "AES-128-CBC", "ECDHE-ECDSA-AES256-SHA384": "AES-256-CBC"}
# For gnutls-cli. In this order libssl takes ours on x86 too.
MAC_THEN_ENCRYPT = "NORMAL:-CIPHER-ALL:+AES-256-CBC:-MAC-ALL:+SHA384:+SHA1:-VERS-ALL:+VERS-TLS1.2:%NO_ETM"
SIZES = {"small": 3001, "page": 100003, "big": 4 << 20}


def plain():
    """The environment of a foreign program: nothing of ours in it."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith(("SUNXI_", "OPENSSL_")) and name != "LD_PRELOAD"}


class Site:
    """A certificate and files to be fetched, in a folder of the row."""

    def __init__(self, row):
        self.row = row
        self.root = row.folder / "root"
        self.root.mkdir()
        self.hashes = {}
        for name, size in (SIZES | {"big": 1 << 20} if row.some else SIZES).items():
            data = os.urandom(size)
            (self.root / name).write_bytes(data)
            self.hashes[name] = hashlib.sha256(data).hexdigest()
        self.key, self.certificate = row.folder / "key.pem", row.folder / "certificate.pem"
        row.run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout", self.key, "-out", self.certificate, log=row.folder / "req.log", wrapped=False,
                env=plain())
        self.both = row.folder / "both.pem"  # as haproxy and stunnel want it
        self.both.write_bytes(self.certificate.read_bytes() + self.key.read_bytes())
        self.both.chmod(0o600)

    def verify(self, name, data):
        if hashlib.sha256(data).hexdigest() != self.hashes[name]:
            raise Failed(f"{name}: {len(data)} bytes, and not those of the file")

    def curl_command(self, port, *names, suite=None, options=()):
        version = ["--tlsv1.3"] if suite == "TLS1.3" else ["--tls-max", "1.2", "--ciphers", suite] if suite else []
        words = ["curl", "--silent", "--show-error", "--fail", "--http1.1", "--cacert", str(self.certificate),
                 "--max-time", "120", *version, *options]
        return words + [f"https://localhost:{port}/{name}" for name in names]

    def curl(self, port, *names, suite=None, options=()):
        """Fetches files with a curl that has only the default provider, over one connection."""
        with open(self.row.folder / "curl.log", "ab") as log:
            done = subprocess.run(self.curl_command(port, *names, suite=suite, options=options), env=plain(),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, check=False)
        if done.returncode:
            raise Failed(f"curl with {suite}: exit status {done.returncode}\n{tail(self.row.folder / 'curl.log')}")
        data = done.stdout
        for name in names:
            size = (self.root / name).stat().st_size
            self.verify(name, data[:size])
            data = data[size:]
        if data:
            raise Failed(f"{len(data)} bytes too many")

    def gnutls(self, port, name, priority):
        """Fetches a file with gnutls-cli, a TLS implementation of other people."""
        log = self.row.folder / "gnutls.log"
        with open(log, "ab") as errors:
            client = subprocess.Popen(
                ["gnutls-cli", "--logfile", str(log), "--x509cafile", str(self.certificate), "--priority", priority,
                 "--port", str(port), "localhost"],
                env=plain(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
            client.stdin.write(f"GET /{name} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            client.stdin.flush()
            answer = client.stdout.read()
            client.stdin.close()
            client.wait()
        _, _, body = answer.partition(b"\r\n\r\n")
        self.verify(name, body[:(self.root / name).stat().st_size])

    def at_once(self, port, count, name, suite, tries=1):
        """That many connections at the same time, each by a process of its own."""
        def one(_):
            for _ in range(tries):
                self.curl(port, name, suite=suite)
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(one, range(count)))


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def origin(site):
    """A server without TLS, in this process, for programs that stand before one. Returns its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site.root))
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def fetch_in_each_suite(row, site, port, log, server_name="", algorithm=None):
    """The cases that every server has: each suite, TLS 1.3, a foreign library, and some at once. algorithm: what
    the backend serves, if not the suites' ciphers."""
    def one(suite, count):
        if count > 1:
            site.at_once(port, count, "page", suite)
        else:
            site.curl(port, "small", "page", "big", suite=suite)
        return "no cipher of ours" if suite == "TLS1.3" else row.witness(log, algorithm or SUITES[suite])

    for suite in list(SUITES)[::3 if row.some else 1] + ["TLS1.3"]:
        row.case(f"{server_name}{suite}", one, suite, 1)
    count = 4 if row.some else 50
    row.case(f"{server_name}{count} at once", one, "ECDHE-ECDSA-AES128-SHA", count)

    def foreign():
        site.gnutls(port, "page", MAC_THEN_ENCRYPT)
        return row.witness(log, algorithm or "AES-256-CBC")
    row.case(f"{server_name}gnutls-cli, mac-then-encrypt", foreign)


def load(row, port, name, requests, connections, suite, keep_alive):
    """Lets ApacheBench fetch a file; each answer must be whole."""
    log = row.folder / "ab.log"
    words = ["ab", "-q", "-n", str(requests), "-c", str(connections), "-Z", suite, "-f", "TLS1.2", "-s", "120"]
    words += ["-k"] if keep_alive else []
    done = subprocess.run(words + [f"https://localhost:{port}/{name}"], env=plain(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, encoding="utf-8")
    log.write_text(done.stdout)
    whole = re.search(r"Complete requests:\s+(\d+)", done.stdout)
    failed = re.search(r"Failed requests:\s+(\d+)", done.stdout)
    if done.returncode or not whole or int(whole[1]) != requests or int(failed[1]) or "Non-2xx" in done.stdout:
        raise Failed(f"ab: exit status {done.returncode}\n{tail(log)}")
    if f",{suite}," not in done.stdout:
        raise Failed(f"ab did not use {suite}\n{tail(log)}")


def await_port(port, process=None, log=None):
    def there():
        if process is not None and process.poll() is not None:
            raise Failed(f"{process.args[0]} ended with {process.returncode}\n{tail(log) if log else ''}")
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return True
        except OSError:
            return False
    await_that(f"port {port}", there)


def await_closed(port):
    """Waits until the server has closed all connections at port."""
    def closed():
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        # Neither listening nor over.
        return not [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] not in ("0A", "06")]
    await_that("the end of all connections", closed)


def children(pid):
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []


def descendants(pid):
    found = []
    for child in children(pid):
        found += [child] + descendants(child)
    return found


def alive(pid):
    """Whether the process runs, and is no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def title(pid):
    """What the process calls itself; empty if it has ended, even at this moment."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def status_of(pid, field):
    found = re.search(rf"^{field}:\s*(.*)$", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return found[1] if found else ""


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def anonymous(pid):
    """Memory that is its own, in KiB."""
    return int(status_of(pid, "RssAnon").split()[0])


def maps(pid):
    return len(pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines())
