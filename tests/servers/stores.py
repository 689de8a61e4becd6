"""S3 servers: SeaweedFS (a real one) and moto (a stricter one), each behind a proxy that counts the requests."""

from __future__ import annotations

import secrets
import signal
import sys
from typing import TYPE_CHECKING, Protocol

import boto3
import botocore.config
from botocore.exceptions import BotoCoreError

from tests.servers.counting_proxy import CountingProxy
from tests.servers.processes import ServerProcess, free_ports
from tests.servers.seaweedfs import REGION

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

_START_TIMEOUT_SECONDS = 60.0


class S3Server(Protocol):
    """A running S3 server; requests to ``endpoint`` are counted, those to ``direct_endpoint`` are not."""

    endpoint: str
    direct_endpoint: str
    access_key: str
    secret_key: str
    region: str

    def make_bucket(self, name: str) -> str:
        """The name of the bucket, which exists now."""

    def counts(self) -> Counter[str]:
        """Requests so far, by operation."""

    def list_requests(self) -> int:
        """LIST requests so far."""

    @property
    def proxy(self) -> CountingProxy:
        """The proxy behind ``endpoint``."""

    def stop(self) -> None:
        """The server is gone."""


class MotoServer:
    """moto's S3 in a process of its own. It takes any credentials."""

    def __init__(self, directory: Path) -> None:
        self.access_key = "moto"
        self.secret_key = secrets.token_hex(8)
        self.region = REGION
        (port,) = free_ports(1)
        self.direct_endpoint = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        self._process = ServerProcess("moto", command, directory / "moto.log", stop_signal=signal.SIGKILL)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)
        self._proxy = CountingProxy("127.0.0.1", port)
        self.endpoint = self._proxy.endpoint

    @property
    def proxy(self) -> CountingProxy:
        return self._proxy

    def make_bucket(self, name: str) -> str:
        client = self._client()
        client.create_bucket(Bucket=name)
        client.close()
        return name

    def counts(self) -> Counter[str]:
        return self._proxy.counts()

    def list_requests(self) -> int:
        return self._proxy.list_requests()

    def stop(self) -> None:
        self._proxy.stop()
        self._process.stop()

    def _client(self) -> boto3.client:
        return boto3.client(
            "s3",
            endpoint_url=self.direct_endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name=self.region,
            config=botocore.config.Config(retries={"total_max_attempts": 1}),
        )

    def _missing(self) -> str | None:
        client = self._client()
        try:
            client.list_buckets()
        except BotoCoreError as error:
            return str(error)
        finally:
            client.close()
        return None
