"""Object stores by fsspec: which schemes are allowed, how a path in one is named, and errors in words.

Credentials and endpoints come from the environment as each store's own tools read them (AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME ...); none can be given in a spec.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.spec.address import Address, check_address

# Only these: fsspec would also open ftp, ssh, http or a zip inside a zip for whoever writes the spec.
OBJECT_STORES = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "memory": "fsspec"}
MAX_ATTEMPTS = 3
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def endpoint() -> str:
    """Where S3 is, if the environment says so."""
    return next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "").rstrip("/")


def open_store(uri: str, key: str) -> tuple[Any, str]:
    """The filesystem and the path in it, without a trailing slash. Connects to nothing yet."""
    import fsspec

    check_address(uri, key)
    address = Address.of(uri)
    scheme, path = address.scheme, address.place.strip("/")
    if not path or any(char in path for char in "?#*[]\\"):
        raise SpecError(f"{key} is not of the form {scheme}://bucket/path", "give a plain path without ? # * [ ] or \\")
    try:
        options: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False} if scheme == "s3" else {}
        if scheme == "s3":
            # A pointer must never name what cannot be read yet, and a listing must show what is there now.
            options["config_kwargs"] = {"retries": {"max_attempts": MAX_ATTEMPTS}, "connect_timeout": 10}
        return fsspec.filesystem(scheme, **options), f"/{path}" if scheme == "memory" else path
    except ImportError:
        package = OBJECT_STORES[scheme]
        raise SpecError(f"{scheme}:// needs the package {package}", f"pip install {package}") from None


@contextmanager
def storing(where: str, error: type[UnderstudyError], doing: str) -> Iterator[None]:
    """Whatever the store says becomes an error that names the place and nothing else."""
    try:
        yield
    except UnderstudyError:
        raise
    except FileNotFoundError:
        raise error(f"{doing} {where} failed: it is not there", "check the bucket and the path") from None
    except PermissionError:
        raise error(
            f"{doing} {where} was refused", "check the credentials of the worker and their permissions"
        ) from None
    except Exception as problem:
        if type(problem).__module__.split(".")[0] in ("understudy", "builtins") and not isinstance(problem, OSError):
            raise
        raise error(
            f"{doing} {where} failed ({type(problem).__name__})",
            "check the address (AWS_ENDPOINT_URL), credentials and network, then run again: nothing is spent twice",
        ) from None
