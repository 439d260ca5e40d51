Without root nothing is loaded, and no command pretends that something was done:

  $ printf 'version: 1\nrules:\n  - name: slow\n    match: { hosts: [127.0.0.1] }\n    fault: { delay: 5s }\n    duration: 1m\n' >slow.yaml
  $ chaosbpf load slow.yaml
  chaosbpf: load needs root: run it with sudo
  [1]
  $ chaosbpf exec slow.yaml -- echo not started
  chaosbpf: exec needs root: run it with sudo
  [1]
  $ chaosbpf inject delay=5s --to 127.0.0.1 --for 1m
  chaosbpf: inject needs root: run it with sudo
  [1]
  $ chaosbpf unload
  chaosbpf: unload needs root: run it with sudo
  [1]
  $ chaosbpf stop
  chaosbpf: stop needs root: run it with sudo
  [1]
  $ chaosbpf status
  chaosbpf: status needs root: run it with sudo
  [1]
  $ chaosbpf status --watch 5
  chaosbpf: status needs root: run it with sudo
  [1]
  $ chaosbpf events --follow
  chaosbpf: events needs root: run it with sudo
  [1]
  $ chaosbpf doctor
  chaosbpf: doctor needs root: run it with sudo
  [1]

For programs the same is said in JSON, on standard output:

  $ chaosbpf stop --json 2>/dev/null
  {
    "error": "stop needs root: run it with sudo",
    "hint": null,
    "exit": 1
  }
  [1]
  $ chaosbpf --json status 2>/dev/null
  {
    "error": "status needs root: run it with sudo",
    "hint": null,
    "exit": 1
  }
  [1]

Only with `exec` standard output belongs to the command, so there it is standard error:

  $ chaosbpf exec --json slow.yaml -- echo not started 2>/dev/null
  [1]
  $ chaosbpf exec --json slow.yaml -- echo not started
  {
    "error": "exec needs root: run it with sudo",
    "hint": null,
    "exit": 1
  }
  [1]
