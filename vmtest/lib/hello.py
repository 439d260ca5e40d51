"""TLS ClientHellos as bytes, made up to order: what today's browsers and SDKs send, in any arrangement.

Nothing here can finish a handshake: a server that echoes shows what arrived.
"""
import os

GREASE = 0x2A2A
SERVER_NAME, GROUPS, VERSIONS, KEY_SHARE, PADDING, ENCRYPTED = 0, 10, 43, 51, 21, 0xFE0D
X25519, X25519MLKEM768 = 0x001D, 0x11EC


def word(number):
    return number.to_bytes(2, "big")


def sized(data, size=2):
    return len(data).to_bytes(size, "big") + data


def extension(kind, data=b""):
    return word(kind) + sized(data)


def server_name(name):
    return extension(SERVER_NAME, sized(b"\0" + sized(name.encode())))


def key_share(large):
    """`large`: with the post-quantum share that browsers, Go and OpenSSL 3.5 send, 1,216 bytes."""
    shares = word(X25519) + sized(os.urandom(32))
    if large:
        shares = word(X25519MLKEM768) + sized(os.urandom(1216)) + shares
    return extension(KEY_SHARE, sized(word(GREASE) + sized(b"\0") + shares))


def in_records(data, *sizes):
    """The same message in several records: the first ones of these sizes."""
    head, message, records = data[:3], data[5:], b""
    for size in sizes:
        records += head + sized(message[:size])
        message = message[size:]
    return records + head + sized(message)


def client_hello(name, large=False, last=False, encrypted=False):
    """A record with a ClientHello. last=True: the server's name is the last extension but one, as when shuffled."""
    names = [server_name(name)] if name else []
    others = [extension(GROUPS, sized(word(GREASE) + word(X25519MLKEM768) + word(X25519))),
              extension(VERSIONS, sized(word(GREASE) + word(0x0304), 1)), key_share(large)]
    if encrypted:
        others.append(extension(ENCRYPTED, os.urandom(200)))
    body = b"".join([extension(GREASE)] + (others + names if last else names + others) + [extension(GREASE + 0x1010, b"\0")])
    hello = word(0x0303) + os.urandom(32) + sized(os.urandom(32), 1) + sized(word(GREASE) + word(0x1301)) + sized(b"\0", 1)
    return b"\x16" + word(0x0301) + sized(b"\x01" + sized(hello + sized(body), 3))
