What could not be written was not done:

  $ chaosbpf --help >/dev/full
  chaosbpf: cannot write to standard output: No space left on device
  [1]
  $ chaosbpf version --json >/dev/full
  chaosbpf: cannot write to standard output: No space left on device
  [1]
  $ chaosbpf version >&-
  chaosbpf: cannot write to standard output: Bad file descriptor
  [1]

A reader that goes away is no crash:

  $ (sleep 0.2; chaosbpf help inject; echo "exit code $?" >&2) | true
  chaosbpf: cannot write to standard output: Broken pipe
  exit code 1
