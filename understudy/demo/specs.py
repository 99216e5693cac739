"""The specs that the demo writes beside its warehouse: of three tables as one release, and of one table."""

TABLES = """\
# Everything in this file is public: it is what you are willing to say about the tables without looking at them.
name: clinic
source:
  uri: "duckdb:///clinic.duckdb"
  snapshot: "2026-10"                 # a new snapshot is a new release, charged to the account
privacy:
  account: clinic
  relation: add_remove
  unit: patients                      # hides a whole patient, with all visits and prescriptions
  epsilon: 1.0
  delta: 1e-6
tables:
  patients:
    source: {table: patients}
    key: patient_id                   # published as fresh ids, and so are the keys below
    columns:
      born:       {type: date, min: 1921-01-01, max: 2026-10-31, bins: 21}
      sex:        {type: category, values: [F, M, X]}
      region:     {type: category, values: [north, east, south, west, centre], other: true}
      insurance:  {type: category, values: [public, private, none], nullable: true}
      smoker:     {type: boolean, nullable: true}
      bmi:        {type: number, min: 12, max: 52, bins: 20, decimals: 1, nullable: true}
  visits:
    source: {table: visits}
    key: visit_id
    parent: {table: patients, by: patient_id}
    max_rows: 8                       # of one patient; the rest are dropped
    order_by: visited_on
    columns:
      visited_on: {type: date, min: 2026-01-01, max: 2026-10-31, bins: month}
      ward:       {type: category, values: [emergency, general, surgery, cardiology, maternity, paediatrics, oncology]}
      severity:   {type: category, values: [minor, moderate, serious, critical], ordered: true}
      stay_days:  {type: integer, min: 0, max: 60, bins: 14, scale: log}
      charge:     {type: number, min: 0, max: 40000, bins: 24, scale: log, decimals: 2, nullable: true}
      readmitted: {type: boolean}
  prescriptions:
    source: {table: prescriptions}
    parent: {table: visits, by: visit_id}
    max_rows: 4                       # of one visit
    columns:
      drug:       {type: category, values: [painkiller, antibiotic, beta_blocker, statin, chemotherapy, iron, insulin]}
      days:       {type: integer, min: 1, max: 180, bins: 12, scale: log}
      repeat:     {type: boolean}
generate:
  rules:                              # public knowledge, kept in every row; costs nothing
    - {order: [patients.born, visits.visited_on]}
    - {forbid: {patients.sex: [M], visits.ward: [maternity]}}
publish:
  to: releases/
"""

FLAT = """\
# One table of the same clinic: visits, each with what is known of its patient. `understudy demo` does not release it.
# It needs an account, whose spending adds to that of `clinic`:
#   understudy ledger open clinic-visits --epsilon 3 --delta 1e-6 --entity patient_id --max-rows 4
name: clinic-visits
source:
  uri: "duckdb:///clinic.duckdb"
  table: visits_flat
  snapshot: "2026-10"
privacy:
  account: clinic-visits
  relation: add_remove
  unit: {entity: patient_id, max_rows: 4}   # hides a whole patient; at most 4 of their visits are used
  epsilon: 1.0
  delta: 1e-6
  quality: 0.02                       # of the budget, to learn how much of each column was understood
columns:
  visit_id:    {type: identifier, action: surrogate}
  patient_id:  {type: identifier, action: drop}
  visited_on:  {type: date, min: 2026-01-01, max: 2026-10-31, bins: month}
  age:         {type: integer, min: 0, max: 104, bins: 21}
  sex:         {type: category, values: [F, M, X]}
  region:      {type: category, values: [north, east, south, west, centre], other: true}
  insurance:   {type: category, values: [public, private, none], nullable: true}
  ward:        {type: category, values: [emergency, general, surgery, cardiology, maternity, paediatrics, oncology]}
  severity:    {type: category, values: [minor, moderate, serious, critical], ordered: true}
  smoker:      {type: boolean, nullable: true}
  bmi:         {type: number, min: 12, max: 52, bins: 20, decimals: 1, nullable: true}
  stay_days:   {type: integer, min: 0, max: 60, bins: 14, scale: log}
  charge:      {type: number, min: 0, max: 40000, bins: 24, scale: log, decimals: 2, nullable: true}
  readmitted:  {type: boolean}
method:
  name: privpgd
  marginals: auto                     # all pairs of columns, and triples that pairs do not explain
publish:
  to: releases/
"""
