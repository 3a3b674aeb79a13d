"""What the fault servers of all providers have in common: machines, stock, prices, a clock, faults
that a test orders, and a book of what was rented and what it costs.

A test talks to it by POST /control, with a JSON object of any of these:

  reset       true: as at the beginning
  clock_s     so far ahead of the real clock; machines boot, end and cost by it
  advance_s   likewise, more
  skew_s      so far off the clock is that requests' signatures are held against
  stock       {"TYPE in ZONE": machines that are left}; a pool that nobody names has enough
  prices      {"TYPE in ZONE": USD per hour from now on}; " spot" behind TYPE: that of spot
  machines_max  the account's quota
  visible_s   a new machine is not listed, and not known, for so long
  boot_s, end_s  how long a machine starts, and ends
  page        entries of a list at most
  addresses   for the next machines, in turn
  expire_keys true: the keys of before are refused from now on, the second ones are taken
  revoke      id of a machine that the provider takes back
  tag         {name: value}, which every machine has from now on; "of": that one alone
  whole_call  true: what is wrong with all pools is an error of the call, not of its reply
  faults      [{"call": rent|list|release|prices|any, "kind": ..., "times": 1, "wait_s": 0,
                "after": 0}], each met by the calls that follow, `after` of them first:
              throttled, quota, no_stock, denied, internal: the call is answered so, and not done
              dropped, lost, cut, garbage, huge: it is done, and the connection ends instead of an
              answer, or in its first line; the answer is cut off, something else, or endless

GET /book: {"machines": [...], "usd": total, "calls": {name: count}}.
"""

import argparse
import json
import socket
import threading
import time

FORGOTTEN_S = 3600  # a machine that is gone is told of for so long
BROKEN = ("dropped", "lost", "cut", "garbage", "huge")
BORN = time.time() - 86400  # since when prices are what they are
LEAST_S = 60  # that are paid


class Cloud:
    free_s = 0  # a spot machine that is taken back before it is so old costs nothing

    def __init__(self):
        self.lock = threading.RLock()
        self.reset()

    def reset(self):
        self.ahead_s = 0.0
        self.skew_s = 0.0
        self.machines = {}
        self.tokens = {}
        self.stock = {}
        self.prices = {}
        self.machines_max = 1000
        self.visible_s = 0.0
        self.boot_s = 0.0
        self.end_s = 0.0
        self.page = 100
        self.addresses = []
        self.are_keys_expired = False
        self.whole_call = False
        self.faults = []
        self.calls = {}
        self.count = 0
        self.extra = {}

    def now(self):
        return time.time() + self.ahead_s

    def control(self, order):
        if order.pop("reset", False):
            self.reset()
        self.ahead_s = order.pop("clock_s", self.ahead_s) + order.pop("advance_s", 0)
        self.stock.update(order.pop("stock", {}))
        for pool, usd in order.pop("prices", {}).items():
            self.prices.setdefault(pool, []).append((self.now(), usd))
        self.faults += [dict(f) for f in order.pop("faults", [])]
        self.are_keys_expired = order.pop("expire_keys", self.are_keys_expired)
        if "revoke" in order:
            self.revoke(order.pop("revoke"))
        tags, of = order.pop("tag", {}), order.pop("of", None)
        for machine in self.machines.values():
            if of in (None, machine["id"]):
                machine["tags"].update(tags)
        for name in ("skew_s", "machines_max", "visible_s", "boot_s", "end_s", "page", "addresses",
                     "whole_call"):
            if name in order:
                setattr(self, name, order.pop(name))
        self.extra.update(order)

    def fault(self, call, name):
        """That which this call meets, and counts the call."""
        self.calls[name] = self.calls.get(name, 0) + 1
        for fault in self.faults:
            if fault["call"] not in (call, "any", name):
                continue
            if fault.get("after", 0) > 0:
                fault["after"] -= 1
                continue
            if fault.setdefault("times", 1) > 0:
                fault["times"] -= 1
                return fault
        return None

    # Pools and prices.

    def left(self, kind, zone, is_spot):
        return self.stock.get(pool_name(kind, zone, is_spot), 1000)

    def price_history(self, kind, zone, is_spot):
        """[(since, USD per hour)], the oldest first; a price that nobody set is made of the name."""
        name = pool_name(kind, zone, is_spot)
        base = (sum(name.encode()) % 90 + 10) / 100
        return [(BORN, base)] + self.prices.get(name, [])

    def price(self, kind, zone, is_spot):
        return self.price_history(kind, zone, is_spot)[-1][1]

    # Machines.

    def rent(self, kind, zone, is_spot, tags, token, machine_id, **more):
        self.count += 1
        name = pool_name(kind, zone, is_spot)
        if name in self.stock:
            self.stock[name] -= 1
        n = self.count
        address = self.addresses.pop(0) if self.addresses else \
            f"127.0.{n // 250}.{n % 250 + 1}"
        machine = {
            "id": machine_id, "type": kind, "zone": zone, "spot": is_spot, "tags": dict(tags),
            "token": token, "address": address, "started": self.now(), "ended": None,
            "reason": None, **more}
        self.machines[machine_id] = machine
        return machine

    def living(self):
        return [m for m in self.machines.values() if m["ended"] is None]

    def is_full(self):
        return len(self.living()) >= self.machines_max

    def is_visible(self, machine):
        age = self.now() - machine["started"]
        gone = machine["ended"] is not None and self.now() - machine["ended"] > FORGOTTEN_S
        return age >= self.visible_s and not gone

    def state(self, machine):
        if machine["ended"] is not None:
            return "gone" if self.now() - machine["ended"] >= self.end_s else "ending"
        return "running" if self.now() - machine["started"] >= self.boot_s else "starting"

    def end(self, machine, reason):
        if machine["ended"] is None:
            machine["ended"] = self.now()
            machine["reason"] = reason
            name = pool_name(machine["type"], machine["zone"], machine["spot"])
            if name in self.stock and reason != "revoked":
                self.stock[name] += 1

    def revoke(self, machine_id):
        self.end(self.machines[machine_id], "revoked")

    # Money.

    def seconds(self, machine):
        end = self.now() if machine["ended"] is None else machine["ended"]
        return max(int(end) - int(machine["started"]), LEAST_S)

    def usd(self, machine):
        """By the second. Each of the machine's hours has the price that holds when it begins."""
        if (machine["reason"] == "revoked" and machine["spot"]
                and machine["ended"] - machine["started"] < self.free_s):
            return 0.0
        begin = int(machine["started"])
        seconds = self.seconds(machine)
        history = self.price_history(machine["type"], machine["zone"], machine["spot"])
        total = 0.0
        for hour in range(begin, begin + seconds, 3600):
            usd = [usd for since, usd in history if int(since) <= hour][-1]
            total += min(begin + seconds - hour, 3600) * usd / 3600
        return total

    def book(self):
        machines = [
            {**m, "state": self.state(m), "seconds": self.seconds(m), "usd": self.usd(m)}
            for m in self.machines.values()]
        return {"machines": machines, "usd": sum(m["usd"] for m in machines),
                "calls": self.calls, "left_behind": self.extra.get("left_behind", []),
                "now": self.now()}


def pool_name(kind, zone, is_spot):
    return f"{kind}{' spot' if is_spot else ''} in {zone}"


def arguments(what, region):
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--region", default=region, help=f"else {region}")
    parser.add_argument("--catalog", help="a file of configs/catalog, whose types are to be had too")
    given = parser.parse_args()
    given.types = {}
    if given.catalog:
        with open(given.catalog, encoding="utf-8") as file:
            given.types = {t["name"]: t.get("vcpus", 4) for t in json.load(file)["types"]}
    return given


def handle_control(cloud, handler, method, path, body):
    """Whether it was an order of the test, which is then answered."""
    if path == "/control" and method == "POST":
        with cloud.lock:
            cloud.control(json.loads(body))
        handler.send(200, b"{}")
        return True
    if path == "/book":
        with cloud.lock:
            text = json.dumps(cloud.book())
        handler.send(200, text.encode(), [("Content-Type", "application/json")])
        return True
    return False


def send_broken(handler, kind, status, body, headers=()):
    """An answer that was worth having."""
    if kind in ("lost", "dropped"):
        # HTTP clients make a request again by themselves when nothing came.
        if kind == "lost":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Le")
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)
    elif kind == "cut":
        # What was announced comes, but not all of the document.
        handler.send(status, body[:len(body) // 2], headers)
    elif kind == "garbage":
        handler.send(200, b"<html><body>Welcome to the hotel's network</body></html>")
    elif kind == "huge":
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 40))
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"<a>" * 20000)
        except OSError:
            handler.close_connection = True
