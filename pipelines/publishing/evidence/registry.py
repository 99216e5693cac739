"""An entry for the deployments registry (registry.opendp.org), as far as a manifest can fill it: its third tier.

Reference. The registry's own entries (github.com/opendp/deployments-registry-data); the schema is described in
arXiv 2509.13509. What only the publisher knows is left as TODO, so that nobody mistakes our guess for their word.
"""

from __future__ import annotations

from typing import Any

from understudy.pipelines.publishing.evidence.subject import Subject

TODO = "TODO: for the publisher to say"


def registry_entry(subject: Subject) -> dict[str, Any]:
    manifest, guarantee = subject.manifest, subject.manifest.guarantee
    entity = subject.declared("privacy", "unit", "entity")
    events = [f"{charged.stage}: {charged.description}" for charged in guarantee.events]
    return {
        "url_slug": subject.identifier,
        "deployment": {
            "basic": {
                "name": f"{manifest.name}, snapshot {manifest.snapshot}",
                "data_curators": [{"data_curator_name": subject.curator or TODO, "data_curator_type": TODO}],
                "description": subject.description,
                "intended_use": TODO,
                "data_product_type": "Synthetic data",
                "data_product_region": TODO,
                "data_product_sector": TODO,
                "publication_date": subject.date,
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"one table, columns {', '.join(manifest.columns)}",
                "unprotected_quantities": "what the spec declares; when the release appeared; time and resources of "
                "the private side",
            },
            "privacy_loss": {
                "privacy_unit": "Row-level" if entity is None else "User-level",
                "privacy_unit_details": f"{guarantee.unit}; relation {guarantee.relation.value}",
                "privacy_parameters": {"epsilon": guarantee.epsilon, "delta": guarantee.delta},
                "privacy_parameters_details": f"composed by the {guarantee.accountant} accountant",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": TODO,
                "release_type": "Many releases" if manifest.spec.get("rolling") else "Single release",
                "release_type_details": f"account {manifest.account.name}, cap epsilon {manifest.account.cap_epsilon} "
                f"at delta {manifest.account.cap_delta} over all of its releases, {manifest.account.theorem}",
                "access_type": "Non-interactive",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": "domains are declared, or bought by the events below; "
                "no option was tuned on private rows by Understudy",
                "mechanisms": "; ".join(events),
                "composition": f"filter {manifest.account.filter or 'none'}; {manifest.account.releases_charged} "
                "charges of the account when this was published",
                "post_processing": "; ".join(manifest.steps),
                "justification": TODO,
            },
            "administrative": {
                "evidence_sources": {
                    "manifest": {
                        "evidence_source_type": "Manifest of the release" + (", signed" if subject.is_signed else ""),
                        "misc": {"title": f"{manifest.release_id}/manifest.json"},
                    }
                },
                "status": "Draft",
                "registry_authors": [subject.curator or TODO],
                "tier": 3,
            },
        },
    }
