"""A small Compute Engine on a port of this machine, for tests, with what else is asked on the way:
the service of tokens and Resource Manager. Orders and book: cloud.py.

GET /key.json has the key of a service account whose tokens are taken. The signature of what it says
of itself is checked with the key's modulus. Once the keys have expired, the login with the refresh
token "second" is taken alone.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse
from email.utils import formatdate

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "http"), HERE]
sys.dont_write_bytecode = True
import cloud as clouds  # noqa: E402
import small_server  # noqa: E402

PROJECT = "p-1"
ACCOUNT = "ml@p-1.iam.gserviceaccount.com"
GIVEN = clouds.arguments(__doc__, "us-central1")
ZONES = [f"{GIVEN.region}-{letter}" for letter in "ab"]
TYPES = {"n1-standard-8": (8, None), "g2-standard-4": (4, "nvidia-l4"),
         "e2-standard-4": (4, None), **{name: (cpus, None) for name, cpus in GIVEN.types.items()}}
# The beginning of what is signed with SHA-256, by PKCS #1.
SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")

cloud = clouds.Cloud()
tokens = {}  # which were given after the keys had expired
operations = {}
key = {}


class Failure(Exception):
    def __init__(self, status, reason, message, headers=()):
        super().__init__(reason)
        self.status, self.reason, self.message, self.headers = status, reason, message, headers


def make_key():
    if not key:
        pem = subprocess.run(["openssl", "genrsa", "2048"], capture_output=True, check=True).stdout
        modulus = subprocess.run(["openssl", "rsa", "-noout", "-modulus"], input=pem,
                                 capture_output=True, check=True).stdout.decode()
        key.update(pem=pem.decode(), n=int(modulus.split("=")[1], 16))


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def is_signed(assertion):
    signed, _, signature = assertion.rpartition(".")
    digest = hashlib.sha256(signed.encode()).digest()
    number = pow(int.from_bytes(decoded(signature), "big"), 65537, key["n"])
    padded = b"\x00\x01" + b"\xff" * (256 - 3 - 51) + b"\x00" + SHA256_PREFIX + digest
    return number == int.from_bytes(padded, "big")


def refusal(error, why):
    return 400, {"error": error, "error_description": why}


def token_reply(form, host):
    """The service of tokens, by RFC 6749 and 7523."""
    if form["grant_type"] == "refresh_token":
        if form["client_secret"] != "client-secret":
            return 401, {"error": "invalid_client", "error_description": "Unauthorized"}
        if form["refresh_token"] != "second":
            return refusal("invalid_grant", "Token has been expired or revoked.")
    else:
        assertion = form["assertion"]
        header, claims, _ = assertion.split(".")
        claims = json.loads(decoded(claims))
        now = time.time() + cloud.skew_s
        if json.loads(decoded(header))["alg"] != "RS256" or not is_signed(assertion):
            return refusal("invalid_grant", "Invalid JWT Signature.")
        if claims["iss"] != ACCOUNT or cloud.are_keys_expired:
            return refusal("invalid_grant", "Invalid grant: account not found")
        if claims["aud"] != f"http://{host}/token" or "compute" not in claims["scope"] and \
                "cloud-platform" not in claims["scope"]:
            return refusal("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        if abs(claims["iat"] - now) > 300 or claims["exp"] - claims["iat"] > 3600:
            return refusal("invalid_grant", "Invalid JWT: Token must be a short-lived token (60 "
                           "minutes) and in a reasonable timeframe. Check your iat and exp values.")
    return 200, new_token()


def new_token():
    token = f"ya29.{len(tokens)}"
    tokens[token] = cloud.are_keys_expired
    return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}


def type_of(body):
    """The pool's type, from the label that the client keeps it in; checked against the rest."""
    label = body["labels"]["spotps-own-type"]
    kind = label.replace("__", "+").replace("_", ":")
    machine = body["machineType"].split("/")[-1]
    if not kind.startswith(machine):
        raise Failure(400, "invalid", f"{kind} is not {machine}")
    if machine not in TYPES:
        raise Failure(404, "notFound", f"The resource '{body['machineType']}' was not found")
    if ("-t4" in kind) != bool(body.get("guestAccelerators")):
        raise Failure(400, "invalid", "the accelerator is missing")
    return kind


def done(operation, error=None):
    operation["status"] = "DONE"
    if error:
        code, message = error
        operation["error"] = {"errors": [{"code": code, "message": message}]}
        operation["httpErrorStatusCode"] = 503
    return operation


def insert(zone, query, body, ordered):
    request_id = query["requestId"]
    if not re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}",
                        request_id):
        raise Failure(400, "invalid", "requestId is no UUID")
    if request_id in cloud.tokens:
        return cloud.tokens[request_id]
    if zone not in ZONES:
        raise Failure(400, "invalid", f"Invalid value for field 'zone': '{zone}'. Unknown zone.")
    kind = type_of(body)
    is_spot = body["scheduling"]["provisioningModel"] == "SPOT"
    if is_spot and body["scheduling"]["instanceTerminationAction"] != "DELETE":
        raise Failure(400, "invalid", "a spot machine would stay when it is stopped")
    name = body["name"]
    machine_id = f"{zone}/{name}"
    if machine_id in cloud.machines and cloud.state(cloud.machines[machine_id]) != "gone":
        raise Failure(409, "alreadyExists", f"The resource '{name}' already exists")
    fault = None
    if cloud.is_full() or ordered == "quota":
        fault = "QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."
        refused = Failure(403, "quotaExceeded", fault[1])
    elif cloud.left(kind, zone, is_spot) <= 0 or ordered == "no_stock":
        fault = ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
                 f"The zone '{zone}' does not have enough resources available")
        refused = Failure(503, "ZONE_RESOURCE_POOL_EXHAUSTED", fault[1])
    if fault and cloud.whole_call:
        raise refused
    operation = {"name": f"operation-{len(operations)}", "status": "RUNNING",
                 "operationType": "insert"}
    operations[operation["name"]] = (operation, fault)
    cloud.tokens[request_id] = operation
    if not fault:
        cloud.rent(kind, zone, is_spot, body["labels"], name, machine_id, setup=body)
    return operation


STATES = {"starting": "STAGING", "running": "RUNNING", "ending": "STOPPING"}


def instance(machine):
    created = time.gmtime(machine["started"] - 7 * 3600)
    setup = machine["setup"]
    network = {"networkIP": machine["address"]}
    if cloud.state(machine) == "running":
        network["accessConfigs"] = [{"natIP": machine["address"]}]
    stopped = {} if machine["ended"] is None else {
        "lastStopTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(machine["ended"]))}
    return {
        **stopped, "name": machine["token"], "status": STATES[cloud.state(machine)],
        "zone": f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{machine['zone']}",
        "machineType": "https://www.googleapis.com/compute/v1/" + setup["machineType"],
        "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000-07:00", created),
        "scheduling": setup["scheduling"], "labels": machine["tags"],
        "networkInterfaces": [network]}


def is_listed(machine):
    return cloud.is_visible(machine) and cloud.state(machine) != "gone"


def matches(machine, text):
    for part in filter(None, text.split(" AND ")):
        name, value = re.fullmatch(r'\(?([a-z.0-9_-]+)="([^"]*)"\)?', part).groups()
        found = machine["token"] if name == "name" else \
            machine["tags"].get(name.removeprefix("labels."))
        if found != value:
            return False
    return True


def aggregated_instances(query):
    found = [m for m in cloud.machines.values()
             if is_listed(m) and matches(m, query.get("filter", ""))]
    begin = int(query.get("pageToken", "0"))
    size = min(int(query["maxResults"]), cloud.page)
    items = {f"zones/{z}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}} for z in ZONES}
    for machine in found[begin:begin + size]:
        scope = items[f"zones/{machine['zone']}"]
        scope.pop("warning", None)
        scope.setdefault("instances", []).append(instance(machine))
    if cloud.extra.get("unreachable"):
        items[f"zones/{cloud.extra['unreachable']}"] = {"warning": {"code": "UNREACHABLE"}}
    more = {"nextPageToken": str(begin + size)} if begin + size < len(found) else {}
    return {"items": items, **more}


def aggregated_operations(query):
    assert "compute.instances.preempted" in query["filter"], query
    items = {}
    for machine in cloud.machines.values():
        if machine["reason"] == "revoked":
            zone = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{machine['zone']}"
            items.setdefault(f"zones/{machine['zone']}", {}).setdefault("operations", []).append(
                {"operationType": "compute.instances.preempted", "zone": zone,
                 "targetLink": f"{zone}/instances/{machine['token']}", "status": "DONE"})
    return {"items": items}


def visible(zone, name):
    machine = cloud.machines.get(f"{zone}/{name}")
    if machine is None or not is_listed(machine):
        raise Failure(404, "notFound", f"The resource 'instances/{name}' was not found")
    return machine


def delete(zone, name):
    cloud.end(visible(zone, name), "released")
    return {"name": "operation-delete", "status": "RUNNING"}


def machine_type(zone, kind):
    if kind not in TYPES or zone not in ZONES:
        raise Failure(404, "notFound", f"The resource 'machineTypes/{kind}' was not found")
    cpus, device = TYPES[kind]
    accelerators = [{"guestAcceleratorType": device, "guestAcceleratorCount": 1}] if device else []
    return {"name": kind, "guestCpus": cpus, "accelerators": accelerators}


def image(name):
    if name not in ("spotps", "debian-12"):
        raise Failure(404, "notFound", f"The resource 'images/{name}' was not found")
    return {"name": name}


def network(name):
    if name not in ("default", "net-1"):
        raise Failure(404, "notFound", f"The resource 'networks/{name}' was not found")
    return {"name": name}


def region():
    quotas = {"CPUS": (8, 72), "PREEMPTIBLE_CPUS": (0, 0), "NVIDIA_T4_GPUS": (0, 4),
              "PREEMPTIBLE_NVIDIA_T4_GPUS": (0, 4), "PREEMPTIBLE_NVIDIA_L4_GPUS": (1, 8)}
    quotas.update(cloud.extra.get("quotas", {}))
    return {"quotas": [{"metric": m, "usage": u, "limit": limit}
                       for m, (u, limit) in quotas.items()]}


ORDERED = {
    "throttled": (403, "rateLimitExceeded", "Rate Limit Exceeded"),
    "internal": (503, "backendError", "Backend Error"),
    "denied": (403, "forbidden", "Required 'compute.subnetworks.use' permission for 'projects/p-1/"
               "regions/us-central1/subnetworks/default'"),
}


class Handler(small_server.Handler):
    def date_time_string(self, timestamp=None):
        return formatdate(time.time() + cloud.skew_s, usegmt=True)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if clouds.handle_control(cloud, self, self.command, self.path, body):
            if b"reset" in body:
                tokens.clear()
                operations.clear()
            return
        if self.path.startswith("/computeMetadata/v1/"):
            self.answer_metadata()
            return
        with cloud.lock:
            kind, status, answer, headers = self.answer(body)
        text = json.dumps(answer).encode()
        if kind in clouds.BROKEN:
            clouds.send_broken(self, kind, status, text, headers)
        else:
            self.send(status, text, headers)

    do_GET = do_POST = do_DELETE = handle_any

    def answer_metadata(self):
        """The service that a machine has beside it."""
        if self.headers.get("Metadata-Flavor") != "Google":
            self.send(403)
        elif self.path.endswith("/project/project-id"):
            self.send(200, PROJECT.encode())
        else:
            self.send(200, json.dumps(new_token()).encode())

    def answer(self, body):
        """(the kind of fault, status, JSON, headers)"""
        path, _, query = self.path.partition("?")
        path = urllib.parse.unquote(path)
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if path == "/key.json":
            make_key()
            return "", 200, {
                "type": "service_account", "project_id": PROJECT, "private_key_id": "k1",
                "private_key": key["pem"], "client_email": ACCOUNT,
                "token_uri": f"http://{self.headers['Host']}/token"}, ()
        if path == "/token":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            cloud.fault("token", "token")
            return "", *token_reply(form, self.headers["Host"]), ()
        kind = ""
        try:
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if tokens.get(token, not cloud.are_keys_expired) != cloud.are_keys_expired:
                raise Failure(401, "authError", "Invalid Credentials")
            name, call, do = self.route(path, query, body)
            fault = cloud.fault(call, name)
            kind = fault["kind"] if fault else ""
            if kind in ORDERED:
                wait = [("Retry-After", str(fault["wait_s"]))] if fault.get("wait_s") else []
                raise Failure(*ORDERED[kind], headers=wait)
            return kind, 200, do(kind), ()
        except Failure as failure:
            error = {"code": failure.status, "message": failure.message,
                     "errors": [{"reason": failure.reason, "message": failure.message}]}
            return kind, failure.status, {"error": error}, failure.headers

    def route(self, path, query, body):
        """(name, kind of call, what does it)"""
        if path == f"/v1/projects/{PROJECT}:testIamPermissions":
            asked = json.loads(body)["permissions"]
            denied = cloud.extra.get("denied", [])
            return "testIamPermissions", "other", lambda _: {
                "permissions": [p for p in asked if p not in denied]}
        if path.startswith("/compute/v1/projects/debian-cloud/global/images/"):
            return "images.get", "other", lambda _: image(path.split("/")[-1])
        base = f"/compute/v1/projects/{PROJECT}"
        if not path.startswith(base):
            raise Failure(404, "notFound", f"there is no {path}")
        words = path[len(base):].strip("/").split("/")
        method = self.command
        if words == [""]:
            return "projects.get", "other", lambda _: {"name": PROJECT, "quotas": [
                {"metric": "GPUS_ALL_REGIONS", "usage": 1,
                 "limit": cloud.extra.get("gpus_all_regions", 8)}]}
        if words == ["aggregated", "instances"]:
            return "instances.list", "list", lambda _: aggregated_instances(query)
        if words == ["aggregated", "operations"]:
            return "operations.list", "other", lambda _: aggregated_operations(query)
        if words[0] == "regions" and words[2:3] == ["subnetworks"]:
            return "subnetworks.get", "other", lambda _: network(words[-1])
        if words[0] == "regions":
            return "regions.get", "other", lambda _: region()
        if words[:2] == ["global", "networks"]:
            return "networks.get", "other", lambda _: network(words[-1])
        if words[0] == "global":
            return "images.get", "other", lambda _: image(words[-1])
        if words[0] != "zones" or len(words) < 3:
            raise Failure(404, "notFound", f"there is no {path}")
        zone, kind, rest = words[1], words[2], words[3:]
        if kind == "machineTypes":
            return "machineTypes.get", "other", lambda _: machine_type(zone, rest[0])
        if kind == "operations" and rest[1:] == ["wait"] and method == "POST":
            return "operations.wait", "wait", lambda _: done(*operations[rest[0]])
        if kind == "instances" and method == "POST":
            return "instances.insert", "rent", lambda ordered: insert(
                zone, query, json.loads(body), ordered)
        if kind == "instances" and method == "DELETE":
            return "instances.delete", "release", lambda _: delete(zone, rest[0])
        if kind == "instances":
            return "instances.get", "other", lambda _: instance(visible(zone, rest[0]))
        raise Failure(404, "notFound", f"there is no {path}")


small_server.serve(Handler, GIVEN.port)
