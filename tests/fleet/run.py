#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""The files in tools/ for more than one machine: the Ansible role at work, Kubernetes and Chaos Toolkit files read.

tests/fleet/run.py, with build/chaosbpf (or $CHAOSBPF). Hosts of the fleet are folders with a stand-in for chaosbpf, each in
a network namespace of its own where that can be had. With FLEET=real, and as root, some have chaosbpf itself instead, and a
service that it breaks. PART=name (a glob) runs some parts only. What is missing here (ansible, yaml, root) is a skip with its reason.
"""
import ctypes
import fnmatch
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
PROGRAM = os.environ.get("CHAOSBPF", str(TOP / "build/chaosbpf"))
PLAYBOOK = TOP / "tools/ansible/experiment.yaml"
RAG = TOP / "vmtest/lib/rag.py"
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000

try:
    import yaml
except ImportError:
    yaml = None


class Skip(Exception):
    """Why it cannot be looked at here."""


def expect(truth, words):
    if not truth:
        raise AssertionError(words)


def expect_equal(got, wanted, words):
    expect(got == wanted, f"{words}: got {got!r}, wanted {wanted!r}")


# ---- Ansible

class Fleet:
    """Hosts a, b, c... with the exit codes that their runs will have."""

    def __init__(self, folder, codes):
        self.folder = pathlib.Path(folder)
        self.hosts = dict(zip("abcdefgh", codes))
        for name, code in self.hosts.items():
            (self.folder / name).mkdir()
            (self.folder / name / "verdict").write_text(f"{code}\n")
            self.make_shell(name)
        (self.folder / "ansible.cfg").touch()  # nobody else's
        (self.folder / "hosts").write_text("".join(f"{self.line(name)}\n" for name in self.hosts))

    def make_shell(self, name):
        """What Ansible starts on that host: a shell in its network namespace."""
        enter = f"exec nsenter --net={self.folder}/{name}/net " if NAMESPACES else "exec "
        shell = self.folder / name / "sh"
        shell.write_text(f"#!/bin/sh\nexport FLEET_HOST={self.folder}/{name}\n{enter}/bin/sh \"$@\"\n")
        shell.chmod(0o755)
        if NAMESPACES:
            net = self.folder / name / "net"
            net.touch()
            subprocess.run(["unshare", f"--net={net}", "true"], check=True)

    def line(self, name):
        return (f"{name} chaosbpf_program={self.program(name)} ansible_connection=local ansible_become=false ansible_python_interpreter={sys.executable} "
                f"ansible_shell_executable={self.folder}/{name}/sh ansible_remote_tmp={self.folder}/{name}/tmp "
                f"ansible_async_dir={self.folder}/{name}/async")

    def program(self, _):
        return HERE / "chaosbpf"

    def play(self, batch, **variables):
        """The playbook on all of them; its exit code and what it said."""
        words = {"batch": batch, "chaosbpf_reports": self.folder / "reports", "chaosbpf_operator": "ada", "chaosbpf_look_s": 1, **variables}
        command = ["ansible-playbook", "-i", self.folder / "hosts", PLAYBOOK]
        for key, value in words.items():
            command += ["-e", f"{key}={value}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900,  # on a machine that is busy with a hundred other tests
                             
                              env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(self.folder / "local"), "ANSIBLE_NOCOLOR": "1",
                                   "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"), "HOME": str(self.folder), "FLEET_TAKES": "40"
                                   if any(code not in (0, 4) for code in self.hosts.values()) else "2"})
        return done.returncode, done.stdout + done.stderr

    def log(self, name):
        """The commands of that host, by their first words."""
        file = self.folder / name / "log"
        return [line.split()[1:] for line in file.read_text().splitlines()] if file.exists() else []

    def did(self, name):
        return ["dry-run" if "--dry-run" in words else words[1] for words in self.log(name)]

    def report(self, name):
        return json.loads((self.folder / "reports" / name / "run.json").read_text())


# Who is broken is named by a name that no other program of this machine has.
EXPERIMENT = """
version: 1
experiment: fleet-one
environment: staging
probes: [ {{ name: ask, http: "http://127.0.0.1:8080/ask", every: 500ms, timeout: 8s, expect: {{ status: 200, body-contains: END }} }} ]
steady: {{ ask.success: ">= 99%" }}
during: {{ ask.success: ">= 90%", within: 2s }}
abort: {{ ask.success: "< 20%", for: 4s }}
recovery: {{ within: 60s, for: 1s }}
baseline: 3s
observe: {observe}
method:
  - rules:
      - {{ name: dark, match: {{ process: fleet-rag, hosts: 127.0.0.1, ports: 9000 }}, fault: {{ refuse: refused }} }}
"""


class RealFleet(Fleet):
    """Those of `services` have chaosbpf itself, and a service that is good or has that mistake (vmtest/lib/rag.py); the others
    are stand-ins. Programs of BPF see all of this machine, so only one of them runs an experiment at a time."""

    def __init__(self, folder, codes, services, observe="6s"):
        self.services, self.running = services, []
        super().__init__(folder, codes)
        (self.folder / "rules").mkdir()
        (self.folder / "rules/one.yaml").write_text(EXPERIMENT.format(observe=observe))
        for name, mistake in services.items():
            self.serve(name, mistake)

    def program(self, name):
        return PROGRAM if name in self.services else super().program(name)

    def make_shell(self, name):
        super().make_shell(name)
        if name not in self.services:
            return
        folder = self.folder / name
        holder = subprocess.Popen(["unshare", "--mount", "--propagation=private", "sh", "-c",
                                   "mount -t tmpfs tmpfs /run && mount -t bpf bpf /sys/fs/bpf && echo ready && exec sleep inf"],
                                  stdout=subprocess.PIPE, text=True)
        self.running.append(holder)
        expect_equal(holder.stdout.readline(), "ready\n", f"mounts of {name}")
        (folder / "sh").write_text(f"#!/bin/sh\nexport CHAOSBPF_DATABASE={folder}/findings.db\n"
                                   f"exec nsenter --net={folder}/net --mount=/proc/{holder.pid}/ns/mnt /bin/sh \"$@\"\n")
        self.on(name, "ip", "link", "set", "lo", "up")

    def on(self, name, *words):
        """A command on that host; what it printed."""
        done = subprocess.run([self.folder / name / "sh", "-c", shlex.join(map(str, words))], capture_output=True, text=True,
                              timeout=120, check=False)
        expect_equal(done.returncode, 0, f"{words} on {name}: {done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, name, mistake):
        python = self.folder / name / "fleet-rag"
        python.symlink_to(sys.executable)
        for words in (["dependencies"], ["service", mistake]):
            command = shlex.join(map(str, ["exec", python, RAG, *words]))
            self.running.append(subprocess.Popen([self.folder / name / "sh", "-c", command], stdin=subprocess.DEVNULL))
        ask = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8080/ask', timeout=5).status)"
        end = time.monotonic() + 60
        while True:
            try:
                return expect_equal(self.on(name, sys.executable, "-c", ask), "200\n", "its service")
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def kept(self, name):
        """The runs that host has on record: experiment and verdict."""
        runs = json.loads(self.on(name, PROGRAM, "history", "--json"))["runs"]
        return [(one["experiment"], one["verdict"]) for one in runs]

    def status(self, name):
        return json.loads(self.on(name, PROGRAM, "status", "--json"))

    def nothing_loaded(self, name):
        return not self.status(name)["loaded"]

    def when_broken(self, name, then):
        """Waits for the first fault."""
        end = time.monotonic() + 300
        while not any(one["injected"] for one in self.status(name)["rules"]) and time.monotonic() < end:
            time.sleep(0.2)
        then()

    def play_one(self, batch):
        return self.play(batch, chaosbpf_rules=self.folder / "rules", chaosbpf_experiment="one.yaml")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def real_fleet(codes, services, **more):
    if not shutil.which("ansible-playbook"):
        raise Skip("no ansible-playbook (Debian's package is ansible-core)")
    if not NAMESPACES:
        raise Skip("no root, or no namespaces: chaosbpf itself breaks nothing here")
    said = subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True, text=True, check=False)
    features = {one["name"]: one["here"] for one in json.loads(said.stdout)["features"]} if said.stdout else {}
    if not features.get("bpf") or not features.get("cgroup2"):
        raise Skip("no BPF here: chaosbpf itself breaks nothing")
    return RealFleet(tempfile.mkdtemp(prefix="fleet.", dir="/mnt"), codes, services, **more)


def fleet(codes):
    if not shutil.which("ansible-playbook"):
        raise Skip("no ansible-playbook (Debian's package is ansible-core)")
    return Fleet(tempfile.mkdtemp(prefix="fleet.", dir="/mnt" if NAMESPACES else None), codes)


def ansible_all_hold():
    f = fleet([0, 0])
    code, said = f.play("50%")
    expect_equal(code, 0, said)
    for name in f.hosts:
        expect_equal(f.did(name), ["dry-run", "run", "report"], f"commands of host {name}: {said}")
        expect_equal(f.report(name)["verdict"], "held", name)
        expect((f.folder / "reports" / name / "report.html").exists(), f"the report of {name}")
        words = next(words for words in f.log(name) if "run" in words and "--dry-run" not in words)
        expect_equal(words[1:4], ["run", "--operator", "ada"], "the command")
        expect(not os.path.exists(words[-1]), f"the folder of the experiment is left on {name}")
    places = {f.log(name)[0][0] for name in f.hosts}
    expect_equal(len(places), 2 if NAMESPACES else 1, "network namespaces of the hosts")
    shutil.rmtree(f.folder, ignore_errors=True)


def ansible_abort_stops_all():
    """The second aborts: the first is stopped, and the third never begins."""
    f = fleet([0, 5, 0])
    code, said = f.play(2)
    expect(code != 0, "the playbook fails")
    expect_equal([f.did(name) for name in "abc"],
                 [["dry-run", "run", "stop", "report"], ["dry-run", "run", "report"], []],
                 f"commands of the hosts: {said}")
    expect_equal({f.report(name)["verdict"] for name in "ab"}, {"aborted"}, "verdicts")
    expect("aborted: for a test" in said, f"the reason is told: {said}")
    shutil.rmtree(f.folder, ignore_errors=True)


def ansible_weakness_ends_after_the_batch():
    f = fleet([4, 0])
    code, said = f.play(1)
    expect(code != 0, "the playbook fails")
    expect_equal([f.did(name) for name in "ab"], [["dry-run", "run", "report"], []], f"commands of the hosts: {said}")
    expect_equal(f.report("a")["verdict"], "weakness", "verdict")
    shutil.rmtree(f.folder, ignore_errors=True)


def ansible_none_begins_when_one_cannot():
    f = fleet([0, 3])
    code, said = f.play(2)
    expect(code != 0, "the playbook fails")
    expect_equal([f.did(name) for name in "ab"], [["dry-run"], ["dry-run"]], f"commands of the hosts: {said}")
    shutil.rmtree(f.folder, ignore_errors=True)


# With chaosbpf itself: faults, verdicts and reports are real.

def ansible_real_one_after_the_other():
    """The first holds its promise, the second does not, the third is not asked: as in the findings of each."""
    with real_fleet([0, 0, 0], {"a": "good", "b": "model-or-nothing"}) as f:
        code, said = f.play_one(1)
        expect(code != 0, "the playbook fails")
        expect_equal([f.report(name)["verdict"] for name in "ab"], ["held", "aborted"], f"verdicts: {said}")
        expect(all(f.report(name)["injected"] for name in "ab"), f"injected: {said}")
        expect_equal([f.kept(name) for name in "ab"], [[("fleet-one", "held")], [("fleet-one", "aborted")]], "on record")
        for name in "ab":
            page = (f.folder / "reports" / name / "report.html").read_text()
            expect("fleet-one" in page and "</html>" in page, f"the page of {name}")
            expect("<testsuite" in (f.folder / "reports" / name / "junit.xml").read_text(), f"JUnit of {name}")
            expect(f.nothing_loaded(name), f"loaded on {name}")
        expect_equal(f.did("c"), [], "the third")


def ansible_real_run_is_stopped():
    """Another host aborts while chaosbpf breaks something on this one: it is stopped, says so, and nothing is left."""
    with real_fleet([5, 0], {"b": "good"}, observe="300s") as f:
        (f.folder / "a" / "waits").touch()
        threading.Thread(target=f.when_broken, args=("b", (f.folder / "a" / "waits").unlink)).start()
        code, said = f.play_one(2)
        expect(code != 0, "the playbook fails")
        expect_equal(f.did("a"), ["dry-run", "run", "report"], "the one that aborts")
        expect_equal((f.report("b")["verdict"], f.report("b")["reason"]), ("aborted", "ended by 'chaosbpf stop'"), said)
        expect(f.report("b")["injected"], "nothing was broken when it was stopped")
        expect_equal(f.kept("b"), [("fleet-one", "aborted")], "on record")
        expect(f.nothing_loaded("b"), "loaded")


def ansible_real_abort_stops_others():
    """It aborts by itself, by what its probes meet: the stand-in beside it is told to stop."""
    with real_fleet([0, 0], {"a": "model-or-nothing"}, observe="120s") as f:
        (f.folder / "b" / "waits").touch()
        code, said = f.play_one(2)
        expect(code != 0, "the playbook fails")
        expect_equal(f.report("a")["verdict"], "aborted", said)
        expect("ask.success" in f.report("a")["reason"], f.report("a")["reason"])
        expect_equal(f.did("b"), ["dry-run", "run", "stop", "report"], f"commands of the other: {said}")


# ---- Kubernetes

WHAT = {"Namespace": "v1", "ServiceAccount": "v1", "Role": "rbac.authorization.k8s.io/v1",
        "RoleBinding": "rbac.authorization.k8s.io/v1", "DaemonSet": "apps/v1", "Job": "batch/v1"}
# What each kind of thing may hold here: a word that is written wrong is refused by the cluster, or worse, passed over.
POD = {"serviceAccountName", "automountServiceAccountToken", "hostPID", "nodeSelector", "tolerations",
       "terminationGracePeriodSeconds", "containers", "volumes", "restartPolicy"}
CONTAINER = {"name", "image", "command", "args", "env", "lifecycle", "resources", "securityContext", "volumeMounts"}
SECURITY = {"runAsUser": 0, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "Unconfined"},
            "capabilities": {"drop": ["ALL"],
                             "add": ["SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH", "SYS_RESOURCE"]}}


def documents():
    if not yaml:
        raise Skip("no YAML for Python (Debian's package is python3-yaml)")
    found = []
    for path in sorted((TOP / "tools/kubernetes").glob("*.yaml")):
        with open(path) as file:
            found += list(yaml.safe_load_all(file))
    return found


def named(found, kind, name):
    return next((one for one in found if one["kind"] == kind and one["metadata"]["name"] == name), None)


def look_at_pod(found, pod):
    expect(set(pod) <= POD, f"words of a pod: {set(pod) - POD}")
    expect(named(found, "ServiceAccount", pod["serviceAccountName"]), "its account is there")
    expect_equal(pod["automountServiceAccountToken"], False, "no token of the cluster")
    (container,) = pod["containers"]
    expect(set(container) <= CONTAINER, f"words of a container: {set(container) - CONTAINER}")
    expect_equal(container["securityContext"], SECURITY, "what it may")
    mounts = {one["name"] for one in container["volumeMounts"]}
    expect_equal(mounts, {one["name"] for one in pod["volumes"]}, "what is mounted, and the volumes")
    places = {one["mountPath"] for one in container["volumeMounts"]}
    expect(places >= {"/sys/fs/bpf", "/sys/fs/cgroup", "/run/chaosbpf", "/var/lib/chaosbpf"}, f"mounted: {places}")
    return container


def kubernetes_files():
    found = documents()
    pods = [one["spec"]["template"] for one in found if one["kind"] in ("DaemonSet", "Job")]
    for one in found:
        expect_equal(one["apiVersion"], WHAT[one["kind"]], one["kind"])
        expect_equal(one["metadata"].get("namespace", "chaosbpf"), "chaosbpf", f"namespace of {one['kind']}")
    containers = [look_at_pod(found, pod["spec"]) for pod in pods]
    expect_equal(len({one["image"] for one in containers}), 1, "one image")
    daemon, job = named(found, "DaemonSet", "chaosbpf")["spec"], next(one for one in found if one["kind"] == "Job")["spec"]
    expect(daemon["selector"]["matchLabels"].items() <= daemon["template"]["metadata"]["labels"].items(), "its own pods")
    expect_equal((job["backoffLimit"], job["template"]["spec"]["restartPolicy"]), (0, "Never"), "a run is never tried again")


def strict(schemas):
    """As the cluster has it with strict validation: a word that is not known is an error."""
    for one in schemas.values():
        if "properties" in one:
            one.setdefault("additionalProperties", False)
        if one.get("format") == "int-or-string":
            del one["type"]
    return schemas


def kubernetes_schemas():
    """Against Kubernetes' own: api/openapi-spec/swagger.json of its repository, in $KUBERNETES_SWAGGER."""
    try:
        import jsonschema
    except ImportError as error:
        raise Skip("no jsonschema for Python (Debian's package is python3-jsonschema)") from error
    if "KUBERNETES_SWAGGER" not in os.environ:
        raise Skip("KUBERNETES_SWAGGER names no swagger.json of Kubernetes")
    with open(os.environ["KUBERNETES_SWAGGER"]) as file:
        schemas = strict(json.load(file)["definitions"])
    kinds = {(one["group"], one["version"], one["kind"]): name for name, schema in schemas.items()
             for one in schema.get("x-kubernetes-group-version-kind", [])}
    for one in documents():
        group, _, version = one["apiVersion"].rpartition("/")
        schema = {"$ref": f"#/definitions/{kinds[group, version, one['kind']]}", "definitions": schemas}
        wrong = [f"{list(error.path)}: {error.message[:200]}" for error in jsonschema.Draft4Validator(schema).iter_errors(one)]
        expect_equal(wrong, [], one["kind"])


def kubernetes_rights():
    """One namespace, no wildcards, nothing beyond jobs, their files and their logs."""
    found = documents()
    expect_equal([one["kind"] for one in found if one["kind"].startswith("Cluster")], [], "rights in the whole cluster")
    role, binding = named(found, "Role", "experimenter"), named(found, "RoleBinding", "experimenters")
    expect_equal(binding["roleRef"]["name"], role["metadata"]["name"], "the role that is bound")
    expect("chaosbpf" not in [one["name"] for one in binding["subjects"]], "nothing for the pods themselves")
    granted = {resource for rule in role["rules"] for resource in rule["resources"]}
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    expect_equal(granted, {"jobs", "configmaps", "pods", "pods/log"}, "on what")
    expect("*" not in verbs | granted, "no wildcard")


def container_recipe():
    """It installs what the program is linked with, and copies what `make install` writes."""
    text = (TOP / "tools/kubernetes/Containerfile").read_text()
    for library in ("libbpf", "libsmartcols", "libmnl", "libyaml", "libjansson", "libsqlite3", "libcurl"):
        expect(re.search(rf"\b{library}[-0-9]", text), f"{library} is installed")


# ---- Chaos Toolkit

def chaos_toolkit():
    """Its commands are commands of ours, with options that they know."""
    with open(TOP / "tools/chaostoolkit/experiment.json") as file:
        text = json.load(file)
    steps = text["method"] + text["rollbacks"]
    expect(set(text) <= {"title", "description", "tags", "configuration", "steady-state-hypothesis", "method", "rollbacks"},
           "its words")
    expect_equal([one["provider"]["type"] for one in steps], ["process"] * len(steps), "providers")
    for step in steps:
        provider = step["provider"]
        expect_equal(provider["path"], "chaosbpf", step["name"])
        words = shlex.split(provider["arguments"].replace("${rules}", "rules/silent-qdrant.yaml"))
        said = subprocess.run([PROGRAM, words[0], "--help"], capture_output=True, text=True, check=False)
        expect_equal(said.returncode, 0, f"{words[0]} --help")
        for option in (word for word in words if word.startswith("--")):
            expect(option in said.stdout or option == "--json", f"{words[0]} knows no {option}")


# ---- all of it

NAMESPACES = False


def begin():
    """Namespaces of our own, so that those of the hosts go with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0 and libc.unshare(CLONE_NEWNS | CLONE_NEWNET) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=True)
        return True
    return False


REAL = (ansible_real_one_after_the_other, ansible_real_run_is_stopped, ansible_real_abort_stops_others)
PARTS = (kubernetes_files, kubernetes_schemas, kubernetes_rights, container_recipe, chaos_toolkit, ansible_all_hold,
         ansible_abort_stops_all, ansible_weakness_ends_after_the_batch, ansible_none_begins_when_one_cannot)


def main():
    global NAMESPACES
    NAMESPACES = begin()
    failed = False
    for part in REAL if os.environ.get("FLEET") == "real" else PARTS:
        if not fnmatch.fnmatch(part.__name__, os.environ.get("PART", "*")):
            continue
        name = f"fleet/{part.__name__}"
        try:
            part()
            print(f"ok {name}", flush=True)
        except Skip as reason:
            print(f"skip {name}: {reason}", flush=True)
        except (AssertionError, KeyError, ValueError, OSError, subprocess.SubprocessError) as error:
            print(f"not ok {name}: {error}", flush=True)
            failed = True
    sys.exit(failed)


main()
