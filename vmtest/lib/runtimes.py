"""What container runtimes leave behind for those who look: cgroups, and the files that say what a container is called.
Made as docker, podman, containerd with Kubernetes, and systemd make them, in the v2 hierarchy or in a v1 one."""
import json
import os
import random
import shutil

import place

V1 = "/sys/fs/cgroup/pids"  # a hierarchy that runtimes use and every kernel has
DOCKER = "/var/lib/docker/containers"
PODMAN = "/var/lib/containers/storage/overlay-containers"
TASKS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
PODS = "/var/log/pods"


def new_id():
    return f"{random.getrandbits(256):064x}"


def new_uid():
    text = f"{random.getrandbits(128):032x}"
    return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as file:
        json.dump(value, file)
    os.rename(path + ".new", path)  # whole or not at all, as they do


class Runtimes:
    """`hierarchy`: where cgroups are mounted that containers are put in. close() removes all that was made."""

    def __init__(self, hierarchy=place.CGROUP):
        self.hierarchy = hierarchy
        self.made = []

    # ---- cgroups

    def make(self, name):
        os.makedirs(os.path.join(self.hierarchy, name), exist_ok=True)
        self.made.append(name)
        return name

    def enter(self, name, pid):
        with open(os.path.join(self.hierarchy, name, "cgroup.procs"), "w") as procs:
            procs.write(str(pid))

    def remove(self, name):
        """An empty cgroup and those above it that are empty now."""
        while name:
            try:
                os.rmdir(os.path.join(self.hierarchy, name))
            except OSError:
                return
            name = os.path.dirname(name)

    # ---- names

    @staticmethod
    def docker(id_, name):
        write(f"{DOCKER}/{id_}/config.v2.json", {"ID": id_, "Name": "/" + name, "State": {"Running": True}})

    @staticmethod
    def docker_forgets(id_):
        shutil.rmtree(f"{DOCKER}/{id_}")

    @staticmethod
    def podman(id_, name):
        write(f"{PODMAN}/containers.json", [{"id": id_, "names": [name]}])

    @staticmethod
    def kubernetes(id_, container, pod, uid, namespace="default"):
        write(f"{TASKS}/{id_}/config.json", {"ociVersion": "1.0.2", "annotations": {
            "io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.container-name": container,
            "io.kubernetes.cri.sandbox-name": pod, "io.kubernetes.cri.sandbox-namespace": namespace}})
        os.makedirs(f"{PODS}/{namespace}_{pod}_{uid}", exist_ok=True)

    def close(self):
        for name in sorted(self.made, reverse=True):
            self.remove(name)
        for path in (DOCKER, PODMAN, TASKS, PODS):
            shutil.rmtree(path, ignore_errors=True)
