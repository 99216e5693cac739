"""Files of a release in parts that lie in an object store before it is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.part_files import part_name
from understudy.pipelines.sources.files.object_paths import open_store, storing


@dataclass(frozen=True)
class StoreOfParts:
    """Files of parts in an object store: whoever reaches the store may put them there."""

    uri: str
    folder: str
    everywhere: bool = True

    def get(self, number: int) -> bytes | None:
        with storing(self.folder, PublishError, "reading"):
            try:
                return bytes(self._store.cat_file(f"{self.folder}/{part_name(number)}"))
            except FileNotFoundError:
                return None

    def put(self, number: int, content: bytes) -> None:
        with storing(self.folder, PublishError, "writing"):
            self._store.pipe_file(f"{self.folder}/{part_name(number)}", content)

    def clear(self) -> None:
        """They are the release's now."""

    def of(self, table: str) -> StoreOfParts:
        return StoreOfParts(self.uri, f"{self.folder}/{table}") if table else self

    @property
    def _store(self) -> Any:
        return open_store(self.uri, "publish.to")[0]
