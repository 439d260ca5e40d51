Presets are known by name to anybody; what is known is said openly.

  $ chaosbpf endpoints | sed -n '1,3p'
  NAME           WHAT            SPEAKS      TLS      PORTS       VERIFIED HOSTS
  openai         model-api       https       always   443         yes      api.openai.com, {region}.api.openai.com
  anthropic      model-api       https       always   443         yes      api.anthropic.com
  $ chaosbpf endpoints qdrant | sed '$d'
  qdrant: Qdrant (vector-database)
    hosts: wherever you run it; a rule that names no hosts means these ports at any address
    ports: 6333, 6334
    speaks: http, grpc over TCP, in clear or inside TLS
    faults: connections can be refused, reset, slowed or silenced; what is said can be read, inside TLS in clients that use OpenSSL
    clients: Python: 5 s for REST, no limit for gRPC; JavaScript: 300 s; neither tries again
    clients: refused is an error at once; accepted but silent hangs the gRPC client for ever
    note: 6333 REST, 6334 gRPC; 6335 is for the nodes among themselves and not part of this
    verified: hosts and ports were checked
  $ chaosbpf endpoints valkey | head -2
  redis: Redis (cache)
    also called: valkey
  $ chaosbpf endpoints lancedb-cloud | sed '$d'
  lancedb-cloud: LanceDB Cloud (vector-database)
    hosts: {instance}.{region}.api.lancedb.com
    ports: 443
    may have: { preset: lancedb-cloud, region: ... } means that {region} only
    may have: { preset: lancedb-cloud, instance: ... } means that {instance} only
    speaks: https over TCP, always inside TLS
    faults: connections can be refused, reset, slowed or silenced; what is said inside TLS can be read in clients that use OpenSSL
    not verified: hosts and ports were not all checked against a source; look before you rely on them
  $ chaosbpf endpoints bedrock | sed -n '4p'
    needs: { preset: bedrock, region: ... } says which {region}
  $ chaosbpf endpoints qdrnt
  chaosbpf: no endpoint is known by the name 'qdrnt'
  chaosbpf: hint: did you mean 'qdrant'?
  [2]
  $ chaosbpf endpoints one two
  chaosbpf: endpoints does not know what to do with 'two'
  chaosbpf: hint: 'chaosbpf endpoints --help' shows how
  [2]
  $ chaosbpf endpoints --json turbopuffer | sed '/"file"/d; /"line"/d'
  {
    "endpoints": [
      {
        "name": "turbopuffer",
        "title": "turbopuffer",
        "aliases": [],
        "kind": "vector-database",
        "hosts": [
          "{region}.turbopuffer.com"
        ],
        "needs": [],
        "ports": [
          443
        ],
        "protocol": [
          "https"
        ],
        "transport": [
          "tcp"
        ],
        "tls": "always",
        "stream": null,
        "clients": [
          "its SDK is built like OpenAI's: it tries again by itself"
        ],
        "note": "a region is written with its cloud, such as gcp-us-central1",
        "verified": true,
      }
    ]
  }

A rule uses them without saying more, or with values of its own:

  $ cat >rules.yaml <<END
  > version: 1
  > endpoints:
  >   vectors: { preset: qdrant, hosts: [10.0.0.7] }
  > defaults: { duration: 5m }
  > rules:
  >   - name: own
  >     match: { endpoint: vectors }
  >     fault: { delay: 8s }
  >   - name: built-in
  >     match: { endpoint: redis, user: root }
  >     fault: { refuse: refused }
  > END
  $ chaosbpf check rules.yaml 2>/dev/null
  own: TCP requests from any process to vectors (10.0.0.7, ports 6333 or 6334) take 8 s longer, once each; ends after 5 min.
  built-in: TCP connections from processes of user root to redis (ports 6379 or 6380) fail at connect with ECONNREFUSED (refused); ends after 5 min.
  [1]
  $ sed 's/qdrant/qdrnt/' rules.yaml >wrong.yaml
  $ chaosbpf check wrong.yaml
  chaosbpf: wrong.yaml:3:22: unknown preset 'qdrnt', did you mean 'qdrant'? 'chaosbpf endpoints' lists them
  [2]
  $ sed 's/preset: qdrant/preset: bedrock/; s/, hosts: .10.0.0.7.//' rules.yaml >wrong.yaml
  $ chaosbpf check wrong.yaml
  chaosbpf: wrong.yaml:3:22: preset 'bedrock' needs 'region', as in { preset: bedrock, region: us-east-1 }
  [2]
  $ chaosbpf inject --print delay=5s --to qdrant --port 6333 --for 2m
  version: 1
  rules:
    - name: inject
      match:
        endpoint: qdrant
        ports: [6333]
      fault:
        delay: 5s
      duration: 2m
  $ chaosbpf inject --print delay=5s --to qdrant --to 10.0.0.7 --for 2m
  chaosbpf: --to qdrant is a preset and stands alone, without --to 10.0.0.7
  chaosbpf: hint: write a rules file with a rule for each
  [2]

A user's own presets come first:

  $ cat >mine.yaml <<END
  > version: 1
  > endpoints:
  >   redis: { title: our cache, kind: cache, ports: 7000, hosts: [10.0.0.9] }
  > END
  $ chaosbpf endpoints --endpoints mine.yaml redis
  redis: our cache (cache)
    hosts: 10.0.0.9
    ports: 7000
    speaks: over TCP, in clear or inside TLS
    faults: connections can be refused, reset, slowed or silenced; what is said can be read, inside TLS in clients that use OpenSSL
    not verified: hosts and ports were not all checked against a source; look before you rely on them
    from: mine.yaml:3
  $ chaosbpf check --endpoints mine.yaml rules.yaml 2>/dev/null | tail -1
  built-in: TCP connections from processes of user root to redis (10.0.0.9, port 7000) fail at connect with ECONNREFUSED (refused); ends after 5 min.
  $ sed 's/ports/prots/' mine.yaml >wrong.yaml
  $ chaosbpf check --endpoints wrong.yaml rules.yaml
  chaosbpf: rules.yaml:3:22: presets cannot be had: wrong.yaml:3:43: unknown key 'prots', did you mean 'ports'?
  [2]
  $ chaosbpf endpoints --endpoints wrong.yaml
  chaosbpf: wrong.yaml:3:43: unknown key 'prots', did you mean 'ports'?
  [2]
  $ chaosbpf endpoints --endpoints nowhere.yaml
  chaosbpf: cannot open 'nowhere.yaml': No such file or directory
  [2]
