"""The metadata services of EC2, Compute Engine and Azure on a free port of this machine, for tests.

The first folder of a path is the machine that is asked for, PROVIDER-STATE or PROVIDER-STATE.NUMBER.
Each machine has a count of the questions that were about its end, so that what happens does not
depend on time. With the name of a folder every machine is calm until a file of its name is there.
"""

import email.utils
import json
import os
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
sys.dont_write_bytecode = True
import small_server  # noqa: E402

TOKEN = "dG9rZW4tb2YtYS1tYWNoaW5l"
NAME = "vm-7"

# What is answered to the first questions of a machine in trouble. Then it is taken back.
TROUBLES = ["500", "403", "401", "404-html", "html", "empty", "huge", "drop", "silence"]
# The same, where the answer is a word that the client sends back or looks for.
WORD_TROUBLES = TROUBLES + ["lines", "long"]
SILENT_S = {"silent": 5, "name": 0.2}  # else 3; a client has its patience, but for its first answer

folder = sys.argv[1] if len(sys.argv) > 1 else None
lock = threading.Lock()
questions = {}
tokens = {}
words = {}


def date(seconds_from_now):
    return email.utils.formatdate(time.time() + seconds_from_now, usegmt=True)


def rfc3339(seconds_from_now):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds_from_now))


class Handler(small_server.Handler):
    skew = 0

    def date_time_string(self, timestamp=None):
        return date(self.skew)

    def reply(self, status, text="", headers=()):
        self.send(status, text.encode(), headers)

    def ask(self):
        """How many questions there were before, about the end of this machine."""
        if self.state == "calm":
            return 0
        with lock:
            number = questions.get(self.machine, 0)
            questions[self.machine] = number + 1
            return number

    def trouble(self, kind):
        google = [("Metadata-Flavor", "Google")]
        if kind == "drop":
            self.close_connection = True
            self.connection.close()
        elif kind == "silence":
            time.sleep(SILENT_S.get(self.state, 3))
            self.close_connection = True
        elif kind == "lines":
            self.reply(200, "word\r\nX-Other: header")
        elif kind == "long":
            self.reply(200, "x" * 2000)
        elif kind == "404-html":
            self.reply(404 if self.provider != "ec2" else 405, "<html>not here</html>", google)
        elif kind == "html":
            self.reply(200, "<html>log in first</html>", google)
        elif kind == "empty":
            self.reply(200, "", google)
        elif kind == "huge":
            self.reply(200, "x" * 300000, google)
        else:
            self.reply(int(kind), "no", google)

    def handle_one(self, method):
        parsed = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(parsed.query))
        _, self.machine, rest = parsed.path.split("/", 2)
        self.provider, _, self.state = self.machine.partition(".")[0].partition("-")
        if folder is not None and not os.path.exists(os.path.join(folder, self.machine)):
            self.state = "calm"
        if self.state == "skewed":
            self.skew = -7200
        if self.state == "slow":
            time.sleep(1)
        if self.state == "silent":
            return self.trouble("silence")
        return getattr(self, self.provider)(method, "/" + rest)

    def do_GET(self):
        self.handle_one("GET")

    def do_PUT(self):
        self.handle_one("PUT")

    def is_trouble(self, number):
        if self.state == "trouble" and number < len(TROUBLES):
            self.trouble(TROUBLES[number])
            return True
        return False

    def is_word_trouble(self, state):
        """Of the questions that come before those about the end."""
        if self.state != state:
            return False
        with lock:
            number = words.get(self.machine, 0)
            words[self.machine] = number + 1
        if number < len(WORD_TROUBLES):
            self.trouble(WORD_TROUBLES[number])
            return True
        return False

    # ---- EC2

    def ec2(self, method, path):
        if path == "/latest/api/token":
            if method != "PUT" or not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                return self.reply(400)
            if self.state == "disabled":
                return self.reply(403)
            if self.is_word_trouble("token"):
                return None
            with lock:
                number = tokens.get(self.machine, 0) + 1
                tokens[self.machine] = number
            return self.reply(200, f"{TOKEN}-{number}")
        if self.headers.get("X-aws-ec2-metadata-token") != f"{TOKEN}-{tokens.get(self.machine)}":
            return self.reply(401)
        if path == "/latest/meta-data/events/recommendations/rebalance":
            advised = ("rebalance", "advised", "unadvised")
            if self.state in advised and questions.get(self.machine, 0) < 4:
                return self.reply(200, json.dumps({"noticeTime": rfc3339(-60)}))
            return self.reply(404)
        if path != "/latest/meta-data/spot/instance-action":
            return self.reply(404)
        number = self.ask()
        if self.is_trouble(number):
            return None
        if self.state == "expiring" and number % 2 == 0:
            with lock:
                tokens[self.machine] += 1  # all that were given are worth nothing now
        states = {
            "end": ("terminate", 120), "trouble": ("terminate", 120), "skewed": ("stop", 120),
            "slow": ("terminate", 120), "hibernate": ("hibernate", 120), "past": ("terminate", -5),
            "ahead": ("terminate", 600 if number < 2 else 110), "token": ("terminate", 120),
        }
        is_renewed = self.state == "renewed" and tokens[self.machine] > 1
        if is_renewed or (self.state == "advised" and number > 2):
            return self.reply(200, json.dumps({"action": "terminate", "time": rfc3339(120)}))
        if self.state == "badtime":
            return self.reply(200, '{"action": "terminate", "time": "soon"}')
        if self.state == "withdrawn" and number < 2:
            return self.reply(200, json.dumps({"action": "stop", "time": rfc3339(600)}))
        if self.state not in states:
            return self.reply(404)
        action, seconds = states[self.state]
        return self.reply(200, json.dumps({"action": action, "time": rfc3339(seconds + self.skew)}))

    # ---- Compute Engine

    def gcp(self, method, path):
        if self.headers.get("Metadata-Flavor") != "Google":
            return self.reply(403)
        if path != "/computeMetadata/v1/instance/preempted":
            return self.reply(404)
        google = [] if self.state == "impostor" else [("Metadata-Flavor", "Google")]
        number = self.ask()
        if self.is_trouble(number):
            return None
        if self.query.get("wait_for_change") == "true" and self.query.get("last_etag") == "e0":
            time.sleep(0.2)  # until it changes
            if self.state == "changes":
                return self.reply(200, "TRUE\n", google + [("ETag", "e1")])
        is_end = self.state in ("end", "trouble", "impostor", "skewed", "slow")
        return self.reply(200, "TRUE" if is_end else "FALSE", google + [("ETag", "e0")])

    # ---- Azure

    def azure(self, method, path):
        if self.headers.get("Metadata") != "true":
            return self.reply(400)
        if path == "/metadata/instance/compute/name":
            if self.is_word_trouble("name"):
                return None
            return self.reply(200, NAME)
        if path != "/metadata/scheduledevents":
            return self.reply(404)
        number = self.ask()
        if self.is_trouble(number):
            return None
        if self.state == "waking":
            time.sleep(1)
        other = {"EventId": "a", "EventType": "Terminate", "ResourceType": "VirtualMachine",
                 "Resources": ["vm-8"], "EventStatus": "Scheduled", "NotBefore": date(5)}
        freeze = dict(other, EventId="b", EventType="Freeze", Resources=[NAME])
        odd = {"EventType": 7, "Resources": "vm-7"}
        preempt = dict(freeze, EventType="Preempt", NotBefore=date(30 + self.skew))
        short = dict(preempt, NotBefore=date(8))
        reboot = dict(freeze, EventType="Reboot", NotBefore=date(900))
        started = dict(preempt, EventStatus="Started", NotBefore="")
        events = {
            "end": [other, preempt], "short": [short], "trouble": [preempt], "skewed": [preempt],
            "slow": [other, preempt], "name": [preempt],
            "second": [other, odd, reboot, preempt], "started": [started], "others": [other, freeze],
            "ahead": [reboot] if number < 2 else [preempt],
            "withdrawn": [reboot] if number < 2 else [],
        }
        document = {"DocumentIncarnation": number, "Events": events.get(self.state, [])}
        return self.reply(200, json.dumps(document))


small_server.serve(Handler)
