`run --dry-run` prints the plan of an experiment to anybody.

  $ cat >db.yaml <<END
  > version: 1
  > rules:
  >   - name: silent-db
  >     match: { hosts: 127.0.0.1, ports: 6333 }
  >     fault: { drop: true }
  >     duration: 2m
  > END
  $ cat >e.yaml <<END
  > version: 1
  > experiment: vector-db-timeout
  > title: When the vector database goes silent, answers come from keyword search
  > environment: staging
  > probes:
  >   - { name: ask, http: "http://127.0.0.1:8080/ask", every: 500ms, timeout: 3s }
  > steady:   { ask.success: ">= 99%", ask.p99: "<= 800ms" }
  > during:   { ask.success: ">= 90%", within: 30s }
  > abort:    { ask.success: "< 20%", for: 10s }
  > observe: 2m
  > method:
  >   - exec: [redis-cli, FLUSHDB]
  >   - rules: db.yaml
  > END
  $ chaosbpf run --dry-run e.yaml
  vector-db-timeout: When the vector database goes silent, answers come from keyword search
  environment staging
  probe ask: http://127.0.0.1:8080/ask every 500 ms, at most 3 s
    +0s      baseline  30 s, and before anything is broken: ask.success >= 99 %, ask.p99 <= 800 ms
    +30s     inject    exec redis-cli FLUSHDB
    +1m      inject    rules db.yaml
                       silent-db: connections from any process to 127.0.0.1, port 6333, go silent; ends after 2 min.
    +1m      observe   2 min; after at most 30 s of degrading: ask.success >= 90 %
    +3m      rollback  or as soon as ask.success < 20 % for 10 s
    +3m      recover   within 1 min, for 5 s: ask.success >= 99 %, ask.p99 <= 800 ms
    +4m5s    verdict   at the latest
  chaosbpf: note: run as root to know whether this kernel can
  $ chaosbpf run --dry-run --json e.yaml | head -12
  {
    "experiment": "vector-db-timeout",
    "title": "When the vector database goes silent, answers come from keyword search",
    "environment": "staging",
    "file": "e.yaml",
    "baseline_s": 30,
    "observe_s": 120,
    "within_s": 30,
    "recovery_within_s": 60,
    "recovery_for_s": 5,
    "abort_for_s": 10,
    "cooldown_s": 0,

What is promised must be a number:

  $ grep -v 'steady\|during\|abort' e.yaml >words.yaml
  $ chaosbpf run --dry-run words.yaml
  chaosbpf: words.yaml:1:1: no hypothesis: nothing is promised under 'steady' or 'during', so nothing could be found
  chaosbpf: hint: write what is promised as numbers, such as steady: { ask.success: ">= 99%", ask.p99: "<= 800ms" } and during: { ask.success: ">= 90%", within: 30s }
  [2]

Errors name the place, exit code 2:

  $ sed 's/ask.success: ">= 90%"/ask.sucess: ">= 90%"/' e.yaml >wrong.yaml
  $ chaosbpf run wrong.yaml
  chaosbpf: wrong.yaml:8:13: unknown measure 'sucess', did you mean 'success'?
  [2]
  $ sed 's/"< 20%"/low/' e.yaml >wrong.yaml
  $ chaosbpf run wrong.yaml
  chaosbpf: wrong.yaml:9:26: invalid ask.success 'low', it is no comparison; expected a comparison such as ">= 99%"
  [2]
  $ sed 's/rules: db/rules: nowhere/' e.yaml >wrong.yaml
  $ chaosbpf run --json wrong.yaml
  {
    "error": "wrong.yaml:13:12: cannot open 'nowhere.yaml': No such file or directory",
    "hint": null,
    "exit": 2
  }
  [2]
  $ sed 's/drop/dorp/' db.yaml >dp.yaml
  $ sed 's/rules: db/rules: dp/' e.yaml >wrong.yaml
  $ chaosbpf run wrong.yaml
  chaosbpf: dp.yaml:5:14: unknown key 'dorp', did you mean 'drop'?
  [2]

A policy says what may be done:

  $ cat >policy.yaml <<END
  > version: 1
  > operator: required
  > blast: { max-duration: 1m }
  > END
  $ chaosbpf run --dry-run --policy policy.yaml e.yaml
  chaosbpf: policy.yaml:2:11: somebody must be on call, and nobody is named
  chaosbpf: hint: name the person with --operator NAME
  [2]
  $ chaosbpf run --dry-run --policy policy.yaml --operator ada e.yaml
  chaosbpf: policy.yaml:3:24: rule 'silent-db' lasts 2 min, at most 1 min are allowed
  [2]
  $ chaosbpf run --dry-run --environment production e.yaml
  chaosbpf: e.yaml:2:13: 'production' is forbidden, there is no /etc/chaosbpf/policy.yaml that allows it
  [2]

Without root nothing is broken:

  $ chaosbpf run --webhooks hooks.yaml --database f.db e.yaml
  chaosbpf: run needs root: run it with sudo
  [1]
  $ chaosbpf run
  chaosbpf: run needs an experiment file
  chaosbpf: hint: 'chaosbpf run --help' shows how
  [2]
