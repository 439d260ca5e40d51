Findings are kept in a database; here it is one that an earlier version made. Whoever may read it needs no root.

  $ python3 -c 'import sqlite3; sqlite3.connect("f.db").executescript(open("../data/findings-1.sql").read())'
  $ chaosbpf history --database f.db
  RUN STARTED                 EXPERIMENT        ENVIRONMENT VERDICT     TOOK OPEN
    4 2026-09-25 14:13:20 UTC provider-dark     staging     interrupted 10s  no
    3 2026-09-23 14:13:20 UTC provider-dark     staging     aborted     22s  no
    2 2026-09-22 14:13:20 UTC vector-db-timeout staging     weakness    40s  yes
    1 2026-09-21 14:13:20 UTC vector-db-timeout staging     held        40s  no
  $ CHAOSBPF_DATABASE=f.db chaosbpf history --summary
  EXPERIMENT        RUNS HELD WEAKNESS ABORTED SKIPPED OTHERS PASS RATE OPEN LAST
  provider-dark        2    0        0       1       0      1 0 %          0 interrupted
  vector-db-timeout    2    1        1       0       0      0 50 %         1 weakness
  $ chaosbpf history --database f.db --experiment vector-db-timeout
  RUN STARTED                 EXPERIMENT        ENVIRONMENT VERDICT  TOOK OPEN
    2 2026-09-22 14:13:20 UTC vector-db-timeout staging     weakness 40s  yes
    1 2026-09-21 14:13:20 UTC vector-db-timeout staging     held     40s  no
  $ chaosbpf history --database f.db --experiment vector-db-timeout --json
  {
    "runs": [
      {
        "id": 2,
        "started_at": 1790086400,
        "experiment": "vector-db-timeout",
        "environment": "staging",
        "operator": "Alice Novak",
        "verdict": "weakness",
        "length_s": 40,
        "open": true,
        "resolved_note": null
      },
      {
        "id": 1,
        "started_at": 1790000000,
        "experiment": "vector-db-timeout",
        "environment": "staging",
        "operator": "Alice Novak",
        "verdict": "held",
        "length_s": 40,
        "open": false,
        "resolved_note": null
      }
    ],
    "pass_rate": 50,
    "open": 1,
    "failed": null
  }
  $ chaosbpf history --database f.db --since 1h
  no runs
  $ chaosbpf history --database f.db --since 1h --json
  {
    "runs": [],
    "pass_rate": null,
    "open": 0,
    "failed": null
  }

The gate for CI is exit code 4:

  $ chaosbpf history --database f.db --min-pass-rate 30% >/dev/null
  $ chaosbpf history --database f.db --min-pass-rate 80% >/dev/null
  chaosbpf: pass rate is 33.33 %, and 80 % is asked
  [4]
  $ chaosbpf history --database f.db --fail-on-weakness >/dev/null
  chaosbpf: 1 run has an open weakness, the newest is run 2
  chaosbpf: hint: 'chaosbpf report RUN' says what; 'chaosbpf history resolve' closes it
  [4]
  $ chaosbpf history --database f.db --fail-on-weakness --experiment provider-dark >/dev/null
  $ chaosbpf history --database f.db --since 1h --min-pass-rate 1%
  no runs
  chaosbpf: no run has a verdict that counts, so no pass rate is reached
  [4]
  $ chaosbpf history --database f.db --min-pass-rate many
  chaosbpf: --min-pass-rate: 'many' is not a percentage
  chaosbpf: hint: write it as 80%
  [2]
  $ chaosbpf history --database f.db --since yesterday
  chaosbpf: --since: 'yesterday' is not a duration
  chaosbpf: hint: write it as 30s, 5m or 1h30m
  [2]

A report says the verdict first:

  $ chaosbpf report --database f.db 2
  Weakness found: while it was broken only 60 % of ask succeeded, and at least 90 % was promised.

  run 2 of vector-db-timeout: When the vector database goes silent, answers come from keyword search
  started 2026-09-22 14:13:20 UTC, took 40s, in staging, on call: Alice Novak
  on rag-3, kernel 6.12.9-amd64, chaosbpf 0.1.0
  open: chaosbpf history resolve 2 --note TEXT closes it

  WHEN          EXPECTED            ACTUAL RESULT
  steady-before ask.success >= 99 % 100 %  held
  during        ask.success >= 90 % 60 %   failed (30 s after the injection)
  recovery      recovery <= 60 s    4.2 s  held
  steady-after  ask.success >= 99 % 100 %  held
  abort         ask.success < 20 %  40 %   never came up (for 10 s)

  time to recover: 4.2 s

  PROBE STAGE  ATTEMPTS SUCCESS P50    P99
  ask   before       10 100 %   237 ms 279 ms
  ask   during       20 60 %    246 ms 289 ms
  ask   after        10 100 %   235 ms 288 ms

  RULE          SEEN MATCHED INJECTED SKIPPED
  silent-qdrant  180      42       40 percent 2

     0:00.0  phase  baseline
     0:10.0  phase  inject
     0:10.0  action rules silent-qdrant.yaml
     0:10.3  phase  observe
     0:30.0  phase  rollback
     0:30.0  phase  recover
     0:35.0  phase  cooldown
     0:40.0  phase  verdict

  to improve
  - While it was broken only 60 % of ask succeeded, and at least 90 % was promised. Requests fail with the dependency: catch its errors and timeouts (also those of the transport), with a timeout below the caller's own, and answer from a fallback.
  - What callers of ask saw while it was broken: "no answer within 3 s" (4 of 8 failures).
  $ chaosbpf report --database f.db 1 | head -1
  Held: the service kept every promise while it was broken and after it.
  $ chaosbpf report --database f.db 3 | head -1
  Aborted and rolled back: ask.success < 20 % for 10 s.
  $ chaosbpf report --database f.db last
  Interrupted in phase observe: its process was gone before there was a verdict.

  run 4 of provider-dark: The provider is dark for five minutes
  started 2026-09-25 14:13:20 UTC, took 10s, in staging, on call: Alice Novak
  on rag-3, kernel 6.12.9-amd64, chaosbpf 0.1.0

  PROBE STAGE  ATTEMPTS SUCCESS P50    P99
  ask   before       10 100 %   237 ms 279 ms
  ask   during        1 100 %   210 ms 210 ms

  RULE          SEEN MATCHED INJECTED SKIPPED
  silent-qdrant  180      42       40 percent 2

     0:00.0  phase  baseline
     0:10.0  phase  inject
     0:10.0  action rules silent-qdrant.yaml
     0:10.3  phase  observe
  $ chaosbpf report --database f.db 2 --markdown
  ### ❌ Weakness found: while it was broken only 60 % of ask succeeded, and at least 90 % was promised.

  **vector-db-timeout**: When the vector database goes silent, answers come from keyword search

  run 2, 2026-09-22 14:13:20 UTC, staging

  | when | expected | actual | |
  |---|---|---|---|
  | steady-before | ask.success &gt;= 99 % | 100 % | ✅ held |
  | during | ask.success &gt;= 90 % | 60 % | ❌ failed (30 s after the injection) |
  | recovery | recovery &lt;= 60 s | 4.2 s | ✅ held |
  | steady-after | ask.success &gt;= 99 % | 100 % | ✅ held |
  | abort | ask.success &lt; 20 % | 40 % | ✅ never came up (for 10 s) |

  Time to recover: **4.2 s**

  | probe | | attempts | success | p50 | p99 |
  |---|---|---:|---:|---:|---:|
  | ask | before | 10 | 100 % | 237 ms | 279 ms |
  | ask | during | 20 | 60 % | 246 ms | 289 ms |
  | ask | after | 10 | 100 % | 235 ms | 288 ms |

  | rule | injected | matched | seen |
  |---|---:|---:|---:|
  | silent-qdrant | 40 | 42 | 180 |

  **To improve**

  - While it was broken only 60 % of ask succeeded, and at least 90 % was promised. Requests fail with the dependency: catch its errors and timeouts (also those of the transport), with a timeout below the caller's own, and answer from a fallback.
  - What callers of ask saw while it was broken: "no answer within 3 s" (4 of 8 failures).
  $ chaosbpf report --database f.db 3 --junit
  <?xml version="1.0" encoding="UTF-8"?>
  <testsuites>
    <testsuite name="provider-dark" tests="6" failures="2" errors="0" skipped="3" time="22.010" timestamp="2026-09-23T14:13:20" hostname="rag-3">
      <properties>
        <property name="run" value="3"/>
        <property name="verdict" value="aborted"/>
        <property name="title" value="The provider is dark for five minutes"/>
        <property name="environment" value="staging"/>
        <property name="kernel" value="6.12.9-amd64"/>
        <property name="chaosbpf" value="0.1.0"/>
      </properties>
      <testcase classname="provider-dark" name="steady-before: ask.success &#62;= 99 %" time="0"/>
      <testcase classname="provider-dark" name="during: ask.success &#62;= 90 %" time="0">
        <skipped message="not tested"/>
      </testcase>
      <testcase classname="provider-dark" name="recovery: recovery &#60;= 60 s" time="0">
        <skipped message="not tested"/>
      </testcase>
      <testcase classname="provider-dark" name="steady-after: ask.success &#62;= 99 %" time="0">
        <skipped message="not tested"/>
      </testcase>
      <testcase classname="provider-dark" name="abort: ask.success &#60; 20 %" time="0">
        <failure message="the limit to abort at came up: ask.success &#60; 20 %, was 0 %, for 10 s" type="weakness"/>
      </testcase>
      <testcase classname="provider-dark" name="verdict" time="0">
        <failure message="Aborted and rolled back: ask.success &#60; 20 % for 10 s." type="aborted"/>
      </testcase>
      <system-out>Aborted and rolled back: ask.success &#60; 20 % for 10 s.
  ask.success &#60; 20 % came up, the limit to abort at. There is no working fallback for this dependency: without it the service is down.
  What callers of ask saw while it was broken: &#34;no answer within 3 s&#34; (9 of 12 failures).
  </system-out>
    </testsuite>
  </testsuites>
  $ chaosbpf report --database f.db 2 --html page.html --junit=junit.xml && ls
  f.db
  junit.xml
  page.html
  $ grep -c '<svg class="chart"' page.html
  2
  $ chaosbpf report --database f.db 2 --html - | cmp - page.html
  $ chaosbpf report --database f.db 2 --html /none/page.html
  chaosbpf: cannot write '/none/page.html': No such file or directory
  [1]
  $ chaosbpf report --database f.db 2 --markdown --junit
  chaosbpf: standard output can have only one form of the report
  chaosbpf: hint: give all but one a file, as in --junit=FILE
  [2]
  $ chaosbpf report --database f.db 9
  chaosbpf: there is no run 9
  chaosbpf: hint: 'chaosbpf history' lists them; 'last' is the newest
  [2]
  $ chaosbpf report --database f.db newest
  chaosbpf: 'newest' is not the number of a run
  chaosbpf: hint: 'chaosbpf history' lists them; 'last' is the newest
  [2]
  $ chaosbpf report --database f.db
  chaosbpf: report needs the number of a run, or 'last'
  chaosbpf: hint: 'chaosbpf report --help' shows how
  [2]
  $ chaosbpf report --database none.db 1
  chaosbpf: no experiment has been run: there is no 'none.db'
  chaosbpf: hint: 'chaosbpf run FILE' makes it; --database or CHAOSBPF_DATABASE name another file
  [1]
  $ chaosbpf report --database page.html 1
  chaosbpf: 'page.html' is no findings database, or is damaged: file is not a database
  [1]
  $ chaosbpf report --database none.db 1 --json
  {
    "error": "no experiment has been run: there is no 'none.db'",
    "hint": "'chaosbpf run FILE' makes it; --database or CHAOSBPF_DATABASE name another file",
    "exit": 1
  }
  [1]

Two runs side by side:

  $ chaosbpf compare --database f.db 1 2
                                     RUN 1                   RUN 2                   CHANGE
  started                            2026-09-21 14:13:20 UTC 2026-09-22 14:13:20 UTC -
  verdict                            held                    weakness                changed
  steady-before: ask.success >= 99 % 100 %, held             100 %, held             -
  during: ask.success >= 90 %        95 %, held              60 %, failed            worse
  recovery: recovery <= 60 s         4.2 s, held             4.2 s, held             -
  steady-after: ask.success >= 99 %  100 %, held             100 %, held             -
  abort: ask.success < 20 %          70 %, never came up     40 %, never came up     -
  time to degrade                    1.2 s                   -                       -
  time to recover                    4.2 s                   4.2 s                   -
  ask.success before                 100 %                   100 %                   -
  ask.p50 before                     237 ms                  237 ms                  -
  ask.p99 before                     279 ms                  279 ms                  -
  ask.success during                 95 %                    60 %                    -35 %
  ask.p50 during                     247 ms                  246 ms                  -1 ms
  ask.p99 during                     289 ms                  289 ms                  -
  ask.success after                  100 %                   100 %                   -
  ask.p50 after                      235 ms                  235 ms                  -
  ask.p99 after                      288 ms                  288 ms                  -
  faults injected                    40                      40                      -
  $ chaosbpf compare --database f.db 1
  chaosbpf: compare needs the numbers of two runs
  chaosbpf: hint: 'chaosbpf compare --help' shows how
  [2]

A person closes a weakness, and says how:

  $ chaosbpf history --database f.db resolve 2
  chaosbpf: history resolve needs --note: how was it resolved?
  chaosbpf: hint: --note "retries are capped since release 1.8"
  [2]
  $ chaosbpf history --database f.db resolve 1 --note 'nothing to resolve'
  chaosbpf: run 1 found no weakness
  [2]
  $ chaosbpf history --database f.db resolve 2 --note 'the client has a timeout now'
  the weakness of run 2 is resolved
  $ chaosbpf history --database f.db resolve 2 --note 'again'
  chaosbpf: the weakness of run 2 is resolved already
  [2]
  $ chaosbpf history --database f.db --fail-on-weakness >/dev/null
  $ chaosbpf report --database f.db 2 | sed -n '/^resolved/s/by [^:]*/by somebody/p'
  resolved by somebody: the client has a timeout now
  $ chaosbpf history --database f.db prune
  chaosbpf: history prune needs --keep and a number
  chaosbpf: hint: as in --keep 100
  [2]
  $ chaosbpf history --database f.db prune --keep 2
  2 runs removed
  $ chaosbpf history --database f.db prune --keep 2 --json
  {
    "removed": 0
  }
