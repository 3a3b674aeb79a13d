"""A small EC2 on a port of this machine, for tests, with what else is asked on the way: STS and
Service Quotas. Orders and book: cloud.py.

Every request has to be signed with ID and SECRET (or, once the keys have expired, with the second
ones); the signature is computed here anew, from AWS's description of it. What EC2 documents as an
error for a parameter that it does not know is one here, so no name can be misspelt.
"""

import base64
import calendar
import hashlib
import hmac
import json
import os
import re
import sys
import time
import urllib.parse
from email.utils import formatdate
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "http"), HERE]
sys.dont_write_bytecode = True
import cloud as clouds  # noqa: E402
import small_server  # noqa: E402

KEYS = {"AKIDTEST": ("c2VjcmV0LW9mLXRoZS10ZXN0", ""),
        "AKIDSECOND": ("YW5vdGhlci1zZWNyZXQ", "a-session")}
GIVEN = clouds.arguments(__doc__, "eu-test-1")
REGION = GIVEN.region
ZONES = [REGION + letter for letter in "abc"]
TYPES = {"g4dn.xlarge": 4, "g5.xlarge": 4, "m5.large": 2, "c5.4xlarge": 16, "p4d.24xlarge": 96,
         **GIVEN.types}
SUBNETS = {"subnet-a": ZONES[0], "subnet-b": ZONES[1], "subnet-b2": ZONES[1]}
IMAGES = {"ami-1": "available", "ami-9": "deregistered"}

TAGS = r"TagSpecification\.\d+\.(ResourceType|Tag\.\d+\.(Key|Value))"
FILTERS = r"Filter\.\d+\.(Name|Value\.\d+)"
SETUP = (r"(ImageId|KeyName|IamInstanceProfile\.(Arn|Name)|SecurityGroup(Id)?\.\d+|UserData|"
         r"BlockDeviceMapping\.\d+\.(DeviceName|Ebs\.(VolumeSize|VolumeType|DeleteOnTermination))|"
         r"InstanceInitiatedShutdownBehavior|MetadataOptions\.(HttpTokens|HttpPutResponseHopLimit))")
PAGES = r"MaxResults|NextToken|" + FILTERS
PARAMETERS = {
    "CreateFleet":
        r"Type|ClientToken|" + TAGS +
        r"|LaunchTemplateConfigs\.1\.(LaunchTemplateSpecification\.(LaunchTemplateName|Version)|"
        r"Overrides\.\d+\.(InstanceType|AvailabilityZone|SubnetId|Priority))|"
        r"TargetCapacitySpecification\.(TotalTargetCapacity|DefaultTargetCapacityType)|"
        r"(Spot|OnDemand)Options\.AllocationStrategy",
    "CreateLaunchTemplate": r"LaunchTemplateName|LaunchTemplateData\." + SETUP + "|" + TAGS,
    "DeleteLaunchTemplate": r"LaunchTemplateName",
    "DescribeLaunchTemplates": PAGES,
    "RunInstances":
        r"MinCount|MaxCount|InstanceType|Placement\.AvailabilityZone|SubnetId|"
        r"InstanceMarketOptions\.MarketType|" + SETUP + "|" + TAGS,
    "DescribeInstances": r"InstanceId\.\d+|" + PAGES,
    "TerminateInstances": r"InstanceId\.\d+",
    "DescribeSpotPriceHistory":
        r"InstanceType\.\d+|ProductDescription\.1|StartTime|" + PAGES,
    "DescribeInstanceTypeOfferings": r"LocationType|" + PAGES,
    "DescribeInstanceTypes": r"InstanceType\.\d+",
    "DescribeImages": r"ImageId\.\d+",
    "DescribeSubnets": r"SubnetId\.\d+",
    "DescribeKeyPairs": r"KeyName\.\d+",
    "DescribeSecurityGroups": r"Group(Id|Name)\.\d+",
    "GetCallerIdentity": "",
    "DecodeAuthorizationMessage": "EncodedMessage",
}
NEUTRAL = {"CreateFleet": "rent", "DescribeInstances": "list", "TerminateInstances": "release",
           "DescribeSpotPriceHistory": "prices"}
STATES = {"starting": (0, "pending"), "running": (16, "running"), "ending": (32, "shutting-down"),
          "gone": (48, "terminated")}

cloud = clouds.Cloud()
cloud.free_s = 3600
templates = {}


class Failure(Exception):
    def __init__(self, status, code, message, headers=()):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def rfc3339(moment):
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(moment))


def signature(headers, body, region, service, names, secret):
    """AWS signature version 4, from the words of the Authorization header."""
    canonical = "\n".join([
        "POST", "/", "",
        "".join(f"{n}:{' '.join(headers.get(n, '').split())}\n" for n in names),
        ";".join(names),
        hashlib.sha256(body).hexdigest(),
    ])
    date = headers.get("x-amz-date", "")
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for word in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_signature(headers, body):
    match = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([a-z0-9]+)/aws4_request, ?"
        r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})", headers.get("Authorization", ""))
    if not match:
        raise Failure(400, "MissingAuthenticationToken", "the request is not signed")
    key_id, region, service, names, given = match.groups()
    if key_id not in KEYS:
        raise Failure(401, "AuthFailure", "AWS was not able to validate the provided access "
                      "credentials")
    secret, session = KEYS[key_id]
    names = names.split(";")
    if cloud.are_keys_expired and not session:
        raise Failure(400, "ExpiredToken", "The security token included in the request is expired")
    if headers.get("x-amz-security-token", "") != session:
        raise Failure(401, "AuthFailure", "the session token is another one")
    date = headers.get("x-amz-date", "19700101T000000Z")
    off = abs(calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ")) - time.time() - cloud.skew_s)
    if off > 300:
        raise Failure(400, "RequestExpired", "Request has expired.")
    if session and "x-amz-security-token" not in names:
        raise Failure(403, "SignatureDoesNotMatch", "the session token is not signed")
    home = "us-east-1" if service == "pricing" else REGION
    is_right = region == home and {"host", "x-amz-date"} <= set(names) and hmac.compare_digest(
        signature(headers, body, region, service, names, secret), given)
    if not is_right:
        raise Failure(403, "SignatureDoesNotMatch",
                      "The request signature we calculated does not match the signature you "
                      "provided.")
    return service


def listed(query, prefix):
    """Values of "prefix.1", "prefix.2", ... in their order."""
    found = [(int(m[1]), v) for k, v in query.items()
             if (m := re.fullmatch(re.escape(prefix) + r"\.(\d+)", k))]
    return [v for _, v in sorted(found)]


def filters(query):
    found = {}
    for i in range(1, 30):
        if f"Filter.{i}.Name" in query:
            found[query[f"Filter.{i}.Name"]] = listed(query, f"Filter.{i}.Value")
    return found


def tags_of(query, resource):
    for i in range(1, 6):
        at = f"TagSpecification.{i}."
        if query.get(at + "ResourceType") == resource:
            return {query[f"{at}Tag.{n}.Key"]: query.get(f"{at}Tag.{n}.Value", "")
                    for n in range(1, 60) if f"{at}Tag.{n}.Key" in query}
    return {}


def tag_set(tags):
    items = "".join(f"<item><key>{escape(k)}</key><value>{escape(v)}</value></item>"
                    for k, v in tags.items())
    return f"<tagSet>{items}</tagSet>"


def has_tags(tags, wanted):
    return all(tags.get(k[4:]) in v for k, v in wanted.items() if k.startswith("tag:"))


def page_of(query, items, name):
    """One page of them, as XML."""
    begin = int(query.get("NextToken", "0"))
    size = min(int(query.get("MaxResults", "1000")), cloud.page)
    more = f"<nextToken>{begin + size}</nextToken>" if begin + size < len(items) else ""
    return f"<{name}>{''.join(items[begin:begin + size])}</{name}>{more}"


def overrides(query):
    """[(type, zone, XML of it)] of a fleet."""
    found = []
    for i in range(1, 200):
        at = f"LaunchTemplateConfigs.1.Overrides.{i}."
        if at + "InstanceType" not in query:
            break
        kind = query[at + "InstanceType"]
        subnet = query.get(at + "SubnetId")
        if subnet and subnet not in SUBNETS:
            raise Failure(400, "InvalidSubnetID.NotFound",
                          f"The subnet ID '{subnet}' does not exist")
        zone = SUBNETS[subnet] if subnet else query[at + "AvailabilityZone"]
        where = f"<subnetId>{subnet}</subnetId>" if subnet else \
            f"<availabilityZone>{escape(zone)}</availabilityZone>"
        found.append((kind, zone, "<launchTemplateAndOverrides><overrides><instanceType>"
                      f"{escape(kind)}</instanceType>{where}</overrides>"
                      "</launchTemplateAndOverrides>"))
    return found


def fleet_error(xml, is_spot, code, message):
    return (f"<item>{xml}<lifecycle>{'spot' if is_spot else 'on-demand'}</lifecycle>"
            f"<errorCode>{code}</errorCode><errorMessage>{escape(message)}</errorMessage></item>")


def pool_fault(kind, zone, is_spot):
    if kind not in TYPES or zone not in ZONES:
        return "InvalidFleetConfiguration", f"{kind} is not supported in {zone}"
    if cloud.is_full():
        return ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded") if is_spot \
            else ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current "
                  "vCPU limit allows for the instance bucket")
    if cloud.left(kind, zone, is_spot) <= 0:
        return ("InsufficientInstanceCapacity",
                f"We currently do not have sufficient {kind} capacity in {zone}")
    return None


def create_fleet(query, ordered):
    token = query["ClientToken"]
    asked = {k: v for k, v in query.items() if k != "ClientToken"}
    if token in cloud.tokens:
        before, reply = cloud.tokens[token]
        if before != asked:
            raise Failure(400, "IdempotentParameterMismatch",
                          "The request uses the same client token as a previous request, but the "
                          "parameters are not identical.")
        return reply
    name = query["LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName"]
    if name not in templates:
        raise Failure(400, "InvalidLaunchTemplateName.NotFoundException",
                      f"The specified launch template, with template name {name}, does not exist.")
    capacity = "TargetCapacitySpecification."
    if query[capacity + "TotalTargetCapacity"] != "1" or query["Type"] != "instant":
        raise Failure(400, "InvalidParameterValue", "this server has fleets of one alone")
    is_spot = query[capacity + "DefaultTargetCapacityType"] == "spot"
    pools = overrides(query)
    errors, usable, codes = "", [], set()
    for kind, zone, xml in pools:
        fault = pool_fault(kind, zone, is_spot)
        if ordered == "no_stock":
            fault = ("InsufficientInstanceCapacity", "as the test wants it")
        elif ordered == "quota":
            fault = ("VcpuLimitExceeded", "as the test wants it")
        if fault:
            errors += fleet_error(xml, is_spot, *fault)
            codes.add(fault)
        else:
            usable.append((kind, zone, xml))
    if not usable and cloud.whole_call:
        raise Failure(400, *sorted(codes)[0])
    instances = ""
    if usable:
        if is_spot:
            usable.sort(key=lambda pool: cloud.price(pool[0], pool[1], True))
        kind, zone, xml = usable[0]
        number = hashlib.sha256(f"{token} {cloud.count}".encode()).hexdigest()[:17]
        tags = tags_of(query, "instance")
        machine = cloud.rent(kind, zone, is_spot, tags, token, "i-" + number,
                             volume_tags=tags_of(query, "volume"), setup=templates[name]["setup"])
        instances = (f"<item>{xml}<lifecycle>{'spot' if is_spot else 'on-demand'}</lifecycle>"
                     f"<instanceIds><item>{machine['id']}</item></instanceIds>"
                     f"<instanceType>{escape(kind)}</instanceType></item>")
    reply = (f"<fleetId>fleet-{len(cloud.tokens)}</fleetId><errorSet>{errors}</errorSet>"
             f"<fleetInstanceSet>{instances}</fleetInstanceSet>")
    cloud.tokens[token] = (asked, reply)
    return reply


def create_launch_template(query, _):
    name = query["LaunchTemplateName"]
    if name in templates:
        raise Failure(400, "InvalidLaunchTemplateName.AlreadyExistsException",
                      "Launch template name already in use.")
    setup = {k[len("LaunchTemplateData."):]: v for k, v in query.items()
             if k.startswith("LaunchTemplateData.")}
    base64.b64decode(setup.get("UserData", ""), validate=True)
    templates[name] = {"setup": setup, "tags": tags_of(query, "launch-template")}
    return f"<launchTemplate><launchTemplateName>{name}</launchTemplateName></launchTemplate>"


def delete_launch_template(query, _):
    if templates.pop(query["LaunchTemplateName"], None) is None:
        raise Failure(400, "InvalidLaunchTemplateName.NotFoundException", "there is none")
    return "<launchTemplate/>"


def describe_launch_templates(query, _):
    wanted = filters(query)
    items = [f"<item><launchTemplateName>{n}</launchTemplateName>{tag_set(t['tags'])}</item>"
             for n, t in sorted(templates.items()) if has_tags(t["tags"], wanted)]
    return page_of(query, items, "launchTemplates")


def instance(machine):
    code, name = STATES[cloud.state(machine)]
    reason = ""
    if machine["reason"] == "revoked":
        reason = ("<stateReason><code>Server.SpotInstanceTermination</code><message>"
                  "Server.SpotInstanceTermination: Spot instance termination</message></stateReason>")
    elif machine["reason"]:
        reason = ("<stateReason><code>Client.UserInitiatedShutdown</code><message>"
                  "Client.UserInitiatedShutdown: User initiated shutdown</message></stateReason>")
    address = "" if name == "terminated" else (
        f"<privateIpAddress>{machine['address']}</privateIpAddress>" +
        (f"<ipAddress>{machine['address']}</ipAddress>" if name != "pending" else ""))
    if machine["ended"] is not None:
        ended = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(machine["ended"]))
        by = "Server.SpotInstanceTermination" if machine["reason"] == "revoked" else "User initiated"
        reason += f"<reason>{by} ({ended} GMT)</reason>"
    lifecycle = "<instanceLifecycle>spot</instanceLifecycle>" if machine["spot"] else ""
    return (f"<item><reservationId>r-1</reservationId><instancesSet><item>"
            f"<instanceId>{machine['id']}</instanceId><instanceState><code>{code}</code><name>{name}"
            f"</name></instanceState><instanceType>{machine['type']}</instanceType>"
            f"<launchTime>{rfc3339(machine['started'])}</launchTime><placement><availabilityZone>"
            f"{machine['zone']}</availabilityZone></placement>{lifecycle}{address}{reason}"
            f"{tag_set(machine['tags'])}</item></instancesSet></item>")


def describe_instances(query, _):
    wanted = filters(query)
    states = wanted.get("instance-state-name", [name for _, name in STATES.values()])
    items = [instance(m) for m in cloud.machines.values()
             if cloud.is_visible(m) and has_tags(m["tags"], wanted)
             and STATES[cloud.state(m)][1] in states]
    return page_of(query, items, "reservationSet")


def terminate_instances(query, _):
    ids = listed(query, "InstanceId")
    unknown = [i for i in ids if i not in cloud.machines or not cloud.is_visible(cloud.machines[i])]
    if unknown:
        are = "IDs" if len(unknown) > 1 else "ID"
        raise Failure(400, "InvalidInstanceID.NotFound",
                      f"The instance {are} '{', '.join(unknown)}' do not exist")
    for i in ids:
        cloud.end(cloud.machines[i], "released")
    return "<instancesSet>" + "".join(
        f"<item><instanceId>{i}</instanceId></item>" for i in ids) + "</instancesSet>"


def describe_spot_price_history(query, _):
    since = calendar.timegm(time.strptime(query["StartTime"], "%Y-%m-%dT%H:%M:%SZ"))
    items = []
    for kind in listed(query, "InstanceType"):
        for zone in filters(query).get("availability-zone", ZONES):
            history = cloud.price_history(kind, zone, True)
            # The price that held at the beginning is told with it.
            first = max((i for i, (moment, _) in enumerate(history) if moment <= since), default=0)
            for moment, usd in reversed(history[first:]):
                items.append(
                    f"<item><instanceType>{kind}</instanceType><productDescription>Linux/UNIX"
                    f"</productDescription><spotPrice>{usd:.6f}</spotPrice><timestamp>"
                    f"{rfc3339(moment)}</timestamp><availabilityZone>{zone}</availabilityZone>"
                    "</item>")
    return page_of(query, items, "spotPriceHistorySet")


def describe_instance_type_offerings(query, _):
    items = [f"<item><instanceType>{k}</instanceType><locationType>availability-zone</locationType>"
             f"<location>{z}</location></item>"
             for k in TYPES for z in ZONES if k in filters(query)["instance-type"]]
    return page_of(query, items, "instanceTypeOfferingSet")


def describe_instance_types(query, _):
    kinds = listed(query, "InstanceType")
    for kind in kinds:
        if kind not in TYPES:
            raise Failure(400, "InvalidInstanceType",
                          f"The following supplied instance types do not exist: [{kind}]")
    return "<instanceTypeSet>" + "".join(
        f"<item><instanceType>{k}</instanceType><vCpuInfo><defaultVCpus>{TYPES[k]}</defaultVCpus>"
        "</vCpuInfo></item>" for k in kinds) + "</instanceTypeSet>"


def describe_images(query, _):
    items = ""
    for image in listed(query, "ImageId"):
        if image not in IMAGES:
            raise Failure(400, "InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
        items += (f"<item><imageId>{image}</imageId><imageState>{IMAGES[image]}</imageState><name>"
                  "an image</name><architecture>x86_64</architecture><rootDeviceName>/dev/sda1"
                  "</rootDeviceName></item>")
    return f"<imagesSet>{items}</imagesSet>"


def describe_subnets(query, _):
    items = ""
    for subnet in listed(query, "SubnetId"):
        if subnet not in SUBNETS:
            raise Failure(400, "InvalidSubnetID.NotFound",
                          f"The subnet ID '{subnet}' does not exist")
        items += (f"<item><subnetId>{subnet}</subnetId><availabilityZone>{SUBNETS[subnet]}"
                  "</availabilityZone></item>")
    return f"<subnetSet>{items}</subnetSet>"


def describe_key_pairs(query, _):
    if query["KeyName.1"] != "key-1":
        raise Failure(400, "InvalidKeyPair.NotFound", "The key pair does not exist")
    return "<keySet><item><keyName>key-1</keyName></item></keySet>"


def describe_security_groups(query, _):
    if query.get("GroupId.1", query.get("GroupName.1")) not in ("sg-1", "group-1"):
        raise Failure(400, "InvalidGroup.NotFound", "The security group does not exist")
    return "<securityGroupInfo><item><groupId>sg-1</groupId></item></securityGroupInfo>"


def run_instances(query, _):
    raise Failure(400, "InvalidParameterCombination", "this server makes machines by fleets alone")


def get_caller_identity(query, _):
    return ("<GetCallerIdentityResult><Account>123456789012</Account><Arn>arn:aws:iam::123456789012:"
            "user/ml</Arn></GetCallerIdentityResult>")


def decode_authorization_message(query, _):
    if query["EncodedMessage"] != "c2VjcmV0":
        raise Failure(400, "InvalidAuthorizationMessageException", "it is none")
    text = json.dumps({"allowed": False, "context": {"action": "ec2:RunInstances"}})
    return (f"<DecodeAuthorizationMessageResult><DecodedMessage>{escape(text)}</DecodedMessage>"
            "</DecodeAuthorizationMessageResult>")


ACTIONS = {"".join(w.title() for w in f.__name__.split("_")): f for f in (
    create_fleet, create_launch_template, delete_launch_template, describe_launch_templates,
    describe_instances, terminate_instances, describe_spot_price_history,
    describe_instance_type_offerings, describe_instance_types, describe_images, describe_subnets,
    describe_key_pairs, describe_security_groups, run_instances, get_caller_identity,
    decode_authorization_message)}

ORDERED = {
    "throttled": (503, "RequestLimitExceeded", "Request limit exceeded."),
    "internal": (500, "InternalError", "An internal error has occurred"),
    "denied": (403, "UnauthorizedOperation",
               "You are not authorized to perform this operation. Encoded authorization failure "
               "message: c2VjcmV0"),
}


class Handler(small_server.Handler):
    def date_time_string(self, timestamp=None):
        return formatdate(time.time() + cloud.skew_s, usegmt=True)

    def do_GET(self):
        if not clouds.handle_control(cloud, self, "GET", self.path, b""):
            self.send(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/control" and b"reset" in body:
            templates.clear()
        if clouds.handle_control(cloud, self, "POST", self.path, body):
            return
        with cloud.lock:
            kind, answer = self.answer(body)
            cloud.extra["left_behind"] = sorted(templates)
        if kind in clouds.BROKEN:
            clouds.send_broken(self, kind, *answer)
        else:
            self.send(*answer)

    def answer(self, body):
        """(the kind of fault, (status, body, headers))"""
        target = self.headers.get("x-amz-target")
        query = dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True)) \
            if target is None else {"Action": target.split(".")[-1]}
        action = query.pop("Action", "")
        query.pop("Version", None)
        fault = cloud.fault(NEUTRAL.get(action, "other"), action)
        kind = fault["kind"] if fault else ""
        try:
            check_signature(self.headers, body)
            if kind in ORDERED:
                wait = [("Retry-After", str(fault["wait_s"]))] if fault.get("wait_s") else []
                raise Failure(*ORDERED[kind], headers=wait)
            if target is not None:
                do = self.products if action == "GetProducts" else self.quota
                return kind, do(json.loads(body))
            return kind, (200, self.do_action(action, query, kind), ())
        except Failure as failure:
            return kind, self.failure(failure, target)

    def failure(self, failure, target):
        if target is not None:
            text = json.dumps({"__type": "com.amazon#" + failure.code, "message": failure.message})
        else:
            text = (f"<?xml version='1.0' encoding='UTF-8'?>\n<Response><Errors><Error><Code>"
                    f"{failure.code}</Code><Message>{escape(failure.message)}</Message></Error>"
                    "</Errors><RequestID>1</RequestID></Response>")
        return failure.status, text.encode(), failure.headers

    def do_action(self, action, query, kind):
        if action not in ACTIONS:
            raise Failure(400, "InvalidAction", f"The action {action} is not valid")
        is_trial = query.pop("DryRun", "false") == "true"
        for name in query:
            if not re.fullmatch(PARAMETERS[action], name):
                raise Failure(400, "UnknownParameter", f"The parameter {name} is not recognized")
        if action in cloud.extra.get("denied", []):
            raise Failure(403, "UnauthorizedOperation",
                          f"User: arn:aws:iam::1:user/ml is not authorized to perform: ec2:{action} "
                          "on resource: * because no identity-based policy allows it")
        if is_trial:
            raise Failure(412, "DryRunOperation", "Request would have succeeded.")
        inside = ACTIONS[action](query, kind)
        return (f"<?xml version='1.0' encoding='UTF-8'?>\n<{action}Response xmlns='http://ec2'>"
                f"<requestId>1</requestId>{inside}</{action}Response>").encode()

    def products(self, body):
        wanted = {f["Field"]: f["Value"] for f in body["Filters"]}
        kind = wanted["instanceType"]
        if body["ServiceCode"] != "AmazonEC2" or wanted["regionCode"] != REGION or \
                wanted["operatingSystem"] != "Linux" or wanted["capacitystatus"] != "Used":
            raise Failure(400, "InvalidParameterException", "the test asks for other products")
        usd = f"{cloud.price(kind, ZONES[0], False):.10f}"
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
        term = {"effectiveDate": "2026-11-01T00:00:00Z", "priceDimensions": {"S.T.D": dimension}}
        product = json.dumps({"product": {"sku": "S"}, "terms": {"OnDemand": {"S.T": term}}})
        found = [product] if kind in TYPES else []
        return 200, json.dumps({"FormatVersion": "aws_v1", "PriceList": found}).encode(), ()

    def quota(self, body):
        code = body["QuotaCode"]
        value = cloud.extra.get("quotas", {}).get(code, 64.0)
        return 200, json.dumps({"Quota": {"QuotaCode": code, "Value": value}}).encode(), ()


small_server.serve(Handler, GIVEN.port)
