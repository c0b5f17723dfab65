"""What TLS clients say first."""

import ssl


def hello(name: str | None, *, padding: int = 0) -> bytes:
    """As OpenSSL says it; `padding` makes it longer, by protocols that nobody speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if padding:
        context.set_alpn_protocols([f"{number:0200}" for number in range(padding // 200)])
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake with nobody")


def message(raw: bytes) -> bytes:
    """What is in the records."""
    found = b""
    while raw:
        length = int.from_bytes(raw[3:5])
        found += raw[5 : 5 + length]
        raw = raw[5 + length :]
    return found


def records(content: bytes, size: int) -> bytes:
    """In as many records as it takes."""
    parts = [content[at : at + size] for at in range(0, len(content), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in parts)


def client_hello(extensions: bytes) -> bytes:
    """One that OpenSSL would not say."""
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00" + vector(extensions)
    return b"\x01" + len(body).to_bytes(3) + body


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return b"\x00\x00" + vector(vector(b"".join(bytes([kind]) + vector(name) for name in names)))


def vector(content: bytes) -> bytes:
    return len(content).to_bytes(2) + content
