"""What most cases stand on: a server on loopback and one behind a veth pair, a victim and its neighbour."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import chaos  # noqa: E402
import place  # noqa: E402
from case import skip  # noqa: E402
from peers import Client, Server  # noqa: E402
from worker import Worker  # noqa: E402

VICTIM, NEIGHBOUR = "case/victim", "case/neighbour"

INSIDE = 50  # ports of servers that speak TLS are so much higher
VERSIONS = ["1.2", "1.3"]  # of TLS

# path, family, address that the client names, address that a rule names
PLACES = [
    ("lo", "4", "127.0.0.1", "127.0.0.1"),
    ("lo", "6", "::1", "::1"),
    ("lo", "mapped", "::ffff:127.0.0.1", "127.0.0.1"),
    ("veth", "4", "10.77.1.2", "10.77.1.2"),
    ("veth", "6", "fd77:1::2", "fd77:1::2"),
    ("veth", "mapped", "::ffff:10.77.1.2", "10.77.1.2"),
]


def needs_memory():
    """What a process reads inside TLS is changed in its memory, which kernels that are locked down do not let programs write."""
    if not chaos.doctor("features")["write-user"]:
        skip("programs may not write the memory of processes here")


class Scene:
    """`network`: how many namespaces; 0 leaves loopback alone."""

    def __init__(self, network=1):
        for name in (VICTIM, NEIGHBOUR, "case/server"):
            place.make_cgroup(name)
        self.network = place.Network(network) if network else None
        self.near = Worker(Server, cgroup="case/server", comm="near-server")
        self.far = Worker(Server, netns="ns1", cgroup="case/server", comm="far-server") if network else None
        self.victim = self.client(cgroup=VICTIM, comm="victim")
        self.neighbour = self.client(cgroup=NEIGHBOUR, comm="neighbour")

    @staticmethod
    def client(**where):
        worker = Worker(Client, **where)
        worker.call_me(where.get("comm", "client"))
        return worker

    def servers(self):
        return [server for server in (self.near, self.far) if server]

    def server_of(self, path):
        return self.far if path == "veth" else self.near

    def listen(self, port, kind="http"):
        """On every address of both servers."""
        for host in ("127.0.0.1", "::1"):
            self.near.listen(host, port, kind)
        if self.far:
            for host in ("10.77.1.2", "fd77:1::2"):
                self.far.listen(host, port, kind)

    def close(self):
        if self.network:
            self.network.close()
        place.remove_cgroup("case")
