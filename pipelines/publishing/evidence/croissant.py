"""Croissant 1.1: the release as a dataset that machine-learning tools can load, with its Responsible-AI fields.

Reference. docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html and croissant-rai-spec.html.
"""

from __future__ import annotations

from typing import Any

from understudy.pipelines.publishing.contracts.odcs import column_notes
from understudy.pipelines.publishing.contracts.promised import table_of
from understudy.pipelines.publishing.evidence.subject import Subject
from understudy.pipelines.publishing.manifest import PublishedFile
from understudy.pipelines.table.contract import ColumnContract

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
_TYPES = {
    "int": "sc:Integer", "uint": "sc:Integer", "float": "sc:Float", "double": "sc:Float", "decimal": "sc:Float",
    "bool": "sc:Boolean", "date": "sc:Date", "timestamp": "sc:DateTime",
}  # fmt: skip

_CROISSANT = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileProperty fileObject fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "description": {"@container": "@language"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _CROISSANT.split()},
}
ROWS = "rows"


def croissant(subject: Subject, release: str = "") -> dict[str, Any]:
    """`release` is the path from this document to the release; files of a database have none and are left out."""
    manifest = subject.manifest
    files = [file for file in subject.data_files if file.path.endswith(".parquet")]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": manifest.name,
        "description": subject.description,
        "conformsTo": list(CONFORMS_TO),
        "citeAs": f"{manifest.name}, release {manifest.release_id} ({subject.date[:4]}), a differentially private "
        f"synthetic copy made with Understudy {manifest.versions.get('understudy', '')}",
        "version": manifest.release_id,
        "datePublished": manifest.created_at,
        "isLiveDataset": False,
        **({"license": subject.license} if subject.license else {}),
        **({"creator": {"@type": "sc:Organization", "name": subject.curator}} if subject.curator else {}),
        **_responsible(subject),
        "distribution": [_file(file, release) for file in files],
        "recordSet": [
            _records(subject, file.path, name) for name, file in zip(_record_names(subject, files), files, strict=True)
        ],
    }


def _file(file: PublishedFile, release: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path.rsplit("/", 1)[-1],
        "contentUrl": f"{release}/{file.path}" if release else file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": "application/x-parquet",
        "sha256": file.sha256,
    }


def _record_names(subject: Subject, files: list[PublishedFile]) -> list[str]:
    """After their table, with a number where it has several files."""
    tables = [table_of(file.path, subject.manifest) or ROWS for file in files]
    return [
        table if tables.count(table) == 1 else f"{table}-{tables[:place].count(table)}"
        for place, table in enumerate(tables)
    ]


def _records(subject: Subject, file: str, name: str) -> dict[str, Any]:
    """The rows of one file. Files of one table are record sets of their own: the format has no union of them."""
    notes, table = column_notes(subject.manifest), table_of(file, subject.manifest)
    fields = [
        _field(column, file, name, notes.get(f"{table}.{column.name}" if table else column.name, ""))
        for column in subject.contracts[table].columns
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": "One synthetic row a record.",
            "field": fields}  # fmt: skip


def _field(column: ColumnContract, file: str, records: str, note: str) -> dict[str, Any]:
    known = (type_ for start, type_ in _TYPES.items() if column.arrow_type.startswith(start))
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{column.name}",
        "name": column.name,
        "description": note or column.name,
        "dataType": next(known, "sc:Text"),
        "source": {"fileObject": {"@id": file}, "extract": {"column": column.name}},
    }


def _responsible(subject: Subject) -> dict[str, str]:
    manifest, verdict = subject.manifest, subject.manifest.verdict
    limits = verdict.sentence if verdict is not None else "no verdict is known for this method"
    return {
        "rai:dataCollection": f"Rows were generated from noisy measurements of snapshot {manifest.snapshot}; how the "
        "private table was collected is for its publisher to say.",
        "rai:dataPreprocessingProtocol": "; ".join(manifest.steps),
        "rai:personalSensitiveInformation": manifest.guarantee.sentence,
        "rai:dataLimitations": limits,
        "rai:dataBiases": "Noise has one size for all groups, so that small groups are relatively less exact; "
        "see group-errors.csv.",
        "rai:dataUseCases": "Development, testing, exploration, aggregate analysis with the intervals of "
        "`understudy ask`. Not for decisions about any person.",
    }
