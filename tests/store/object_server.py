"""A small S3 on a free port of this machine, for tests: one bucket a kind of trouble.

Objects are kept in memory. Every request has to be signed with ID and SECRET; the signature is
computed here anew, from AWS's description of it. Only GET /-/requests is not: it tells how often
each request came, as lines "GET /bucket/key bytes=0-99 3".
"""

import base64
import hashlib
import hmac
import os
import re
import socket
import sys
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
sys.dont_write_bytecode = True
import small_server  # noqa: E402

ID = "AKIDTEST"
SECRET = "c2VjcmV0LW9mLXRoZS10ZXN0"
REGION = "eu-test-1"
PAGE = 7  # objects of a list in one answer

BUCKETS = {
    "good": "no trouble",
    "busy": "answers 503 SlowDown to the first two attempts of each request",
    "failing": "answers 500 always",
    "denying": "answers 403 AccessDenied always",
    "moved": "is in another region",
    "dropping": "breaks the first transfer of each request in its middle",
    "silent": "takes a request and never answers",
    "dripping": "sends a byte now and then",
    "truncating": "announces more than it sends, on the first attempt",
    "garbling": "takes one bit of each upload for another, on the first attempt",
    "babbling": "answers lists with what is no list",
    "plain": "lists keys as they are, with entities of XML, whatever was asked for",
    "locked": "wants the MD5 of each upload, as a bucket with Object Lock does",
    "changing": "has other objects after each list than that said",
    "flipping": "takes one bit of each object for another, on the first attempt to get it",
    "tagged": "gives objects tags that are no MD5, though they look so",
    "untagged": "gives objects no tags",
    "whole": "knows no parts of objects",
    "slow": "takes a while for each object",
    "rotated": "takes requests with the session token \"second\" alone",
}

objects = {}
attempts = {}
lock = threading.Lock()


def digest(text):
    return hashlib.sha256(text).hexdigest()


def signature(request, method, path, query, header_names):
    """AWS signature version 4, from the words of the Authorization header."""
    pairs = sorted(
        (urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~"))
        for k, v in urllib.parse.parse_qsl(query, keep_blank_values=True))
    canonical = "\n".join([
        method,
        urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"),
        "&".join(k + "=" + v for k, v in pairs),
        "".join(f"{n}:{' '.join(request.headers.get(n, '').split())}\n" for n in header_names),
        ";".join(header_names),
        request.headers.get("x-amz-content-sha256", ""),
    ])
    date = request.headers.get("x-amz-date", "")
    scope = f"{date[:8]}/{REGION}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, digest(canonical.encode())])
    key = ("AWS4" + SECRET).encode()
    for word in (date[:8], REGION, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def tag(bucket, body):
    """What changes when an object does, in quotes as S3 has it; for most buckets its MD5."""
    return '"' + hashlib.md5(body + (b"salt" if bucket == "tagged" else b"")).hexdigest() + '"'


def shown(bucket, key):
    """A key in a list. Go's servers write some characters as numbers."""
    if bucket == "plain":
        return escape(key, {"'": "&#39;", '"': "&#34;", "+": "&#x2B;"})
    return escape(urllib.parse.quote(key))


class Handler(small_server.Handler):
    def fail(self, status, code, message="as the test wants it", headers=()):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
        self.send(status, text.encode(), headers)

    def is_signed(self):
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/s3/aws4_request, ?"
            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            self.headers.get("Authorization", ""))
        if not match:
            self.fail(403, "AccessDenied", "it is not signed")
        elif match[1] != ID:
            self.fail(403, "InvalidAccessKeyId", "no such key")
        elif match[2] != REGION:
            self.fail(400, "AuthorizationHeaderMalformed", f"the region is {REGION}")
        else:
            path, _, query = self.path.partition("?")
            names = match[3].split(";")
            is_right = {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names) and \
                signature(self, self.command, path, query, names) == match[4]
            if not is_right:
                self.fail(403, "SignatureDoesNotMatch", "the signature is another one")
            return is_right
        return False

    def handle_any(self):
        if self.path == "/-/requests":
            with lock:
                lines = [" ".join(words) + f" {count}\n" for words, count in attempts.items()]
            self.send(200, "".join(lines).encode())
            return
        path, _, query = self.path.partition("?")
        host = self.headers.get("Host", "").split(":")[0]
        path = urllib.parse.unquote(path)
        if host.endswith(".localhost"):
            bucket, key = host[:-len(".localhost")], path[1:]
        else:
            bucket, _, key = path[1:].partition("/")
        length = int(self.headers.get("Content-Length", 0))
        asked = (self.command, self.path, self.headers.get("Range", "all"))
        with lock:
            attempt = attempts[asked] = attempts.get(asked, 0) + 1
        if bucket == "dropping" and self.command == "PUT" and attempt == 1:
            self.rfile.read(length // 2)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if not self.is_signed():
            return
        if bucket not in BUCKETS:
            self.fail(404, "NoSuchBucket", "there is none of this name")
        elif bucket == "busy" and attempt <= 2:
            self.fail(503, "SlowDown")
        elif bucket == "failing":
            self.fail(500, "InternalError")
        elif bucket == "denying":
            self.fail(403, "AccessDenied")
        elif bucket == "moved":
            self.fail(301, "PermanentRedirect", headers=[("x-amz-bucket-region", "us-west-9")])
        elif bucket == "rotated" and self.headers.get("x-amz-security-token") != "second":
            self.fail(400, "ExpiredToken", "The provided token has expired.")
        elif bucket == "silent":
            time.sleep(60)  # the client gives up long before
        else:
            self.handle_object(bucket, key, urllib.parse.parse_qs(query), body, attempt)

    do_GET = do_PUT = do_DELETE = handle_any

    def handle_object(self, bucket, key, query, body, attempt):
        name = bucket + "/" + key
        if self.command == "PUT":
            if bucket == "garbling" and attempt == 1 and body:
                body = bytes([body[0] ^ 1]) + body[1:]
            if digest(body) != self.headers.get("x-amz-content-sha256"):
                self.fail(400, "XAmzContentSHA256Mismatch", "the body has another digest")
                return
            given = self.headers.get("Content-MD5")
            if bucket == "locked" and not given:
                self.fail(400, "InvalidRequest", "Content-MD5 is required")
                return
            if given and given != base64.b64encode(hashlib.md5(body).digest()).decode():
                self.fail(400, "BadDigest", "the body has another MD5")
                return
            with lock:
                objects[name] = body
            self.send(200)
        elif self.command == "DELETE":
            with lock:
                objects.pop(name, None)
            self.send(204)
        elif not key:
            self.list(bucket, query)
        elif name not in objects:
            self.fail(404, "NoSuchKey", "there is none of this name")
        else:
            self.send_object(bucket, objects[name], attempt)

    def list(self, bucket, query):
        if bucket == "babbling":
            self.send(200, b"<html>welcome</html>")
            return
        prefix = bucket + "/" + query.get("prefix", [""])[0]
        after = query.get("continuation-token", [""])[0]
        with lock:
            names = sorted(n for n in objects if n.startswith(prefix) and n > after)
            items = "".join(
                f"<Contents><Key>{shown(bucket, n[len(bucket) + 1:])}</Key>"
                f"<Size>{len(objects[n])}</Size>"
                + (f"<ETag>{escape(tag(bucket, objects[n]))}</ETag>" if bucket != "untagged" else "")
                + "</Contents>" for n in names[:PAGE])
            if bucket == "changing":
                for n in names[:PAGE]:
                    objects[n] = bytes([objects[n][0] ^ 1]) + objects[n][1:]
        items += "" if bucket == "plain" else "<EncodingType>url</EncodingType>"
        more = "<IsTruncated>false</IsTruncated>"
        if len(names) > PAGE:
            more = ("<IsTruncated>true</IsTruncated><NextContinuationToken>"
                    f"{escape(names[PAGE - 1])}</NextContinuationToken>")
        text = f"<?xml version='1.0'?><ListBucketResult xmlns='x'>{more}{items}</ListBucketResult>"
        self.send(200, text.encode())

    def send_object(self, bucket, body, attempt):
        is_first = attempt == 1
        etag = tag(bucket, body)
        if self.headers.get("If-Match", etag) != etag:
            self.fail(412, "PreconditionFailed", "it has another tag")
            return
        headers = [] if bucket == "untagged" else [("ETag", etag)]
        status = 200
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if part and bucket != "whole":
            begin, end = int(part[1]), min(int(part[2]) + 1, len(body))
            headers.append(("Content-Range", f"bytes {begin}-{end - 1}/{len(body)}"))
            body, status = body[begin:end], 206
        if bucket == "flipping" and is_first:
            body = bytes([body[0] ^ 1]) + body[1:]
        if bucket == "slow":
            time.sleep(0.1)
        is_cut = bucket in ("truncating", "dropping") and is_first
        if not is_cut and bucket != "dripping":
            self.send(status, body, headers)
            return
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if is_cut:
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
        else:
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(0.1)


small_server.serve(Handler)
