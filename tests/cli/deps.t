`deps` says what is wrong with its words without root:

  $ chaosbpf deps
  chaosbpf: deps needs 'discover' or 'test'
  chaosbpf: hint: 'chaosbpf deps --help' shows how
  [2]
  $ chaosbpf deps discovr
  chaosbpf: deps cannot 'discovr'
  chaosbpf: hint: did you mean 'discover'?
  [2]
  $ chaosbpf deps discover --unit
  chaosbpf: --unit needs a value
  [2]
  $ chaosbpf deps test
  chaosbpf: deps test needs to know whose dependencies
  chaosbpf: hint: as in --unit rag.service
  [2]
  $ chaosbpf deps test --unit rag.service --each 1s
  chaosbpf: --each: at least 6s, and rather a minute
  [2]
  $ chaosbpf deps test --unit rag.service --each 5m
  chaosbpf: --baseline: at least as long as --each
  [2]
  $ chaosbpf deps test --unit rag.service --policy nowhere.yaml
  chaosbpf: cannot open 'nowhere.yaml': No such file or directory
  [2]
  $ chaosbpf deps test --unit rag.service --operator ada
  chaosbpf: deps needs root: run it with sudo
  [1]
  $ chaosbpf deps discover --unit rag.service --json
  {
    "error": "deps needs root: run it with sudo",
    "hint": null,
    "exit": 1
  }
  [1]
