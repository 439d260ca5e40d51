"""Processes that do what they are told: forked off (importing Python again is slow under emulation), put in their
place, driven by JSON lines over a socket. They outlive a load, so connections older than the load exist.

    victim = Worker(Client, cgroup="case/victim")
    victim.open("127.0.0.1", 8000)                  calls Client.open over there
    victim.begin("hammer", ...); victim.end()       the same in a thread, until told to stop
    child = victim.fork()                           a child of it that is driven in the same way
    child = victim.fork(exec=True)                  one that is a new program
"""
import json
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import traceback

import place

WAIT = 60  # seconds for any answer, unless said otherwise


class Lost(Exception):
    """The process ended or did not answer."""


class Remote(Exception):
    """What the process said when it failed."""


# ---- over there

def serve(connection, thing):
    """Runs the calls that come in until the other end closes."""
    lines = connection.makefile("r")
    background = {}

    def reply(value):
        connection.sendall((json.dumps(value) + "\n").encode())

    def call(name, args, keys):
        try:
            return {"value": getattr(thing, name)(*args, **keys)}
        except Exception:  # pylint: disable=broad-except # it is passed on
            return {"failed": traceback.format_exc()}

    for line in lines:
        todo = json.loads(line)
        if todo["do"] == "call":
            reply(call(todo["name"], todo["args"], todo["keys"]))
        elif todo["do"] == "begin":
            thing.stopping.clear()
            background["thread"] = threading.Thread(
                target=lambda todo=todo: background.update(result=call(todo["name"], todo["args"], todo["keys"])))
            background["thread"].start()
            reply({"value": None})
        elif todo["do"] == "end":
            if todo["stop"]:
                thing.stopping.set()
            background["thread"].join()
            reply(background["result"])
        elif todo["do"] == "fork":
            pid = os.fork()
            if pid == 0:
                lines.close()
                connection.close()
                become(thing, todo["path"], todo["where"], todo["exec"])
            reply({"value": pid})
    os._exit(0)


def become(thing, path, where, execute=False):
    """The rest of a new process: to its place, then serve; never returns."""
    status = 1
    try:
        place.settle(**where)
        if execute:
            os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), path, type(thing).__name__])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        connection.sendall((json.dumps({"value": os.getpid()}) + "\n").encode())
        serve(connection, thing)
        status = 0
    except BaseException:  # pylint: disable=broad-except # the caller's code must not run here
        traceback.print_exc()
    finally:
        os._exit(status)


# ---- over here

workers = []


class Worker:
    """A process over there; `thing` is made from `kind` after it has come to its place."""

    def __init__(self, kind, netns=None, cgroup=None, user=None, comm=None, parent=None, execute=False):
        where = {"netns": netns, "cgroup": cgroup, "user": user, "comm": comm}
        folder = tempfile.mkdtemp(prefix="worker.")
        os.chmod(folder, 0o755)
        path = folder + "/socket"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o777)
        listener.listen(1)
        listener.settimeout(WAIT)
        self.ours = parent is None
        self.dead = False
        try:
            if parent:
                parent.ask({"do": "fork", "path": path, "where": where, "exec": execute})
            else:
                self.fork_here(kind, path, where, execute, listener)
            self.connection, _ = listener.accept()
        finally:
            listener.close()
            os.unlink(path)
            os.rmdir(folder)
        self.buffer = b""
        self.pid = self.read()["value"]
        workers.append(self)

    @staticmethod
    def fork_here(kind, path, where, execute, listener):
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork() == 0:
            listener.close()
            for worker in workers:
                worker.connection.close()
            try:
                place.settle(**where)
                place.die_with_parent()
                thing = kind()
            except BaseException:  # pylint: disable=broad-except
                traceback.print_exc()
                os._exit(1)
            become(thing, path, {}, execute)

    def fork(self, execute=False, **where):
        return Worker(None, parent=self, execute=execute, **where)

    def read(self, timeout=WAIT):
        while b"\n" not in self.buffer:
            if not select.select([self.connection], [], [], timeout)[0]:
                raise Lost(f"process {self.pid} gave no answer within {timeout} s")
            data = self.connection.recv(1 << 16)
            if not data:
                raise Lost(f"process {getattr(self, 'pid', '?')} ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ask(self, todo, timeout=WAIT):
        self.connection.sendall((json.dumps(todo) + "\n").encode())
        answer = self.read(timeout)
        if "failed" in answer:
            raise Remote(answer["failed"])
        return answer["value"]

    def call(self, name, *args, wait=WAIT, **keys):
        return self.ask({"do": "call", "name": name, "args": args, "keys": keys}, wait)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **keys: self.call(name, *args, **keys)

    def begin(self, name, *args, **keys):
        self.ask({"do": "begin", "name": name, "args": args, "keys": keys})

    def end(self, stop=True, wait=WAIT):
        """Result of what begin() began; with stop=False it is let finish by itself."""
        return self.ask({"do": "end", "stop": stop}, wait)

    def kill(self):
        if self.dead:
            return
        self.dead = True
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.connection.close()
        if self.ours:
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass
        if self in workers:
            workers.remove(self)


def kill_all():
    for worker in reversed(workers[:]):
        worker.kill()


if __name__ == "__main__":
    import peers

    become(getattr(peers, sys.argv[2])(), sys.argv[1], {})
