Mistakes on the command line end with exit code 2 and say what to do.

  $ chaosbpf
  chaosbpf: a command is missing
  chaosbpf: hint: 'chaosbpf --help' lists them
  [2]
  $ chaosbpf statsu
  chaosbpf: unknown command 'statsu'
  chaosbpf: hint: did you mean 'status'?
  [2]
  $ chaosbpf frobnicate
  chaosbpf: unknown command 'frobnicate'
  chaosbpf: hint: 'chaosbpf --help' lists the commands
  [2]
  $ chaosbpf help statsu
  chaosbpf: unknown command 'statsu'
  chaosbpf: hint: did you mean 'status'?
  [2]
  $ chaosbpf --observe load rules.yaml
  chaosbpf: unknown option '--observe'
  chaosbpf: hint: options stand after the command: 'chaosbpf --help' lists them
  [2]

Options may stand before or after the operands, and their values in both spellings:

  $ chaosbpf load --obsreve rules.yaml
  chaosbpf: load has no option '--obsreve'
  chaosbpf: hint: did you mean '--observe'?
  [2]
  $ chaosbpf load rules.yaml --frobnicate
  chaosbpf: load has no option '--frobnicate'
  chaosbpf: hint: 'chaosbpf load --help' lists the options
  [2]
  $ chaosbpf load -x rules.yaml
  chaosbpf: load has no option '-x'
  chaosbpf: hint: 'chaosbpf load --help' lists the options
  [2]
  $ chaosbpf load --observe=yes rules.yaml
  chaosbpf: --observe takes no value
  [2]
  $ chaosbpf load rules.yaml --duration
  chaosbpf: --duration needs a value
  [2]
  $ chaosbpf load rules.yaml --duration=soon
  chaosbpf: --duration: 'soon' is not a duration
  chaosbpf: hint: write it as 30s, 5m or 1h30m
  [2]
  $ chaosbpf load rules.yaml --duration 0s
  chaosbpf: --duration: '0s' is not a duration
  chaosbpf: hint: write it as 30s, 5m or 1h30m
  [2]
  $ chaosbpf status --watch=0
  chaosbpf: --watch: '0' is not a number of seconds from 0.1 to 86400
  [2]
  $ chaosbpf status --watch never
  chaosbpf: --watch: 'never' is not a number of seconds from 0.1 to 86400
  [2]

Operands are counted:

  $ chaosbpf load
  chaosbpf: load needs a rules file
  chaosbpf: hint: 'chaosbpf load --help' shows how
  [2]
  $ chaosbpf load one.yaml two.yaml
  chaosbpf: load does not know what to do with 'two.yaml'
  chaosbpf: hint: 'chaosbpf load --help' shows how
  [2]
  $ chaosbpf check
  chaosbpf: check needs a rules file
  chaosbpf: hint: 'chaosbpf check --help' shows how
  [2]
  $ chaosbpf unload one two
  chaosbpf: unload does not know what to do with 'two'
  chaosbpf: hint: 'chaosbpf unload --help' shows how
  [2]
  $ chaosbpf stop now
  chaosbpf: stop does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf stop --help' shows how
  [2]
  $ chaosbpf status now
  chaosbpf: status does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf status --help' shows how
  [2]
  $ chaosbpf events now
  chaosbpf: events does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf events --help' shows how
  [2]
  $ chaosbpf doctor now
  chaosbpf: doctor does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf doctor --help' shows how
  [2]
  $ chaosbpf version now
  chaosbpf: version does not know what to do with 'now'
  chaosbpf: hint: 'chaosbpf version --help' shows how
  [2]
  $ chaosbpf help load stop
  chaosbpf: help does not know what to do with 'stop'
  chaosbpf: hint: 'chaosbpf help --help' shows how
  [2]

`exec` takes the command behind "--", so that nobody's options are mixed up:

  $ chaosbpf exec rules.yaml
  chaosbpf: exec needs '--' and a command after it
  chaosbpf: hint: write it as: chaosbpf exec FILE -- COMMAND
  [2]
  $ chaosbpf exec rules.yaml pytest -x
  chaosbpf: exec needs '--' and a command after it
  chaosbpf: hint: write it as: chaosbpf exec FILE -- COMMAND
  [2]
  $ chaosbpf exec rules.yaml --
  chaosbpf: exec needs '--' and a command after it
  chaosbpf: hint: write it as: chaosbpf exec FILE -- COMMAND
  [2]
  $ chaosbpf exec -- pytest -x
  chaosbpf: exec needs a rules file
  chaosbpf: hint: 'chaosbpf exec --help' shows how
  [2]

What is not printable in a message is made so:

  $ chaosbpf "$(printf 'a\033[31mb\377c')"
  chaosbpf: unknown command 'a\x1b[31mb�c'
  chaosbpf: hint: 'chaosbpf --help' lists the commands
  [2]
