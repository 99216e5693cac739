"""Adult's raw columns as its documentation describes them: the domain that a careful person would write."""

from __future__ import annotations

from typing import Any

ADULT: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "min": 17, "max": 90, "bins": 32},
    "workclass": {
        "type": "category",
        "values": ["Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov",
                   "Without-pay", "Never-worked"],
        "other": True,
    },
    "fnlwgt": {"type": "integer", "min": 10_000, "max": 1_500_000, "bins": 32, "scale": "ratio"},
    "education": {
        "type": "category",
        "values": ["Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th",
                   "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool"],
        "other": True,
    },
    "educational-num": {"type": "integer", "min": 1, "max": 16, "bins": 16},
    "marital-status": {
        "type": "category",
        "values": ["Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
                   "Married-AF-spouse"],
        "other": True,
    },
    "occupation": {
        "type": "category",
        "values": ["Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
                   "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
                   "Priv-house-serv", "Protective-serv", "Armed-Forces"],
        "other": True,
    },
    "relationship": {
        "type": "category",
        "values": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
        "other": True,
    },
    "race": {
        "type": "category",
        "values": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
        "other": True,
    },
    "gender": {"type": "category", "values": ["Female", "Male"], "other": True},
    "capital-gain": {"type": "integer", "min": 0, "max": 99_999, "bins": 32, "scale": "log", "spikes": [0]},
    "capital-loss": {"type": "integer", "min": 0, "max": 4_356, "bins": 32, "spikes": [0]},
    "hours-per-week": {"type": "integer", "min": 1, "max": 99, "bins": 33, "spikes": [40]},
    "native-country": {
        "type": "category",
        "values": ["United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
                   "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
                   "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland",
                   "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary",
                   "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago",
                   "Peru", "Hong", "Holand-Netherlands"],
        "other": True,
    },
    "income": {"type": "category", "values": ["<=50K", ">50K"], "other": True},
}  # fmt: skip
