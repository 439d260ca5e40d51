"""Real AI servers and clients, from the userland that vmtest/real.sh makes: started there, in a cgroup, and driven.

    world = real.World()                         model server, Chroma, PostgreSQL, Redis, on every address of loopback
    client = real.Client("js", cgroup=VICTIM)    clients.js or clients.py, one process that does what it is told
    call = client.ask("openai", at="127.0.7.1")  begins; several may be under way
    client.answer(call, 5)                       {"ms", "value" or "error"}, or None when it is pending after 5 s
"""
import itertools
import json
import os
import shutil
import subprocess
import threading
import time

import place
from peers import serve

ROOT = os.environ.get("CHAOSBPF_REAL", "/real")
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + "/real"
POSTGRES = 100  # its user's number
PATIENCE = 180 * place.slowness()  # for a server to start on an emulated processor

NODE = ["/usr/bin/node"]
CHROMA = [*NODE, "/opt/npm/node_modules/chromadb/dist/cli.mjs", "run", "--path", "/tmp/chroma", "--port", "8000",
          "--host", "0.0.0.0"]
LLAMA = ["/usr/bin/llama-server", "-m", "/opt/tiny.gguf", "--host", "0.0.0.0", "--alias", "tiny", "-t", "1", "-c", "8192",
         "--no-warmup"]
MODEL = [*LLAMA, "--port", "8080", "-np", "12"]  # all clients stream at the same time
SECURE = [*LLAMA, "--port", "8443", "-np", "8", "--ssl-key-file", "/tmp/key.pem", "--ssl-cert-file", "/tmp/cert.pem"]
REDIS = ["/usr/bin/redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "", "--dir", "/tmp"]
PG = "/usr/lib/postgresql/18/bin/"
DATA = "/tmp/postgres"

MODEL_PORT, SECURE_PORT, CHROMA_PORT, POSTGRES_PORT, REDIS_PORT = 8080, 8443, 8000, 5432, 6379

running = []


def is_here():
    return os.path.exists(ROOT + "/opt/tiny.gguf")


def start(command, cgroup, user=None, name=None, **options):
    """A program of that userland, as a Popen; what it says goes to a file in its /tmp."""
    def prepare():
        place.settle(cgroup=cgroup)
        place.die_with_parent()
        os.chroot(ROOT)
        os.chdir("/")
        place.settle(user=user)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin", "HOME": "/tmp", "LANG": "C.UTF-8",
                   "NODE_PATH": "/opt/npm/node_modules", "PYTHONDONTWRITEBYTECODE": "1", "NODE_NO_WARNINGS": "1",
                   "NODE_TLS_REJECT_UNAUTHORIZED": "0"}  # the certificate is of today and nobody's
    log = open(f"{ROOT}/tmp/{name or os.path.basename(command[0])}.log", "ab")
    options = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **options}
    child = subprocess.Popen(command, env=environment, preexec_fn=prepare, **options)
    log.close()
    child.log, child.cgroup = log.name, cgroup
    running.append(child)
    return child


def stop(child):
    child.kill()
    child.wait()
    running.remove(child)


def stop_all():
    """Waits for their children as well, so that their cgroups can be removed."""
    cgroups = {child.cgroup for child in running}
    for child in running[::-1]:
        stop(child)
    end = time.monotonic() + 10
    while any(place.members(cgroup) for cgroup in cgroups) and time.monotonic() < end:
        time.sleep(0.05)


def words(child, lines=8):
    with open(child.log, errors="replace") as log:
        return "".join(log.readlines()[-lines:])


def answers(port, path):
    """Whether that server is up: 200 for a path, or a connection where it speaks no HTTP."""
    import http.client
    import socket

    try:
        if not path:
            socket.create_connection(("127.0.0.1", port), 2).close()
            return True
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def wait_for(name, child, port, path):
    end = time.monotonic() + PATIENCE
    while not answers(port, path):
        if child.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"{name} did not start: {words(child)}")
        time.sleep(0.1)


def bring(path):
    """Copies a file of the project to where programs of that userland see it; the path that it has there."""
    seen = "/tmp/" + os.path.basename(path)
    shutil.copy(path, ROOT + seen)
    return seen


class World:
    """The servers, all in one cgroup."""

    KINDS = {"model": (MODEL, MODEL_PORT, "/health"),
             "chroma": (CHROMA, CHROMA_PORT, "/api/v2/heartbeat"), "redis": (REDIS, REDIS_PORT, None),
             "postgres": ([PG + "postgres", "-D", DATA, "-k", "", "-c", "listen_addresses=*", "-c", "fsync=off",
                           "-c", "jit=off", "-c", "authentication_timeout=600"], POSTGRES_PORT, None)}

    def __init__(self, cgroup="case/server"):
        place.make_cgroup(cgroup)
        self.cgroup = cgroup
        self.children = {name: self.begin(name) for name in self.KINDS}
        for name, child in self.children.items():
            wait_for(name, child, *self.KINDS[name][1:])

    def begin(self, name):
        if name == "postgres":
            self.make_data()
        return start(self.KINDS[name][0], self.cgroup, user=POSTGRES if name == "postgres" else None, name=name)

    def add_secure(self):
        """The model server once more, with TLS."""
        if "secure" in self.children:
            return
        serve.make_certificate(ROOT + "/tmp")
        self.children["secure"] = start(SECURE, self.cgroup, name="secure")
        wait_for("secure", self.children["secure"], SECURE_PORT, None)

    def make_data(self):
        shutil.rmtree(ROOT + DATA, ignore_errors=True)
        done = start([PG + "initdb", "-D", DATA, "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "--no-sync",
                      "--no-instructions"], self.cgroup, user=POSTGRES, name="initdb")
        if done.wait(PATIENCE):
            raise AssertionError(f"initdb: {words(done)}")
        running.remove(done)
        with open(f"{ROOT}{DATA}/pg_hba.conf", "a") as file:
            file.write("host all all 127.0.0.0/8 trust\n")


class Client:
    """One process with the clients of a language, in a cgroup."""

    PROGRAMS = {"js": NODE, "py": ["/usr/bin/python3"]}

    def __init__(self, language, cgroup):
        command = [*self.PROGRAMS[language], bring(f"{HERE}/clients.{language}")]
        self.child = start(command, cgroup, name=f"{language}-{os.path.basename(cgroup)}", stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, bufsize=1)
        self.numbers = itertools.count(1)
        self.answered, self.news = {}, threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()
        self.version = self.call("load", seconds=PATIENCE)["value"]

    def read(self):
        for line in self.child.stdout:
            answer = json.loads(line)
            with self.news:
                self.answered[answer.pop("id")] = answer
                self.news.notify_all()

    def ask(self, what, **keys):
        number = next(self.numbers)
        self.child.stdin.write(json.dumps({"id": number, "do": what, **keys}) + "\n")
        return number

    def answer(self, number, seconds):
        with self.news:
            self.news.wait_for(lambda: number in self.answered, seconds)
            return self.answered.get(number)

    def call(self, what, seconds=60, **keys):
        answer = self.answer(self.ask(what, **keys), seconds)
        if answer is None:
            raise AssertionError(f"{what} {keys}: no answer within {seconds} s: {words(self.child)}")
        return answer


def redis_connections():
    """How many connections Redis has accepted so far, this one included."""
    import socket

    with socket.create_connection(("127.0.0.1", REDIS_PORT), 10) as sock:
        sock.sendall(b"INFO stats\r\n")
        text = b""
        while b"total_connections_received:" not in text or not text.endswith(b"\n"):
            text += sock.recv(65536)
    return int(text.split(b"total_connections_received:")[1].split(b"\r")[0])
