#!/usr/bin/env python3
"""A cluster of Kubernetes as far as spotps sees one: its Pods are processes of this machine.

usage: kubernetes_server.py DIR. Prints "ready" and runs until its stdin ends. DIR/kubeconfig is for
kubectl, which has to log in by a plugin. Exit status 77: there can't be one, the reason is on stdout.

It keeps the API's own rules as far as a client could fail by them: names are taken once, versions
grow, $(NAME) and $$ in commands are replaced, a Secret goes with its owner, a deletion has a grace
period and may name a uid, a watch begins at a version.

DIR/faults has what goes wrong, a line each, the first that fits a request and is not used up:
    COUNT METHOD PATH-PATTERN ACTION [ARGUMENT...]
with the actions: status CODE [RETRY-AFTER [MESSAGE]]; lose (does it, and closes the connection
without an answer); cut SECONDS (ends a stream then); expire (a watch says 410); omit (a list has no
items); none; break (half a line of a watch, then the end). The path has its query.
DIR/hidden: a number of seconds for which new Pods are in no list, no watch and no answer.
DIR/quota: at most so many Pods.
Images: "never-pulled" can't be pulled, "Invalid Name" is none, "oom" is killed for its memory.
Nodes: only those with "pool=spot", or without a selector.
DIR/requests gets a line for each request, DIR/objects each object that was to be made."""

import base64
import datetime
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

DIR = ""
TOKEN = "token-of-the-tests"
LOCK = threading.Condition()
PODS = {}  # (namespace, name): Pod
SECRETS = {}  # (namespace, name): object
EVENTS = []  # (version, type, object, namespace)
VERSION = [1000]
USED_FAULTS = {}
OBJECTS = [0]


def skip(why):
    print(why, flush=True)
    sys.exit(77)


def stamp():
    now = time.time_ns()
    whole = datetime.datetime.fromtimestamp(now // 10**9, datetime.timezone.utc)
    return whole.strftime("%Y-%m-%dT%H:%M:%S") + ".%09dZ" % (now % 10**9)


def number_in(name):
    try:
        with open(os.path.join(DIR, name), encoding="utf-8") as file:
            return float(file.read())
    except (OSError, ValueError):
        return None


def read_faults():
    try:
        with open(os.path.join(DIR, "faults"), encoding="utf-8") as file:
            return [line.split() for line in file if line.strip()]
    except OSError:
        return []


def fault_for(method, path):
    """The words of its action."""
    with LOCK:
        for line, words in enumerate(read_faults()):
            key = (line, tuple(words))
            used = USED_FAULTS.get(key, 0)
            if words[1] == method and re.search(words[2], path) and used < int(words[0]):
                USED_FAULTS[key] = used + 1
                return words[3:]
    return []


class Pod:
    """An object and the process that it is."""

    def __init__(self, value):
        self.object = value
        self.process = None
        self.log = []  # (time, line)
        self.log_is_whole = False
        self.is_ending = threading.Event()
        self.grace_s = 0
        self.visible_at = time.monotonic() + (number_in("hidden") or 0)

    def is_visible(self):
        return time.monotonic() >= self.visible_at


def tell(kind, pod):
    """Requires the lock. A new version of a Pod, for whoever watches."""
    VERSION[0] += 1
    pod.object["metadata"]["resourceVersion"] = str(VERSION[0])
    copy = json.loads(json.dumps(pod.object))
    EVENTS.append((VERSION[0], kind, copy, pod.visible_at))
    LOCK.notify_all()


def set_condition(pod, kind, status, reason="", message=""):
    conditions = pod.object["status"].setdefault("conditions", [])
    conditions[:] = [condition for condition in conditions if condition["type"] != kind]
    conditions.append({"type": kind, "status": status, "reason": reason, "message": message})


def set_container(pod, state, phase):
    pod.object["status"]["phase"] = phase
    pod.object["status"]["containerStatuses"] = [
        {
            "name": "spotps",
            "image": pod.object["spec"]["containers"][0]["image"],
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
    ]
    tell("MODIFIED", pod)


def expand(word):
    """As Kubernetes does, with no variables."""
    return word.replace("$$", "$")


def mounted(pod, namespace):
    """The folder of each mount of a Secret, which is there; None while it is not."""
    folders = {}
    spec = pod.object["spec"]
    for mount in spec["containers"][0].get("volumeMounts", []):
        volume = next(v for v in spec["volumes"] if v["name"] == mount["name"])
        if "secret" not in volume:
            continue
        secret = SECRETS.get((namespace, volume["secret"]["secretName"]))
        if secret is None:
            return None
        folder = os.path.join(DIR, "mounts", pod.object["metadata"]["uid"])
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for key, value in secret["data"].items():
            with open(os.path.join(folder, key), "wb") as file:
                file.write(base64.b64decode(value))
        folders[mount["mountPath"]] = folder
    return folders


def command_of(pod, folders):
    words = [expand(word) for word in pod.object["spec"]["containers"][0].get("command", [])]
    for path, folder in folders.items():
        words = [re.sub("^" + re.escape(path) + "/", folder + "/", word) for word in words]
    return words


def end_process(pod):
    """SIGTERM, and SIGKILL after the grace. What it has started goes with it."""
    process = pod.process
    process.terminate()
    try:
        process.wait(pod.grace_s)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read_log(pod, stream):
    for line in iter(stream.readline, b""):
        with LOCK:
            pod.log.append((stamp(), line))
            LOCK.notify_all()
    with LOCK:
        pod.log_is_whole = True
        LOCK.notify_all()


def is_held(pod):
    """Why no node, or no image, is had for it. Tells so."""
    spec = pod.object["spec"]
    selector = spec.get("nodeSelector", {})
    if selector not in ({}, {"pool": "spot"}):
        set_condition(
            pod,
            "PodScheduled",
            "False",
            "Unschedulable",
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        )
        tell("MODIFIED", pod)
        return True
    set_condition(pod, "PodScheduled", "True")
    spec["nodeName"] = "node-1"
    image = spec["containers"][0]["image"]
    if image.startswith("never-pulled"):
        waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "%s"' % image}
        set_container(pod, {"waiting": waiting}, "Pending")
        return True
    if image.startswith("invalid-name"):
        waiting = {"reason": "InvalidImageName", "message": "couldn't parse image name"}
        set_container(pod, {"waiting": waiting}, "Pending")
        return True
    set_container(pod, {"waiting": {"reason": "ContainerCreating"}}, "Pending")
    return False


def run_pod(namespace, pod):
    """A Pod's life, on a thread of its own."""
    try:
        live(namespace, pod)
    finally:
        remove_if_ending(namespace, pod)


def remove_if_ending(namespace, pod):
    pod.is_ending.wait()
    with LOCK:
        name = pod.object["metadata"]["name"]
        if PODS.get((namespace, name)) is pod:
            remove(namespace, name)


def remove(namespace, name):
    """Requires the lock."""
    pod = PODS.pop((namespace, name))
    uid = pod.object["metadata"]["uid"]
    for key, secret in list(SECRETS.items()):
        owners = secret["metadata"].get("ownerReferences", [])
        if any(owner["uid"] == uid for owner in owners):
            del SECRETS[key]
    shutil.rmtree(os.path.join(DIR, "mounts", uid), ignore_errors=True)
    tell("DELETED", pod)


def live(namespace, pod):
    with LOCK:
        if is_held(pod):
            return
        while True:
            folders = mounted(pod, namespace)
            if folders is not None:
                break
            if pod.is_ending.is_set():
                return
            LOCK.wait(0.1)
    words = command_of(pod, folders)
    try:
        # pylint: disable-next=consider-using-with
        pod.process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        with LOCK:
            pod.log_is_whole = True
            end = {
                "exitCode": 128,
                "reason": "StartError",
                "message": 'exec: "%s": %s' % (words[0], error.strerror),
            }
            set_container(pod, {"terminated": end}, "Failed")
        return
    reader = threading.Thread(target=read_log, args=(pod, pod.process.stdout), daemon=True)
    reader.start()
    with LOCK:
        set_container(pod, {"running": {"startedAt": stamp()}}, "Running")
    is_oom = pod.object["spec"]["containers"][0]["image"].startswith("oom")
    while pod.process.poll() is None:
        if is_oom and pod.log:
            os.killpg(pod.process.pid, signal.SIGKILL)
        if pod.is_ending.wait(0.01):
            end_process(pod)
    # A container's other processes end with its first.
    try:
        os.killpg(pod.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    reader.join()
    code = pod.process.wait()
    code = 128 - code if code < 0 else code
    reason = "OOMKilled" if is_oom else "Completed" if code == 0 else "Error"
    with LOCK:
        if PODS.get((namespace, pod.object["metadata"]["name"])) is pod:
            end = {"exitCode": code, "reason": reason, "finishedAt": stamp()}
            set_container(pod, {"terminated": end}, "Succeeded" if code == 0 else "Failed")


def matches(selector, value):
    labels = value["metadata"].get("labels", {})
    pairs = [pair.split("=") for pair in selector.split(",") if pair]
    return all(labels.get(pair[0]) == pair[-1] for pair in pairs)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    # Answers.

    def answer(self, status, value, headers=()):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for header in headers:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, reason, message, retry_after=None):
        self.answer(
            status,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": message,
                "reason": reason,
                "code": status,
            },
            [("Retry-After", retry_after)] if retry_after else [],
        )

    def begin_stream(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    # Requests.

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while True:
            length = int(self.rfile.readline(), 16)
            body += self.rfile.read(length)
            self.rfile.readline()
            if length == 0:
                return body

    def handle_request(self):
        body = self.read_body()
        with open(os.path.join(DIR, "requests"), "a", encoding="utf-8") as file:
            file.write("%s %s %.3f\n" % (self.command, self.path, time.time()))
        if self.headers.get("Authorization") != "Bearer " + TOKEN:
            self.refuse(401, "Unauthorized", "Unauthorized")
            return
        fault = fault_for(self.command, self.path)
        if fault and fault[0] == "status":
            retry_after = fault[2] if len(fault) > 2 else None
            message = " ".join(fault[3:]) or "the tests say so"
            reason = {429: "TooManyRequests", 409: "Conflict"}.get(int(fault[1]), "InternalError")
            self.refuse(int(fault[1]), reason, message, retry_after)
            return
        if fault and fault[0] == "lose":
            # Does it, and says nothing.
            self.wfile, out = open(os.devnull, "wb"), self.wfile
            self.route(body, [])
            self.wfile.close()
            self.wfile = out
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self.route(body, fault)

    do_GET = do_POST = do_DELETE = handle_request

    def route(self, body, fault):
        url = urllib.parse.urlsplit(self.path)
        query = {key: values[0] for key, values in urllib.parse.parse_qs(url.query).items()}
        value = json.loads(body) if body else {}
        if self.command == "POST" and "kind" in value:
            with LOCK:
                OBJECTS[0] += 1
                with open("%s/objects/%d.json" % (DIR, OBJECTS[0]), "wb") as file:
                    file.write(body)
        if url.path == "/version":
            self.answer(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
            return
        if url.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            value["status"] = {"allowed": self.is_allowed(value["spec"]["resourceAttributes"])}
            self.answer(201, value)
            return
        match = re.fullmatch(
            r"/api/v1/namespaces/([^/]+)/(pods|secrets)(?:/([^/]+)(?:/(log|eviction))?)?", url.path
        )
        if match is None:
            self.refuse(404, "NotFound", "the server could not find the requested resource")
            return
        namespace, kind, name, part = match.groups()
        if namespace == "missing":
            self.refuse(404, "NotFound", 'namespaces "missing" not found')
        elif self.command == "POST" and part == "eviction":
            self.evict(namespace, name)
        elif self.command == "POST":
            self.create(namespace, kind, value, query)
        elif kind == "secrets":
            self.refuse(403, "Forbidden", "secrets is forbidden")
        elif self.command == "DELETE":
            self.delete(namespace, name, value)
        elif part == "log":
            self.send_log(namespace, name, query, fault)
        elif name is not None:
            self.get(namespace, name)
        elif query.get("watch"):
            self.watch(query, fault)
        else:
            self.list(namespace, query, fault)

    def is_allowed(self, attributes):
        try:
            with open(os.path.join(DIR, "forbidden"), encoding="utf-8") as file:
                what = [attributes["verb"], attributes["resource"], attributes.get("subresource", "")]
                return "/".join(what).rstrip("/") not in file.read().split()
        except OSError:
            return True

    def create(self, namespace, kind, value, query):
        name = value["metadata"]["name"]
        with LOCK:
            store = PODS if kind == "pods" else SECRETS
            quota = number_in("quota")
            if (namespace, name) in store:
                self.refuse(409, "AlreadyExists", '%s "%s" already exists' % (kind, name))
                return
            if kind == "pods" and quota is not None and len(PODS) >= quota:
                self.refuse(
                    403,
                    "Forbidden",
                    'pods "%s" is forbidden: exceeded quota: small, requested: pods=1, used: '
                    "pods=%d, limited: pods=%d" % (name, len(PODS), quota),
                )
                return
            if "dryRun" in query:
                self.answer(201, value)
                return
            value["metadata"]["uid"] = str(uuid.uuid4())
            value["metadata"]["creationTimestamp"] = stamp()
            if kind == "secrets":
                text = value.pop("stringData", {})
                value["data"] = {k: base64.b64encode(v.encode()).decode() for k, v in text.items()}
                store[namespace, name] = value
                LOCK.notify_all()
            else:
                value["status"] = {"phase": "Pending"}
                pod = store[namespace, name] = Pod(value)
                tell("ADDED", pod)
                threading.Thread(target=run_pod, args=(namespace, pod), daemon=True).start()
        self.answer(201, value)

    def get(self, namespace, name):
        with LOCK:
            pod = PODS.get((namespace, name))
            value = json.loads(json.dumps(pod.object)) if pod and pod.is_visible() else None
        if value is None:
            self.refuse(404, "NotFound", 'pods "%s" not found' % name)
        else:
            self.answer(200, value)

    def list(self, namespace, query, fault):
        with LOCK:
            items = [
                pod.object
                for (space, _), pod in sorted(PODS.items())
                if space == namespace
                and pod.is_visible()
                and matches(query.get("labelSelector", ""), pod.object)
            ]
            version = str(VERSION[0])
            value = json.loads(json.dumps(items))
        if fault and fault[0] == "omit":
            value = []
        metadata = {"resourceVersion": version}
        # Parts of two, however many may be asked for, so that tests see them.
        begin = int(query.get("continue", "0"))
        if "limit" in query and len(value) > begin + 2:
            metadata["continue"] = str(begin + 2)
        if "limit" in query:
            value = value[begin : begin + 2]
        self.answer(
            200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": value}
        )

    def watch(self, query, fault):
        version = int(query["resourceVersion"])
        until = time.monotonic() + float(query.get("timeoutSeconds", "300"))
        if fault and fault[0] == "cut":
            until = time.monotonic() + float(fault[1])
        self.begin_stream("application/json")
        if fault and fault[0] == "expire":
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            self.send_piece(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            until = 0
        if fault and fault[0] == "break":
            self.send_piece(b'{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"na')
            self.close_connection = True
            self.connection.shutdown(2)
            return
        while time.monotonic() < until:
            with LOCK:
                now = time.monotonic()
                events = [
                    event
                    for event in EVENTS
                    if event[0] > version
                    and event[3] <= now
                    and matches(query.get("labelSelector", ""), event[2])
                ]
                if not events:
                    LOCK.wait(0.2)
            for number, kind, value, _ in events:
                version = max(version, number)
                self.send_piece(json.dumps({"type": kind, "object": value}).encode() + b"\n")
        self.send_piece(b"")

    def send_log(self, namespace, name, query, fault):
        with LOCK:
            pod = PODS.get((namespace, name))
        if pod is None:
            self.refuse(404, "NotFound", 'pods "%s" not found' % name)
            return
        if pod.process is None and not pod.log_is_whole:
            self.refuse(400, "BadRequest", "container is waiting to start: ContainerCreating")
            return
        until = float("inf")
        if fault and fault[0] == "cut":
            until = time.monotonic() + float(fault[1])
        # Whole seconds, as the API has them.
        since = query.get("sinceTime", "")[:19]
        self.begin_stream("text/plain")
        sent = 0
        while time.monotonic() < until:
            with LOCK:
                lines = pod.log[sent:]
                is_whole = pod.log_is_whole or "follow" not in query
                if not lines and not is_whole:
                    LOCK.wait(0.2)
            sent += len(lines)
            data = b"".join(
                time_.encode() + b" " + line for time_, line in lines if time_[:19] >= since
            )
            if data:
                self.send_piece(data)
            if not lines and is_whole:
                break
        self.send_piece(b"")

    def delete(self, namespace, name, options):
        with LOCK:
            pod = PODS.get((namespace, name))
            if pod is None:
                self.refuse(404, "NotFound", 'pods "%s" not found' % name)
                return
            uid = options.get("preconditions", {}).get("uid")
            if uid is not None and uid != pod.object["metadata"]["uid"]:
                self.refuse(409, "Conflict", "the UID in the precondition does not match")
                return
            default = pod.object["spec"].get("terminationGracePeriodSeconds", 30)
            self.end(namespace, pod, options.get("gracePeriodSeconds", default))
            value = json.loads(json.dumps(pod.object))
        self.answer(200, value)

    def end(self, namespace, pod, grace_s):
        """Requires the lock."""
        pod.grace_s = grace_s
        if grace_s == 0:
            remove(namespace, pod.object["metadata"]["name"])
        else:
            pod.object["metadata"].setdefault("deletionTimestamp", stamp())
            pod.object["metadata"]["deletionGracePeriodSeconds"] = grace_s
            tell("MODIFIED", pod)
        pod.is_ending.set()

    def evict(self, namespace, name):
        with LOCK:
            pod = PODS.get((namespace, name))
            if pod is None:
                self.refuse(404, "NotFound", 'pods "%s" not found' % name)
                return
            set_condition(
                pod,
                "DisruptionTarget",
                "True",
                "EvictionByEvictionAPI",
                "Eviction API: evicting",
            )
            self.end(namespace, pod, pod.object["spec"].get("terminationGracePeriodSeconds", 30))
        self.answer(201, {"kind": "Status", "apiVersion": "v1", "status": "Success"})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that went away
            super().handle_error(request, client_address)


def make_certificate():
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    words += ["-keyout", DIR + "/key.pem", "-out", DIR + "/certificate.pem"]
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)


def write_kubeconfig(port):
    login = os.path.join(DIR, "login")
    with open(login, "w", encoding="utf-8") as file:
        credential = {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "kind": "ExecCredential",
            "status": {"token": TOKEN},
        }
        file.write("#!/bin/sh\necho '%s'\n" % json.dumps(credential))
    os.chmod(login, 0o755)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": login}
    plugin["interactiveMode"] = "Never"
    cluster = {
        "server": "https://127.0.0.1:%d" % port,
        "certificate-authority": DIR + "/certificate.pem",
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [
            {"name": "tests", "user": {"exec": plugin}},
            {"name": "stranger", "user": {"token": "wrong"}},
        ],
        "contexts": [
            {"name": "tests", "context": {"cluster": "tests", "user": "tests"}},
            {"name": "stranger", "context": {"cluster": "tests", "user": "stranger"}},
        ],
        "current-context": "tests",
    }
    with open(DIR + "/kubeconfig", "w", encoding="utf-8") as file:
        json.dump(config, file)


def main():
    global DIR  # pylint: disable=global-statement
    DIR = os.path.abspath(sys.argv[1])
    for program, package in (("kubectl", "kubernetes-client"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            skip("there is no %s; install %s" % (program, package))
    os.makedirs(DIR + "/objects")
    make_certificate()
    server = Server(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DIR + "/certificate.pem", DIR + "/key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    write_kubeconfig(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    for pod in list(PODS.values()):
        if pod.process is not None:
            try:
                os.killpg(pod.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    os._exit(0)


if __name__ == "__main__":
    main()
