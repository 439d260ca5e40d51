#!/usr/bin/python3
# userland: real
# timeout: 900
"""What real clients of real servers do when they meet a fault: which error, after how many attempts, or none at all.

Each fault has a network of loopback addresses, 127.0.FAULT.CLIENT, on all of which the same servers listen: so one load
serves all, and events tell the attempts of each client apart. All clients of the victim meet a fault at the same time,
and while they do, the same clients of the neighbour use the same addresses.
"""
import collections
import time

import chaos
import place
import real
from case import alone, check, check_counters, check_equal, expect, main, part, skip
from nameserver import NameServer
from scene import NEIGHBOUR, VICTIM, needs_memory
from worker import Worker

CALLS = ["openai", "anthropic", "chroma", "ioredis", "httpx", "requests", "curl", "psycopg", "redis"]
STREAMS = ["openai_stream", "anthropic_stream", "httpx_stream", "requests_stream", "curl_stream"]
CLIENTS = [*CALLS, *STREAMS, "httpx_async"]  # each has an address of its own
IN_JS = {"openai", "anthropic", "chroma", "ioredis", "openai_stream", "anthropic_stream"}
TIMED = {"openai", "anthropic", "httpx", "httpx_async", "requests", "curl", *STREAMS}  # those whose timeout is set; others keep their own
# Theirs are 130 s and none: the kernel tells Redis' client after two minutes, who then tries again while others are counted.
OPTIONS = {("dark", "psycopg"): {"connect_timeout": 2}, ("dark", "redis"): {"socket_connect_timeout": 2}}
ANSWERS = {"chroma": ["3", "2"], "ioredis": "hello", "redis": "hello", "psycopg": [3, 4]}  # the others: six words
WORDS = 30  # of a stream

FAULTS = {"refused": {"refuse": "refused"}, "reset": {"reset": True}, "silent": {"accept_silence": True},
          "dark": {"drop": True}, **{f"cut-{how}": {"break_after": {"bytes": 2500, "how": how}}
                                     for how in ("reset", "close", "stall")}}
PENDING = object()
ENOUGH = 20  # seconds without a word: this client waits for ever

world = names = None
victim, neighbour = {}, {}
waiting = []  # calls that hang: (client's name, process, number)

# class of the error, code of it or of a cause, attempts. SDKs of model APIs try three times, nobody else tries twice but for
# ioredis, which tries 21 times within eleven seconds.
Met = collections.namedtuple("Met", "classes code attempts")


def met(classes, code, attempts=1):
    return Met(classes.split("|") if isinstance(classes, str) else classes, code, attempts)


REFUSED = {"openai": met("APIConnectionError", "ECONNREFUSED", 3), "anthropic": met("APIConnectionError", "ECONNREFUSED", 3),
           "chroma": met("ChromaConnectionError", None), "ioredis": met("MaxRetriesPerRequestError", None, 21),
           "httpx": met("ConnectError", "ECONNREFUSED"), "requests": met("ConnectionError", "ECONNREFUSED"),
           "curl": met("Curl", 7), "psycopg": met("OperationalError", None), "redis": met("ConnectionError", "ECONNREFUSED")}

# The reset may come before the request is written or after: then these two have another word for it. An attempt of ioredis whose
# connection takes ten seconds to come up, on a busy machine, is given up before there is anything to reset.
RESET = {**REFUSED, "ioredis": met("MaxRetriesPerRequestError", None, (20, 21)),
         "openai": met("APIConnectionError", "ECONNRESET|UND_ERR_SOCKET|EPIPE", 3),
         "anthropic": met("APIConnectionError", "ECONNRESET|UND_ERR_SOCKET|EPIPE", 3),
         "httpx": met("ReadError|WriteError|RemoteProtocolError", None), "requests": met("ConnectionError", None),
         "curl": met("Curl", "52|55|56"), "redis": met("ConnectionError", None)}

SILENT = {"openai": met("APIConnectionTimeoutError", None, 3), "anthropic": met("APIConnectionTimeoutError", None, 3),
          "chroma": PENDING, "ioredis": PENDING, "psycopg": PENDING, "redis": PENDING,
          "httpx": met("ReadTimeout", None), "requests": met("ReadTimeout", None), "curl": met("Curl", 28)}

# Chroma's client is saved by the ten seconds that Node's fetch gives a connection to come up, and no word longer.
DARK = {**SILENT, "chroma": met("ChromaConnectionError", None), "psycopg": met("ConnectionTimeout", None),
        "redis": met("TimeoutError", None, 4), "httpx": met("ConnectTimeout", None), "requests": met("ConnectTimeout", None)}

CUT = {"cut-reset": {"openai_stream": met("TypeError", "ECONNRESET"), "anthropic_stream": met("TypeError", "ECONNRESET"),
                     "httpx_stream": met("ReadError", "ECONNRESET"),
                     "requests_stream": met("ChunkedEncodingError", "ECONNRESET"), "curl_stream": met("Curl", 56)},
       "cut-close": {"openai_stream": met("TypeError", "UND_ERR_SOCKET"), "anthropic_stream": met("TypeError", "UND_ERR_SOCKET"),
                     "httpx_stream": met("RemoteProtocolError", None), "requests_stream": met("ChunkedEncodingError", None),
                     "curl_stream": met("Curl", 18)},
       "cut-stall": {"openai_stream": PENDING, "anthropic_stream": PENDING,  # their timeout ends with the headers
                     "httpx_stream": met("ReadTimeout", None), "requests_stream": met("ConnectionError", None),
                     "curl_stream": met("Curl", 28)}}

# Held where they leave, requests may not be later than the model server waits for one (5 s). Held where they arrive, answers may:
# half of that is a timeout in which an emulated processor gets a request out.
LATE_REQUEST_MS, LATE_ANSWER_MS = 3000, 12000
# A handshake that never ends. Node's fetch gives a connection ten seconds to come up, TLS and all, and has one for all attempts.
HANDSHAKE = {"openai": met("APIConnectionTimeoutError", None, 1), "anthropic": met("APIConnectionTimeoutError", None, 1),
             "httpx": met("ConnectTimeout", None), "requests": met("ReadTimeout", None), "curl": met("Curl", 28)}
POOLED = ["ioredis", "psycopg", "redis"]
IDLE = 3  # seconds after which a pooled connection is forgotten

# How often a request waits for an answer in one call, connecting aside.
ROUND_TRIPS = {"anthropic": 1, "chroma": 2, "httpx": 1, "requests": 1, "curl": 1, "psycopg": 3, "redis": 1, "ioredis": 1}

# Questions for a name that does not exist, A and AAAA each.
UNKNOWN = {"openai": met("APIConnectionError", "ENOTFOUND", 6), "anthropic": met("APIConnectionError", "ENOTFOUND", 6),
           "chroma": met("ChromaConnectionError", None, 2), "ioredis": met("MaxRetriesPerRequestError", None, 42),
           "httpx": met("ConnectError", None, 2), "requests": met("ConnectionError", None, 2), "curl": met("Curl", 6, 2),
           "psycopg": met("OperationalError", None, 2), "redis": met("ConnectionError", None, 2)}

# Another answer than the server's: the fault, and what it is to each client. httpx and requests raise nothing for a status.
# SDKs try again what is the server's fault or too much, be the account empty or not; bytes that mean nothing they do not.
PARSER = "JSONDecodeError|UnicodeDecodeError"
MADE_UP = {
    "limited": ({"status": 429, "retry_after": "1s", "as": "openai"},
                {"openai": met("RateLimitError", "rate_limit_exceeded", 3), "anthropic": met("RateLimitError", None, 3),
                 "httpx": met("KeyError", None), "requests": met("KeyError", None)}),
    "quota": ({"status": 429, "as": "openai-quota"}, {"openai": met("RateLimitError", "insufficient_quota", 3)}),
    "overloaded": ({"status": 529, "as": "anthropic"},  # whose SDK looks into the body for the class
                   {"anthropic": met("OverloadedError", None, 3), "openai": met("InternalServerError", None, 3)}),
    "page": ({"status": 503, "body": "html"},
             {"openai": met("InternalServerError", None, 3),
              "anthropic": met("InternalServerError|ServiceUnavailableError", None, 3),
              "httpx": met("JSONDecodeError", None), "requests": met("JSONDecodeError", None)}),
    "garbage": ({"body": "garbage"}, {"openai": met("SyntaxError", None), "anthropic": met("SyntaxError", None),
                                      "httpx": met(PARSER, None), "requests": met(PARSER, None)}),
    "half": ({"body": "truncated"}, {"openai": met("SyntaxError", None), "anthropic": met("SyntaxError", None),
                                     "httpx": met(PARSER, None), "requests": met(PARSER, None)}),
    "empty": ({"body": "empty"}, {"openai": met("TypeError", None), "anthropic": met("TypeError", None),
                                  "httpx": met("JSONDecodeError", None), "requests": met("JSONDecodeError", None)}),
    "hang": ({"hang": True}, {"openai": met("APIConnectionTimeoutError", None, 3), "httpx": met("ReadTimeout", None),
                              "requests": met("ReadTimeout", None)}),
}
# The events of a stream changed: SDKs tell errors in them from bytes that they cannot read. What ends early and properly, or never says
# that it is over, is no error to anybody: whether the answer is whole only its last event tells.
STOPS_AT = 5  # events; the first of OpenAI's has no word
EVENTS = {
    "error-event": ({"error_event": {"type": "server-error", "chunks": STOPS_AT}},
                    {"openai_stream": met("APIError", None), "httpx_stream": met("KeyError", None),
                     "requests_stream": met("KeyError", None)}),
    "overload-event": ({"error_event": {"type": "overloaded", "chunks": STOPS_AT}},
                       {"anthropic_stream": met("APIError|OverloadedError", None)}),
    "garble": ({"garble": {"every": STOPS_AT}},
               {"openai_stream": met("SyntaxError", None), "anthropic_stream": met("SyntaxError", None),
                "httpx_stream": met("JSONDecodeError", None), "requests_stream": met("JSONDecodeError", None)}),
    "clean": ({"break_after": {"chunks": STOPS_AT, "how": "clean"}}, {}),
    "drop-done": ({"drop_done": True}, {}),
}
INSIDE_TLS = {"openai", "anthropic", "httpx", "httpx_async", "requests"}
NET = {name: i for i, name in enumerate([*FAULTS, "unknown", "drip", "late", "tls-stall", "half-open", *MADE_UP, *EVENTS], 1)}


# ---- the scene

def setup():
    global world, names
    if not real.is_here():
        skip("the userland with real servers is not here (vmtest/real.sh)")
    for cgroup in (VICTIM, NEIGHBOUR):
        place.make_cgroup(cgroup)
    world = real.World()
    names = Worker(NameServer, cgroup="case/server", comm="names")
    names.listen("127.0.0.53")
    for client in CALLS:
        names.tell(name_of(client), [address("unknown", client)])
    with open(f"{real.ROOT}/etc/resolv.conf", "w") as file:
        file.write("nameserver 127.0.0.53\n")
    for side, cgroup in ((victim, VICTIM), (neighbour, NEIGHBOUR)):
        for language in ("js", "py"):
            side[language] = real.Client(language, cgroup)
            print(cgroup, language, side[language].version, flush=True)
    for language, what in (("js", "chroma_fill"), ("py", "psycopg_fill"), ("py", "redis_fill")):
        filled = neighbour[language].call(what, at="127.0.0.1", count=20)
        if "error" in filled:
            raise AssertionError(f"{what}: {filled}")
    for side in (victim, neighbour):
        all_well(side, "127.0.0.1", "before the load")


def teardown():
    real.stop_all()
    place.remove_cgroup("case")


def rules():
    return [chaos.rule(name, {"cgroup": VICTIM, "hosts": [f"127.0.{NET[name]}.0/24"]}, fault)
            for name, fault in FAULTS.items()] + \
           [chaos.rule(f"unknown-{client}", {"cgroup": VICTIM, "hosts": [name_of(client)]}, {"dns": "nxdomain"})
            for client in CALLS]


def address(fault, client):
    return f"127.0.{NET[fault]}.{1 + CLIENTS.index(client)}"


def name_of(client):
    return f"{client}.unknown.test"


def begin(side, client, at, seconds=60, words=WORDS, **keys):
    """One call; the timeout of clients in JavaScript is milliseconds."""
    process = side["js" if client in IN_JS else "py"]
    if client in TIMED:
        keys["timeout"] = seconds * 1000 if client in IN_JS else seconds
    return client, process, process.ask(client, at=at, words=words, **keys)


def check_good(call, what, seconds=120):
    client, process, number = call
    answer = process.answer(number, seconds)
    if not check(answer and "value" in answer, f"{what}: {client}: {answer}"):
        return
    if client in STREAMS:
        check_equal(answer["value"]["words"], WORDS, f"{what}: {client}: words of a stream")
        check(answer["value"]["end"], f"{what}: {client}: {answer}")
    else:
        check_equal(answer["value"], ANSWERS.get(client, 6), f"{what}: {client}")


def all_well(side, at, what, clients=(*CALLS, *STREAMS), **keys):
    for call in [begin(side, client, at if isinstance(at, str) else at(client), **keys) for client in clients]:
        check_good(call, what)


# ---- what they met

def attempts_at(rule):
    """Events of a rule by the server's address."""
    return collections.Counter(event["local" if event["side"] == "server" else "peer"]
                               for event in chaos.events() if event["rule"] == rule)


def check_met(fault, call, wanted, seconds):
    """Its error, or that there is none yet."""
    client, process, number = call
    answer = process.answer(number, seconds)
    if wanted is PENDING:
        waiting.append(call)
        check(answer is None, f"{fault}: {client} should still wait: {answer}")
        return
    if not check(answer and "error" in answer, f"{fault}: {client} should have failed: {answer}"):
        return
    print(f"    {fault:10} {client:17} {answer['ms']:6} ms  {' <- '.join(answer['error']['classes'])} {answer['error']['codes']}",
          flush=True)
    check(answer["error"]["classes"][0] in wanted.classes, f"{fault}: {client}: {answer}")
    if wanted.code is not None:
        codes = [str(code) for code in answer["error"]["codes"]]
        check(set(codes) & set(str(wanted.code).split("|")), f"{fault}: {client}: a code of {wanted.code} wanted: {answer}")
    if client in STREAMS and client != "curl_stream":  # curl's output is read when it has ended
        check(0 < answer["error"].get("seen", {}).get("words", 0) < WORDS, f"{fault}: {client}: a part of the answer: {answer}")


def check_fault(fault, table, seconds=60, at=address, **keys):
    """All clients meet it at once; meanwhile the neighbour's do not."""
    calls = {client: begin(victim, client, at(fault, client), seconds, options=OPTIONS.get((fault, client), {}), **keys)
             for client in table}
    start = time.monotonic()
    all_well(neighbour, lambda client: at(fault, client), f"{fault}: the neighbour", table, **keys)
    for client, wanted in sorted(table.items(), key=lambda item: item[1] is PENDING):
        left = ENOUGH - (time.monotonic() - start)
        check_met(fault, calls[client], wanted, max(0.1, left) if wanted is PENDING else 90)


def check_attempts(fault, table):
    """As many as the client is known to make; of one that still tries, one at least."""
    seen = attempts_at(fault)
    for client, wanted in table.items():
        times = seen.pop(address(fault, client), 0)
        if wanted is PENDING:
            check(times >= 1, f"{fault}: {client}: {times} attempts")
        elif isinstance(wanted.attempts, tuple):
            check(times in wanted.attempts, f"{fault}: {client}: {times} attempts")
        else:
            check_equal(times, wanted.attempts, f"{fault}: {client}: attempts")
        expect(fault, times, event={"cgroup_id": place.cgroup_id(VICTIM), "side": "client"})
    check_equal(dict(seen), {}, f"{fault}: attempts of others")


def check_redis(before, victims):
    """What came through, as Redis itself counts it: the neighbour's two clients, this question, and those of the victim."""
    check_equal(real.redis_connections() - before, 3 + victims, "connections that Redis accepted")


@part
def refused():
    before = real.redis_connections()
    check_fault("refused", REFUSED)
    check_attempts("refused", REFUSED)
    check_redis(before, 0)


@part
def reset():
    check_fault("reset", RESET)
    check_attempts("reset", RESET)


@part
def dark():
    before = real.redis_connections()
    check_fault("dark", DARK, 2)
    check_redis(before, 0)
    given_up = [call for call in waiting if call[0] == "ioredis"][-1]  # or it would go on trying while others are counted
    waiting.remove(given_up)
    check_equal(victim["js"].call("give_up", at=address("dark", "ioredis"))["value"], 1, "connections given up")
    check_attempts("dark", DARK)


@part
def streams_that_are_cut():
    """Never tried again, and SDKs throw what is not an error of theirs."""
    for how, table in CUT.items():
        check_fault(how, table, 30 if how == "cut-stall" else 60)
        check_attempts(how, table)


@part
def unknown_name():
    check_fault("unknown", UNKNOWN, at=lambda _, client: name_of(client))
    status = chaos.status()
    for client, wanted in UNKNOWN.items():
        check_equal(status[f"unknown-{client}"]["injected"], wanted.attempts, f"unknown: {client}: questions")
        expect(f"unknown-{client}", wanted.attempts, event={"answer": "nxdomain", "cgroup_id": place.cgroup_id(VICTIM)})


@part
def accepted_and_silent():
    """Who has no timeout waits: it has connected, so all is well. That the model server closes after five seconds without a word
    is not heard either. The last part, since psycopg waits for 130 s only."""
    before = real.redis_connections()
    check_fault("silent", SILENT, 20)
    check_attempts("silent", SILENT)
    check_redis(before, 2)


def was_given_up(call):
    """Whether the other end had closed meanwhile: a server that has sent its last byte, whose kernel tries for a hundred seconds
    to get it through; or psycopg itself."""
    client, process, number = call
    answer = process.answer(number, 150) or {}
    met = answer.get("error", {"classes": [], "codes": []})
    if client in STREAMS:
        return "ECONNRESET" in met["codes"]
    return client == "psycopg" and met["classes"][:1] == ["ConnectionTimeout"] and answer["ms"] >= 130_000


def afterwards():
    """Once it is over, what hung is answered, and new calls go through at every address."""
    for call in waiting:
        if not was_given_up(call):
            check_good(call, "hung until the end", 150)
    for fault in FAULTS:
        all_well(victim, lambda client, fault=fault: address(fault, client), f"{fault}, afterwards",
                 STREAMS if fault.startswith("cut") else CALLS)
    all_well(victim, name_of, "unknown, afterwards", CALLS)


def only_where(fault):
    if not chaos.doctor("faults").get(fault):
        skip(f"this kernel cannot do {fault}")


@alone
def handshakes_that_stall():
    """With the model server behind TLS: TCP is up, and no client says more than that it waited."""
    secure = {"secure": True}
    world.add_secure()
    chaos.load(chaos.rule("tls-stall", {"cgroup": VICTIM, "hosts": [f"127.0.{NET['tls-stall']}.0/24"]}, {"tls_stall": True}))
    check_fault("tls-stall", HANDSHAKE, 2, **secure)
    check_attempts("tls-stall", HANDSHAKE)
    all_well(victim, "127.0.0.1", "tls-stall: another address", HANDSHAKE, **secure)
    check_counters()
    chaos.stop()
    all_well(victim, lambda client: address("tls-stall", client), "tls-stall, afterwards", HANDSHAKE, **secure)


@alone
def pools_after_a_pause():
    """The connection in the pool is dead and nobody says so: its first use waits for ever, a new connection is all right."""
    fault, keep = "half-open", {"keep": True}
    chaos.load(chaos.rule(fault, {"cgroup": VICTIM, "hosts": [f"127.0.{NET[fault]}.0/24"]}, {"half_open": f"{IDLE}s"}))
    for side in (victim, neighbour):
        all_well(side, lambda client: address(fault, client), "half-open: before the pause", POOLED, **keep)
    time.sleep(IDLE + 0.5)
    calls = [begin(victim, client, address(fault, client), **keep) for client in POOLED]
    all_well(neighbour, lambda client: address(fault, client), "half-open: the neighbour after the pause", POOLED, **keep)
    all_well(victim, lambda client: address(fault, client), "half-open: new connections", POOLED)
    time.sleep(5)
    for client, process, number in calls:
        check(process.answer(number, 0) is None, f"half-open: {client} should still wait: {process.answer(number, 0)}")
    check_attempts(fault, {client: met("", None) for client in POOLED})
    check_counters()
    chaos.stop()
    for call in calls:
        check_good(call, "half-open, afterwards")


def load_late(direction, ms):
    chaos.load(chaos.rule("late", {"cgroup": VICTIM, "hosts": [f"127.0.{NET['late']}.0/24"], "direction": direction},
                          {"delay": f"{ms}ms"}))


def check_late(ms):
    """Everybody pays for each round trip; nobody fails."""
    calls = {client: begin(victim, client, address("late", client)) for client in ROUND_TRIPS}
    all_well(neighbour, lambda client: address("late", client), "late: the neighbour", CALLS)
    for client, times in ROUND_TRIPS.items():
        check_good(calls[client], "late")
        _, process, number = calls[client]
        took = process.answer(number, 0)["ms"]  # no ceiling: what a client computes takes seconds on an emulated processor
        check(took >= ms * times, f"late: {client}: {took} ms for {times} round trips")


@alone
def late_requests():
    only_where("delay")
    load_late("request", LATE_REQUEST_MS)
    check_late(LATE_REQUEST_MS)
    check_counters()


@alone
def late_answers():
    """As above; and a timeout that is shorter makes three requests of one."""
    only_where("rate")
    load_late("response", LATE_ANSWER_MS)
    hasty = begin(victim, "openai", address("late", "openai"), LATE_ANSWER_MS / 2000)
    check_late(LATE_ANSWER_MS)
    check_met("late", hasty, SILENT["openai"], 60)
    check_equal(attempts_at("late")[address("late", "openai")], 3, "late: attempts of who does not wait so long")
    check_counters()


@alone
def drip():
    """Tokens of which each comes in time: no timeout ends it, however long the whole takes."""
    only_where("tokens")
    words, a_second, patience_s = 24, 1, 12  # the whole takes longer than any client waits for a part
    chaos.load(chaos.rule("drip", {"cgroup": world.cgroup, "side": "server", "hosts": [f"127.0.{NET['drip']}.0/24"]},
                          {"tokens": f"{a_second}/s"}))
    calls = {client: begin(victim, client, address("drip", client), patience_s, words)
             for client in STREAMS if client != "curl_stream"}
    all_well(neighbour, "127.0.0.1", "drip: another address of the same server", STREAMS)
    for client, (_, process, number) in calls.items():
        answer = process.answer(number, 120)
        if check(answer and "value" in answer, f"drip: {client}: {answer}"):
            check_equal(answer["value"]["words"], words, f"drip: {client}: words")
            due_ms = 1000 * (words - 1) / a_second
            check(answer["ms"] >= due_ms, f"drip: {client}: took {answer['ms']} ms, {words} words are due in {due_ms}")
    check_equal(attempts_at("drip"), {address("drip", client): 1 for client in calls}, "drip: streams that were slow")
    check_counters()


@alone
def answers_that_are_made_up():
    """From a real model server; what the clients beside them get is its own."""
    chaos.load(*[chaos.rule(name, {"cgroup": VICTIM, "hosts": [f"127.0.{NET[name]}.0/24"]}, fault)
                 for name, (fault, _) in MADE_UP.items()])
    for name, (_, table) in MADE_UP.items():
        check_fault(name, table, 10 if name == "hang" else 60)
        check_attempts(name, table)
    check_counters()


@alone
def answers_that_are_made_up_inside_tls():
    """The same to each client as in clear: a library decrypts for it in its own process, be it in Node itself, and be sockets
    written by an event loop."""
    needs_memory()
    world.add_secure()
    all_well(victim, "127.0.0.1", "inside TLS, before", [*INSIDE_TLS], secure=True)
    chaos.load(*[chaos.rule(name, {"cgroup": VICTIM, "hosts": [f"127.0.{NET[name]}.0/24"]}, fault)
                 for name, (fault, _) in MADE_UP.items()])
    for name, (_, clear) in MADE_UP.items():
        table = {**clear, **({"httpx_async": clear["httpx"]} if "httpx" in clear else {})}
        check_fault(name, table, 10 if name == "hang" else 60, secure=True)
        check_attempts(name, table)
    check_counters()
    chaos.stop()
    all_well(victim, lambda client: address("limited", client), "inside TLS, afterwards", [*INSIDE_TLS], secure=True)


def check_ends(name, clients, **keys):
    """Streams that end early and properly, or never say that they are over: no error to anybody."""
    calls = [begin(victim, client, address(name, client), **keys) for client in clients]
    all_well(neighbour, lambda client: address(name, client), f"{name}: the neighbour", clients, **keys)
    for client, process, number in calls:
        answer = process.answer(number, 90)
        if not check(answer and "value" in answer, f"{name}: {client}: an answer that is complete wanted: {answer}"):
            continue
        told = answer["value"]
        print(f"    {name:10} {client:17} {told}", flush=True)
        if name == "clean":
            check(0 < told["words"] < STOPS_AT and not told["end"], f"{name}: {client}: a part of the answer: {told}")
        else:
            check_equal((told["words"], bool(told["end"])), (WORDS, True), f"{name}: {client}: all words")
        check(not told.get("done"), f"{name}: {client}: a last event came: {told}")
    check_equal(attempts_at(name), {address(name, client): 1 for client in clients}, f"{name}: attempts")
    expect(name, len(clients), event={"cgroup_id": place.cgroup_id(VICTIM), "side": "client"})


def check_events(**keys):
    chaos.load(*[chaos.rule(name, {"cgroup": VICTIM, "hosts": [f"127.0.{NET[name]}.0/24"]}, fault)
                 for name, (fault, _) in EVENTS.items()])
    for name, (_, table) in EVENTS.items():
        if table:
            check_fault(name, table, **keys)
            check_attempts(name, table)
    for name in ("clean", "drop-done"):
        check_ends(name, [client for client in STREAMS if client != "curl_stream"], **keys)
    check_counters()


@alone
def events_that_are_changed():
    check_events()


@alone
def events_that_are_changed_inside_tls():
    needs_memory()
    world.add_secure()
    check_events(secure=True)


main(setup, teardown, rules, afterwards)
