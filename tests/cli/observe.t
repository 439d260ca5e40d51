`observe` names whom to look at in the words of a rule, and says no before it starts:

  $ chaosbpf observe --port 70000
  chaosbpf: --port: invalid port '70000', expected a port from 1 to 65535 or a range such as 9000-9010
  [2]
  $ chaosbpf observe --side both
  chaosbpf: --side: unknown side 'both', expected client or server
  [2]
  $ chaosbpf observe --cgroup /
  chaosbpf: --cgroup: cgroup '/' holds every process; leave 'cgroup' out
  [2]
  $ chaosbpf observe --endpoint qdrnt
  chaosbpf: --endpoint: unknown endpoint 'qdrnt', did you mean the preset 'qdrant'?
  [2]
  $ chaosbpf observe --unit a --container b
  chaosbpf: --container: 'unit' and 'container' both say which cgroup, leave one of them out
  [2]
  $ chaosbpf observe --by proces
  chaosbpf: --by: 'proces' is nothing to tell lines apart by
  chaosbpf: hint: did you mean 'process'?
  [2]
  $ chaosbpf observe --by colour
  chaosbpf: --by: 'colour' is nothing to tell lines apart by
  chaosbpf: hint: it is process, cgroup, endpoint or connection
  [2]
  $ chaosbpf observe --rows 3
  chaosbpf: --rows: '3' is not a number from 16 to 65536
  [2]
  $ chaosbpf observe --interval 1ms
  chaosbpf: --interval: at least 100ms
  [2]
  $ chaosbpf observe --readable
  chaosbpf: --readable says who may read the file of --prometheus, which is not there
  [2]
  $ chaosbpf observe --for ever
  chaosbpf: --for: 'ever' is not a duration
  chaosbpf: hint: write it as 30s, 5m or 1h30m
  [2]
  $ chaosbpf observe now
  chaosbpf: observe does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf observe --help' shows how
  [2]
  $ chaosbpf observe --port 80
  chaosbpf: observe needs root: run it with sudo
  [1]
