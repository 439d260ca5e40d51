The help needs no root, and a person who has never seen the program can begin with it:

  $ chaosbpf --help
  chaosbpf breaks what an AI service depends on, on purpose, from inside the kernel:
  a model API that is slow, a vector database that resets, an endpoint that refuses.
  It hits only what you name, ends by itself, and counts what it did.

  Usage: chaosbpf COMMAND [OPTIONS]

    check     say what a rules file would hit, and whether this kernel can
    load      load a rules file: the faults begin
    exec      run a command under faults that hit it and nothing else
    inject    load one rule written on the command line
    unload    end one rule, or all, in good order
    stop      the red button: end every fault at once
    status    show the loaded rules and what they have done
    observe   measure what services serve and what they call
    events    print the faults that were done, one a line
    doctor    say what this kernel can do
    endpoints list the endpoints that are known by name, or explain one
    run       run an experiment: does the service keep its promises?
    history   list the runs of experiments; close what was found
    report    say what a run of an experiment found
    compare   show two runs of experiments side by side
    deps      find out what a service depends on, and how much
    help      this text, or 'help COMMAND'
    version   print the version

  Start here: every request of one process to a vector database takes 5 s longer,
  for two minutes.

    sudo chaosbpf inject delay=5s --to 127.0.0.1:6333 --pid 42 --for 2m
    sudo chaosbpf status
    sudo chaosbpf stop

  'chaosbpf COMMAND --help' says more. Every command takes --json and -v (what libbpf
  says). Exit codes: 0 done, 1 failed, 2 bad usage or rules, 3 this kernel cannot,
  4 a weakness was found, 5 an experiment was aborted.

Each command has its own, in two spellings:

  $ chaosbpf stop --help
  Usage: chaosbpf stop

  Ends every fault at once, then removes everything chaosbpf has put into the
  kernel. Needs no file, waits for nothing, and may always be called. An
  experiment that is under way ends, too.

    --json         for programs
  $ chaosbpf help stop
  Usage: chaosbpf stop

  Ends every fault at once, then removes everything chaosbpf has put into the
  kernel. Needs no file, waits for nothing, and may always be called. An
  experiment that is under way ends, too.

    --json         for programs
  $ chaosbpf check --help
  Usage: chaosbpf check [OPTIONS] FILE

  Says in plain sentences what the rules in FILE ("-": standard input) would hit,
  how this kernel would do it, and what cannot be had here. Changes nothing.
  Without root the sentences are printed, but the kernel cannot be asked.

    --duration T   as if loaded with --duration T (30s, 5m, 1h30m)
    --endpoints F  your own presets, see chaosbpf endpoints
    --json         for programs

  Exit code: 0 all rules can be loaded, 1 the kernel could not be asked,
  2 the file is wrong, 3 some rule cannot be had here.
  $ chaosbpf load --help
  Usage: chaosbpf load [OPTIONS] FILE

  Loads the rules in FILE ("-": standard input), all of them or none, in place of
  those that were loaded before. They end by themselves.

    --observe      count what would be hit, inject nothing
    --duration T   every rule lasts T (30s, 5m, 1h30m), whatever the file says
    --endpoints F  your own presets, see chaosbpf endpoints
    --wait         a cgroup, container, pod or unit may start later, and a host name
                   may have no address yet; else it is an error
    --foreground   stay here; the faults end with this process, Ctrl-C ends it
    --json         for programs

  Then: 'chaosbpf status' shows what they do, 'chaosbpf stop' ends them at once.
  'chaosbpf check FILE' says beforehand what would be hit.
  $ chaosbpf exec --help
  Usage: chaosbpf exec [OPTIONS] FILE -- COMMAND [ARGUMENT...]

  Runs COMMAND under the rules in FILE. They hit COMMAND and its children and
  nothing else, are armed before it starts and gone when it exits. Under sudo the
  command runs as the user who called sudo.

    --observe      count what would be hit, inject nothing
    --duration T   every rule lasts T (30s, 5m, 1h30m), whatever the file says
    --endpoints F  your own presets, see chaosbpf endpoints
    --json         the summary, on standard error, for programs

    sudo chaosbpf exec rules/slow-embeddings.yaml -- pytest tests/fallback

  Exit code: the command's own, 128 + N when signal N killed it, 127 when it was
  not found, 126 when it could not be run.
  $ chaosbpf inject --help
  Usage: chaosbpf inject FAULT... WHOM... --for T [OPTIONS]

  Loads one rule that is written on the command line.

  FAULT, one or more:
    delay=5s          each request takes 5 s longer   jitter=500ms, distribution=normal
    drop, drop=5%     the connection goes silent, or loses 5 % of its packets
    refuse=refused    connect() fails; also timeout, unreachable, denied
    reset             connections are reset; reset.inside=true: the process alone hears
    accept-silence    connections are accepted and never answered
    tls-stall         TLS handshakes never finish
    half-open=2m      what is silent for so long is forgotten, as by a NAT
    break-after=4KiB  connections are reset after so much of what the server says
    break-after.chunks=12 break-after.how=stall    keys of a map, as in a rules file
    status=429 retry-after=20s as=openai    requests of HTTP/1 are answered so;
                      also body=empty, garbage, truncated, html; hang: never answered
    error-event=overloaded drop-done garble.every=5    events of streams
    grpc=unavailable  calls of gRPC in clear end so; also resource-exhausted, cancelled, ...
    errno.operation=open errno.error=EMFILE    operations of the process fail
    gpu-oom           GPU allocations fail with out of memory
    call.library=libz.so.1 call.function=crc32 call.returns=-1
                      the function returns that; also call.errno=EIO, call.delay=2s
    dns=nxdomain      questions for the names of --to; also servfail, empty, timeout

  WHOM, all that are given must hold:
    --to HOST[:PORTS] address or network, [::1]:6333, 10.0.0.0/8:80,443; may be repeated
                      or a known endpoint, as in --to qdrant: see chaosbpf endpoints
    --port PORTS      6333, 80,443 or 9000-9010
    --protocol P      tcp or udp
    --pid N           that process and its children
    --process NAME    processes of that name, may hold *
    --cgroup C        that cgroup and all below it, as in system.slice/rag.service
    --container C     name or id; --pod NAMESPACE/NAME; --unit U, a unit of systemd
    --user U          name or number
    --side S          client (default) or server: which end the process is
    --direction D     request, response or both (default)
    --everything      no restriction; only with this word
    --include-ssh     SSH connections too
    --resolver        with dns: what this machine's resolver asks for anybody, too

  How long and how often:
    --for T           how long the rule lasts (30s, 5m, 1h30m); always needed
    --percent P       of the connections, default 100; --per connection, packet or request
    --max-hits N      at most N faults, then it is finished; --max-rate 5/s
    --seed N          the same seed picks the same connections again

    --name N          the rule's name, default inject
    --wait            what is named may start or resolve later; else it is an error
    --observe         count what would be hit, inject nothing
    --endpoints F     your own presets, see chaosbpf endpoints
    --print           print the rule as a rules file, load nothing
    --json            for programs

    sudo chaosbpf inject delay=5s --to 127.0.0.1:6333 --pid 42 --for 2m
  $ chaosbpf unload --help
  Usage: chaosbpf unload [RULE]

  Ends one rule by its name, or all of them. When all end, requests that are being
  held go on at their time, and this command waits for them; 'chaosbpf stop' does
  not wait.

    --json         for programs
  $ chaosbpf status --help
  Usage: chaosbpf status [OPTIONS]

  Shows the rules that are loaded and what they have done. SEEN counts packets and
  calls of the connections that a rule names, MATCHED the times a fault of it came
  up for decision, INJECTED the times it was done, SKIPPED the rest and why.
  These counters are exact.

    --watch [S]    again every S seconds, default 1; Ctrl-C ends it
    --json         for programs; with --watch one object a line
  $ chaosbpf events --help
  Usage: chaosbpf events [OPTIONS]

  Prints the faults that were done, one a line: when, which rule and fault, which
  process, the other end, what. Those of the present load, or of the last one.
  Events may be dropped under pressure; the counters of 'chaosbpf status' are exact
  and tell how many were.

    --follow       go on with new ones until the load is over or Ctrl-C
    --json         one object a line, for programs
  $ chaosbpf doctor --help
  Usage: chaosbpf doctor

  Says what this kernel can do, found by trying, and how each fault works on it.

    --json         for programs

  Exit code: 0 every fault can be had, 3 some cannot.
  $ chaosbpf history --help
  Usage: chaosbpf history [OPTIONS]
         chaosbpf history resolve RUN --note TEXT
         chaosbpf history prune --keep N

  Lists the runs of experiments, the newest first. A weakness stays open until a
  person resolves it, and says how. prune removes all runs but the newest N and
  those with an open weakness.

    --since T            only those that began within T (90d, 12h)
    --experiment NAME    only that experiment
    --summary            sums for each experiment: runs by verdict, pass rate
    --min-pass-rate P%   fail when less of them held; skipped runs, errors and
                         interrupted ones do not count
    --fail-on-weakness   fail when one of them has an open weakness
    --note TEXT          how it was resolved
    --keep N             how many runs prune leaves
    --database F         the findings in F; else in $CHAOSBPF_DATABASE, else in
                         /var/lib/chaosbpf/findings.db
    --json               for programs

  Exit code: 0 done, 4 --min-pass-rate or --fail-on-weakness says so.
  $ chaosbpf report --help
  Usage: chaosbpf report [OPTIONS] RUN

  Says what a run of an experiment found: the verdict, what was expected and what
  came, how long degrading and recovering took, what was injected, what to improve.
  RUN is its number, or 'last'. FILE may be "-": standard output.

    --html FILE        as one page that needs no other file
    --markdown[=FILE]  for a pull request
    --junit[=FILE]     JUnit's XML: a test of each hypothesis
    --database F       the findings in F; else in $CHAOSBPF_DATABASE, else in
                       /var/lib/chaosbpf/findings.db
    --json             everything that was kept, for programs
  $ chaosbpf compare --help
  Usage: chaosbpf compare [OPTIONS] RUN RUN

  Shows two runs of experiments side by side: verdicts, what was promised and what
  came, success and latency of each probe, times to degrade and to recover.
  RUN is its number, or 'last'.

    --database F   as for chaosbpf report
    --json         for programs
  $ chaosbpf help help
  Usage: chaosbpf help [COMMAND]

  Says what chaosbpf does, or what COMMAND does.
  $ chaosbpf help version
  Usage: chaosbpf version

  Prints the version.

"--help" wins over everything else on the line, but what follows "--" belongs to another program:

  $ chaosbpf load --nonsense --help | head -1
  Usage: chaosbpf load [OPTIONS] FILE
  $ chaosbpf exec -- ls --help
  chaosbpf: exec needs a rules file
  chaosbpf: hint: 'chaosbpf exec --help' shows how
  [2]

  $ chaosbpf version | sed 's/[0-9.]*$/N/'
  chaosbpf N
  $ chaosbpf --version | sed 's/[0-9.]*$/N/'
  chaosbpf N
  $ chaosbpf version --json | sed 's/"[0-9.]*"/"N"/'
  {
    "version": "N"
  }
