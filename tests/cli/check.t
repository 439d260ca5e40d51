`check` explains a file to anybody; whether the kernel can do it, only root can find out.

  $ cat >two.yaml <<END
  > version: 1
  > rules:
  >   - name: slow-embeddings
  >     match: { hosts: [10.0.0.7], ports: [443] }
  >     fault: { delay: 8s }
  >     duration: 5m
  >   - name: no-vectors
  >     match: { ports: [6333], user: root }
  >     fault: { refuse: timeout }
  >     percent: 30
  >     duration: 5m
  > END
  $ chaosbpf check two.yaml
  slow-embeddings: requests from any process to 10.0.0.7, port 443, take 8 s longer, once each; ends after 5 min.
  no-vectors: TCP connections from processes of user root to port 6333 anywhere fail at connect with ETIMEDOUT (timeout); on 30 % of the connections; ends after 5 min.
  chaosbpf: run as root to check this kernel
  [1]
  $ chaosbpf check --duration 20s - <two.yaml
  slow-embeddings: requests from any process to 10.0.0.7, port 443, take 8 s longer, once each; ends after 20 s.
  no-vectors: TCP connections from processes of user root to port 6333 anywhere fail at connect with ETIMEDOUT (timeout); on 30 % of the connections; ends after 20 s.
  chaosbpf: run as root to check this kernel
  [1]

With --json there is one document, the reason in it:

  $ chaosbpf check --json two.yaml | tail -5
    ],
    "possible": null,
    "error": "run as root to check this kernel",
    "exit": 1
  }

Files that are wrong are refused with the place, exit code 2:

  $ sed 's/delay: 8s/dealy: 8s/' two.yaml >wrong.yaml
  $ chaosbpf check wrong.yaml
  chaosbpf: wrong.yaml:5:14: unknown key 'dealy', did you mean 'delay'?
  [2]
  $ chaosbpf check --json wrong.yaml
  {
    "error": "wrong.yaml:5:14: unknown key 'dealy', did you mean 'delay'?",
    "hint": null,
    "exit": 2
  }
  [2]
  $ chaosbpf check nowhere.yaml
  chaosbpf: cannot open 'nowhere.yaml': No such file or directory
  [2]
