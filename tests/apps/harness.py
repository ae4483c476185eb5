# SPDX-License-Identifier: Apache-2.0
"""What the rows of tests/apps have in common: OpenSSL's configuration, programs that are started, waited for
and ended, and the witness that a backend has served.

A row is an executable of this folder, named after the program it tests:

    ROW MODULE-DIRECTORY BACKEND [--some] [WRAPPER ...]

BACKEND is afalg, cryptodev, mmio, or software, where no backend is to serve. --some runs few cases, which
still touch each kind. The tested program runs under WRAPPER (the modelled board, the stand-in for
/dev/crypto). It prints one line for a case, with what served it; exit status 0: all went well, 1: one did
not, 77: a program is not installed (the last line says which package).
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds for one step, on an emulated processor
SKIPPED = 77


class Failed(Exception):
    """A step that did not go well, with what is known about it."""


def await_that(what, condition, patience=PATIENCE):
    """Returns condition()'s value as soon as it is true; Failed after patience seconds."""
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failed(f"waited {patience} s for {what}")
        time.sleep(0.02)
    return value


def free_port():
    """A TCP port that nobody listens at, of those that the kernel gives out."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def read(log, since=0):
    """The text of a log from byte `since` on."""
    with open(log, "rb") as file:
        file.seek(since)
        return file.read().decode("utf-8", errors="replace")


class Row:
    """One run of a row: its arguments, its temporary folder, its processes. A context that ends them."""

    def __init__(self, needs=(), description=None):
        """needs: pairs of a program and the package that has it."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("module", type=pathlib.Path, help="the folder that holds sunxi.so")
        parser.add_argument("backend", choices=("software", "afalg", "cryptodev", "mmio"))
        parser.add_argument("--some", action="store_true", help="few cases, which still touch each kind")
        parser.add_argument("wrapper", nargs=argparse.REMAINDER, help="runs the tested program")
        arguments = parser.parse_args()
        self.name = pathlib.Path(sys.argv[0]).name
        self.module, self.backend = arguments.module.resolve(), arguments.backend
        words = arguments.wrapper  # argparse leaves everything behind BACKEND in there
        self.some = arguments.some or words[:1] == ["--some"]
        if words[:1] == ["--some"]:
            words = words[1:]
        self.wrapper = words[1:] if words[:1] == ["--"] else words
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        for program, package in needs:
            if not shutil.which(program):
                print(f"not installed: {package}")
                sys.exit(SKIPPED)
        # Where only hardware counts, in the guest that has a device, few algorithms are served.
        self.accelerated_only = os.environ.get("SUNXI_TEST_ACCELERATED_ONLY") == "yes"
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that __exit__ runs
        self.processes = []
        self.folder = None
        self.failures = 0

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix=f"sunxi-{self.name}-")
        self.folder = pathlib.Path(self.temporary.name)
        self.folder.chmod(0o755)  # others' workers read in there
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            end(process)
        self.temporary.cleanup()

    def configuration(self, name="openssl.cnf", default=True, preferred=True, random=False, **keys):
        """Writes a configuration and returns its path. keys: of the provider's section, over those that send
        every request of whole blocks to the backend and log who serves. With random, libcrypto's generator
        keeps to the default provider, as in openssl.cnf.example."""
        backends = "none," if self.backend == "software" else f"{self.backend},"
        section = {"module": self.module / "sunxi.so", "activate": 1, "backends": backends,
                   "accelerated_only": "yes" if self.accelerated_only else "no", "min_bytes": 0, "log": "info"} | keys
        lines = ["openssl_conf = init", "[init]", "providers = providers"]
        if preferred:
            lines.append("alg_section = algorithms")
        if random:
            lines.append("random = random_section")
        if preferred:
            lines += ["[algorithms]", "default_properties = ?provider=sunxi"]
        if random:
            lines += ["[random_section]", "properties = provider=default"]
        lines += ["[providers]"] + (["default = default_section"] if default else []) + ["sunxi = sunxi_section"]
        lines += ["[default_section]", "activate = 1", "[sunxi_section]"]
        lines += [f"{key} = {value}" for key, value in section.items() if value is not None]
        path = self.folder / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def environment(self, configuration, **more):
        """The caller's environment without settings of ours, with that configuration."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SUNXI_")}
        kept |= {name: value for name, value in os.environ.items() if name.startswith("SUNXI_TEST_")}
        return kept | {"OPENSSL_CONF": str(configuration)} | more

    def start(self, *command, log, wrapped=True, **options):
        """Starts a program, its standard error (and output, unless given) in the file log, in a process
        group of its own. It is ended with the row."""
        words = (self.wrapper if wrapped else []) + [str(word) for word in command]
        with open(log, "ab") as file:
            options = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file} | options
            process = subprocess.Popen(words, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def run(self, *command, log, wrapped=True, status=0, patience=PATIENCE, **options):
        """Runs a program to its end; Failed where its exit status is another. Returns its standard output,
        if options ask for a pipe."""
        words = (self.wrapper if wrapped else []) + [str(word) for word in command]
        data = options.pop("input", None)
        if data is not None:
            options["stdin"] = subprocess.PIPE
        with open(log, "ab") as file:
            options = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file} | options
            process = subprocess.Popen(words, start_new_session=True, **options)
        try:
            output, _ = process.communicate(data, timeout=patience)
        except subprocess.TimeoutExpired:
            raise Failed(f"{words[0]} has not ended after {patience} s") from None
        finally:
            if process.returncode is None:
                end(process)
        if process.returncode != status:
            raise Failed(f"exit status {process.returncode} of {' '.join(words)}\n{tail(log)}")
        return output

    def witness(self, log, algorithm, since=0):
        """What the provider said in log, from byte `since` on, about who serves algorithm (a regular
        expression), "software" where no backend may; Failed where another backend serves, or none."""
        text = read(log, since)
        if self.backend == "software":
            if found := re.search(rf"sunxi: {algorithm} on \w+ \(", text):
                raise Failed(f"no backend was to serve, but: {found[0]}")
            return "software"
        found = re.search(rf"sunxi: {algorithm} on ({self.backend} \(.*\))", text)
        if not found:
            raise Failed(f"{self.backend} did not serve {algorithm}\n{tail(log)}")
        return found[1]

    def case(self, name, body, *arguments):
        """Runs body, which returns what served or raises Failed, and prints a line, with the seconds it took."""
        start = time.monotonic()
        try:
            served = body(*arguments)
            print(f"ok      {self.name}: {name}: {served} [{time.monotonic() - start:.1f} s]", flush=True)
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            self.failures += 1
            print(f"FAILED  {self.name}: {name}: {problem} [{time.monotonic() - start:.1f} s]", flush=True)

    def status(self):
        return 1 if self.failures else 0


def end(process, number=signal.SIGTERM):
    """Ends a process and its group."""
    for attempt in (number, signal.SIGKILL):
        try:
            os.killpg(process.pid, attempt)
        except ProcessLookupError:
            pass
        try:
            process.wait(10)
            return
        except subprocess.TimeoutExpired:
            continue


def tail(log, lines=30):
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
