"""moto's S3 on a free port of this machine, with a bucket "bucket". Prints the port, serves until
its standard input ends; prints why and exits with 1 when there is no moto."""

import logging
import sys

logging.getLogger("werkzeug").disabled = True

try:
    import boto3
    from moto.server import ThreadedMotoServer
except ImportError as error:
    print(f"no moto: {error}", flush=True)
    sys.exit(1)

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
boto3.client(
    "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
    aws_access_key_id="id", aws_secret_access_key="secret").create_bucket(Bucket="bucket")
print(port, flush=True)
while sys.stdin.buffer.raw.read(1):
    pass
