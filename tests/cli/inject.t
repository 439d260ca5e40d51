`inject` writes one rule from the words of the command line. --print shows it and loads nothing:

  $ chaosbpf inject delay=5s jitter=500ms --to 127.0.0.1:6333 --pid 42 --for 2m --print
  version: 1
  rules:
    - name: inject
      match:
        hosts: [127.0.0.1]
        ports: [6333]
        pid: 42
      fault:
        delay: 5s
        jitter: 500ms
      duration: 2m

Options may come in any order; hosts may be networks and IPv6, ports lists and ranges:

  $ chaosbpf inject --print --for=1h --to 10.0.0.0/8 --to ::1 refuse=timeout --port 80,9000-9010 --port 443
  version: 1
  rules:
    - name: inject
      match:
        hosts: [10.0.0.0/8, "::1"]
        ports: [80, 9000-9010, 443]
      fault:
        refuse: timeout
      duration: 1h
  $ chaosbpf inject --print drop=5% --to [::1]:6333,6334 --to [fd00::7]:6333,6334 --for 30s
  version: 1
  rules:
    - name: inject
      match:
        hosts: ["::1", "fd00::7"]
        ports: [6333, 6334]
      fault:
        drop: 5%
      duration: 30s
  $ chaosbpf inject --print drop --everything --include-ssh --for 10s --name all-of-it --percent 30 --per packet --max-hits 7 --max-rate 5/s --seed 42
  version: 1
  rules:
    - name: all-of-it
      match:
        everything: true
        include-ssh: true
      fault:
        drop: true
      percent: 30
      per: packet
      max-hits: 7
      max-rate: 5/s
      seed: 42
      duration: 10s
  $ chaosbpf inject --print reset --process 'gun*' --cgroup system.slice/rag.service --user www-data --side server --direction response --protocol tcp --for 1m
  version: 1
  rules:
    - name: inject
      match:
        protocol: tcp
        cgroup: system.slice/rag.service
        process: "gun*"
        user: www-data
        side: server
        direction: response
      fault:
        reset: true
      duration: 1m

Whatever a value holds, it stays that value:

  $ chaosbpf inject --print reset --for 1m --process 'a: "b" #\ {é'
  version: 1
  rules:
    - name: inject
      match:
        process: "a: \"b\" #\\ {\xe9"
      fault:
        reset: true
      duration: 1m
  $ chaosbpf inject --print reset --for 1m --process "$(printf 'a\nb: c')"
  chaosbpf: --process: a line end or control character in a text
  [2]
  $ chaosbpf inject --print reset --for 1m --process "$(printf 'a\377')"
  chaosbpf: --process: not valid UTF-8
  [2]

A rule has an end and a target, and a fault:

  $ chaosbpf inject reset --port 80
  chaosbpf: inject needs an end: --for
  chaosbpf: hint: such as --for 2m: no fault is loaded without one
  [2]
  $ chaosbpf inject reset --for 1m
  chaosbpf: inject needs to know whom to hit
  chaosbpf: hint: --to, --port, --pid, --process, --cgroup, --container, --pod, --unit or --user, or --everything
  [2]
  $ chaosbpf inject reset --for 1m --side server
  chaosbpf: --side: this names no address, port, cgroup, pid, process or user and would hit everything; name something, or say 'everything: true'
  [2]
  $ chaosbpf inject drop reset --port 80 --for 1m
  chaosbpf: reset: 'reset' and 'drop: true' contradict each other: the client would not hear of it
  [2]
  $ chaosbpf inject --port 80 --for 1m
  chaosbpf: inject needs a fault
  chaosbpf: hint: such as delay=5s, drop=5%, refuse=timeout or reset
  [2]

Maps are written a key at a time:

  $ chaosbpf inject --print break-after.chunks=12 drop.burst.loss=2% break-after.how=stall drop.burst.length=5 --to 127.0.0.1:80 --for 5s
  version: 1
  rules:
    - name: inject
      match:
        hosts: [127.0.0.1]
        ports: [80]
      fault:
        break-after:
          chunks: 12
          how: stall
        drop:
          burst:
            loss: 2%
            length: 5
      duration: 5s
  $ chaosbpf inject --print errno.operation=read errno.path=/models/** errno.error=EIO --process python3 --for 5s
  version: 1
  rules:
    - name: inject
      match:
        process: python3
      fault:
        errno:
          operation: read
          path: "/models/**"
          error: EIO
      duration: 5s
  $ chaosbpf inject --print call.library=libz.so.1 call.function=crc32 call.returns=-1 call.errno=EIO --pid 42 --for 5s
  version: 1
  rules:
    - name: inject
      match:
        pid: 42
      fault:
        call:
          library: libz.so.1
          function: crc32
          returns: "-1"
          errno: EIO
      duration: 5s
  $ chaosbpf inject --print gpu-oom reset.inside=true --pid 42 --for 5s
  chaosbpf: gpu-oom: 'gpu-oom' goes with no other fault: give each a rule of its own
  [2]
  $ chaosbpf inject drop.every=2 drop=5% --port 80 --for 1m
  chaosbpf: drop is given twice
  [2]
  $ chaosbpf inject drop.every=2 drop.every=3 --port 80 --for 1m
  chaosbpf: drop.every is given twice
  [2]
  $ chaosbpf inject drop.every --port 80 --for 1m
  chaosbpf: drop.every needs a value, as in drop.every=5
  [2]
  $ chaosbpf inject drop..every=2 --port 80 --for 1m
  chaosbpf: drop: '' is no key
  [2]
  $ chaosbpf inject drop.evry=2 --port 80 --for 1m
  chaosbpf: drop: unknown key 'evry', did you mean 'every'?
  [2]
  $ chaosbpf inject drop.a.b.c.d.e=2 --port 80 --for 1m
  chaosbpf: drop.a.b.c.d.e=2: no map is that deep
  [2]

Slips of the finger:

  $ chaosbpf inject dealy=5s --port 80 --for 1m
  chaosbpf: unknown fault 'dealy'
  chaosbpf: hint: did you mean 'delay'?
  [2]
  $ chaosbpf inject explode --port 80 --for 1m
  chaosbpf: unknown fault 'explode'
  chaosbpf: hint: faults are drop, delay, jitter, distribution, refuse, reset, accept-silence, tls-stall, duplicate, corrupt, reorder, half-open, rate, tokens, dns, break-after, status, body, hang, error-event, drop-done, garble, grpc, gpu-oom, call and errno, as in delay=5s
  [2]
  $ chaosbpf inject delay --port 80 --for 1m
  chaosbpf: delay needs a value, as in delay=5s
  [2]
  $ chaosbpf inject delay=1s delay=2s --port 80 --for 1m
  chaosbpf: delay is given twice
  [2]
  $ chaosbpf inject delay=1s --port 80 --for 1m --for 2m
  chaosbpf: --for is given twice
  [2]
  $ chaosbpf inject delay=1s --port 80 --for 1m --name a --name b
  chaosbpf: --name is given twice
  [2]
  $ chaosbpf inject delay=1s --porrt 80 --for 1m
  chaosbpf: inject has no option '--porrt'
  chaosbpf: hint: did you mean '--port'?
  [2]

What the language refuses is said of the word it stands in:

  $ chaosbpf inject delay=soon --port 80 --for 1m
  chaosbpf: delay: invalid delay 'soon', expected a duration such as 500ms, 8s or 1m30s
  [2]
  $ chaosbpf inject delay=1s --port 99999 --for 1m
  chaosbpf: --port: invalid port '99999', expected a port from 1 to 65535 or a range such as 9000-9010
  [2]
  $ chaosbpf inject delay=1s --to 'now*here' --for 1m
  chaosbpf: --to: invalid host name 'now*here': a '*' stands in front of a dot and nowhere else: '*.example.com'
  [2]
  $ chaosbpf inject delay=1s --to 10.0.0.7 --for later
  chaosbpf: --for: invalid duration 'later', expected a duration such as 500ms, 8s or 1m30s
  [2]
  $ chaosbpf inject refuse=maybe --port 80 --for 1m
  chaosbpf: refuse: unknown refuse 'maybe', expected refused, timeout, unreachable or denied
  [2]
  $ chaosbpf inject delay=1s --port 80 --for 1m --percent 200
  chaosbpf: --percent: invalid percent '200', expected a percentage from 0 to 100, such as 30 or 0.5%
  [2]
  $ chaosbpf inject delay=1s --pid self --for 1m --json
  {
    "error": "--pid: invalid pid 'self', expected a whole number from 1 to 4194304",
    "hint": null,
    "exit": 2
  }
  [2]

Ports are given once for all hosts, so that no pair is hit that nobody named:

  $ chaosbpf inject reset --to 10.0.0.7:80 --to 10.0.0.8:443 --for 1m
  chaosbpf: --to 10.0.0.7:80 and --to 10.0.0.8:443 differ in their ports
  chaosbpf: hint: one rule has one set of ports: write a rules file with a rule for each
  [2]
  $ chaosbpf inject reset --to 10.0.0.7:80 --port 443 --for 1m
  chaosbpf: --port: --to names the port already
  chaosbpf: hint: write either --to HOST:PORT or --to HOST --port PORT
  [2]
  $ chaosbpf inject reset --to :80 --for 1m
  chaosbpf: --to: ':80' lacks its host
  chaosbpf: hint: write --to 10.0.0.7:6333, or --port 6333 for that port of any host
  [2]
  $ chaosbpf inject reset --to 10.0.0.7: --for 1m
  chaosbpf: --to: '10.0.0.7:' lacks its port
  chaosbpf: hint: write --to 10.0.0.7:6333, or --port 6333 for that port of any host
  [2]
  $ chaosbpf inject reset --to [::1 --for 1m
  chaosbpf: --to: '[::1' is not an address
  [2]
