"""A real S3 protocol server on loopback, for tests of what lies in object stores."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

BUCKET = "colltune-test"
KEY, SECRET = "a-key-of-tests", "a-secret-of-tests"


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto's S3 and yield its address.

    It answers one request at a time, so that of two conditional puts one comes first, as S3
    guarantees and moto's threads do not.
    """
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    class Silent(MotoRequestHandler):
        def log(self, type: str, message: str, *args: object) -> None:
            """Say nothing."""

    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def s3_bucket(address: str, name: str) -> Iterator[str]:
    """Make an empty bucket at `address`, known by the environment alone, and yield its URL."""
    import s3fs  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as environment:
        for variable, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": address,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "NO_PROXY": "127.0.0.1",
        }.items():
            environment.setenv(variable, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir(name)
        try:
            yield f"s3://{name}"
        finally:
            s3fs.S3FileSystem.clear_instance_cache()
