"""Looks at the TCP connections that cross this network namespace's bridge until its input ends.

usage: watch_tls.py [PORT...]: connections to these ports (of ssh) are left out. Prints "ready"; then,
at the end, how many connections there were. A connection whose first bytes, either way, are no TLS
handshake is named, and the exit status is 1.
"""

import socket
import struct
import sys
import threading

HANDSHAKE = b"\x16\x03"
FIN_SYN_RST = 7
SYN = 2

left_out = {int(port) for port in sys.argv[1:]}
first = {}  # of a direction of a connection: the sequence number of its first byte, then those bytes
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
packets.settimeout(0.2)


def look(frame):
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return
    tcp = frame[14 + (frame[14] & 15) * 4:]
    ports = struct.unpack("!HH", tcp[:4])
    if left_out & set(ports):
        return
    sequence = struct.unpack("!I", tcp[4:8])[0]
    direction = frame[26:34] + tcp[:4]
    data = tcp[(tcp[12] >> 4) * 4:]
    if tcp[13] & FIN_SYN_RST == SYN:
        first.setdefault(direction, (sequence + 1) % 2**32)
    elif len(data) >= len(HANDSHAKE) and first.get(direction) == sequence:
        first[direction] = bytes(data[:len(HANDSHAKE)])


def name(direction):
    ports = struct.unpack("!HH", direction[8:])
    return (f"{socket.inet_ntoa(direction[:4])}:{ports[0]} to "
            f"{socket.inet_ntoa(direction[4:8])}:{ports[1]}")


def read_to_the_end():
    while sys.stdin.buffer.raw.read(1):
        pass
    ending.set()


ending = threading.Event()
threading.Thread(target=read_to_the_end, daemon=True).start()
print("ready", flush=True)
while not ending.is_set():
    try:
        look(packets.recv(256))
    except TimeoutError:
        pass
seen = {way: begin for way, begin in first.items() if isinstance(begin, bytes)}
plain = [name(direction) for direction, begin in seen.items() if begin != HANDSHAKE]
print(f"{len(seen)} ways of connections, {len(plain)} without TLS")
for text in plain:
    print("not encrypted:", text)
sys.exit(1 if plain or not seen else 0)
