# `make demo` and `make test` work as the first and only command on a machine with Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.installed-demo
STAMP := $(VENV)/.installed
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: demo test lint types imports unit coverage test-slow test-e2e hostile storm soak mutants mutation audit matrix demo-size evidence-check docs pictures reference proofs clean

demo: $(DEMO)
	$(BIN)/understudy demo

test: lint types imports unit

# The demo needs what a default release imports, and no more: a minute and a gigabyte. Tests add the rest.
$(DEMO): pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $(DEMO)

$(STAMP): $(DEMO)
	$(INSTALL) '.[dev]'
	touch $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Type checkers cannot follow the mapping of top-level folders into one package; a tree of links shows it to them.
types: $(STAMP)
	rm -rf build/typing && mkdir -p build/typing/understudy
	for part in flows tasks pipelines; do ln -s ../../../$$part build/typing/understudy/$$part; done
	for file in understudy/*; do ln -s ../../../$$file build/typing/understudy/; done
	MYPYPATH=build/typing $(BIN)/mypy -p understudy

# Which layer may import which: the contracts of .importlinter, on the same tree.
imports: types
	cd build/typing && PYTHONPATH=. $(abspath $(BIN))/lint-imports --config ../../.importlinter --no-cache

# Two processes share the cores; libraries of linear algebra that start threads in each wait for each other.
unit: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile

# The documentation as a site in build/site, to be opened from the disk; a link that leads nowhere is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "open build/site/index.html"

# The pictures of pages in the documentation, drawn by Chromium from pages that are made for it. About three minutes.
pictures: $(STAMP)
	$(BIN)/python -m tests.browser.pictures docs/img

# Write the hashes of the drawing functions into their proof pages, after you read the pages again (docs/proofs/README.md).
proofs: $(STAMP)
	$(BIN)/python tests/proof_pages.py --write

# The floor is in pyproject.toml. Compiled loops run outside of the tracer's sight and count as not covered.
coverage: $(STAMP)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile --cov --cov-report=term:skip-covered

# The page of all commands, made from their help, and the spec's JSON Schema; tests compare both.
reference: $(STAMP)
	$(BIN)/python -m understudy.cli.reference > docs/reference/commands.md
	$(BIN)/python -m understudy.pipelines.drafting.schema > pipelines/drafting/spec.schema.json

# How large the environment of the demo is and how long it takes to make, with PYTHON: make demo-size PYTHON=python3.13
demo-size:
	rm -rf build/demo-size && start=$$(date +%s) && $(PYTHON) -m venv build/demo-size && \
	build/demo-size/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt . && \
	echo "$$(build/demo-size/bin/python --version): $$(du -sm build/demo-size | cut -f1) MB in $$(($$(date +%s) - start)) s"

# The demo's evidence, judged by the tools it is for, in an environment of their own: Croissant's and the data contract's.
evidence-check: $(DEMO)
	test -x build/evidence/bin/datacontract || { $(PYTHON) -m venv build/evidence && \
	build/evidence/bin/pip install --quiet 'mlcroissant[parquet]>=1.1' 'datacontract-cli[duckdb]>=1.2'; }
	rm -rf build/evidence-demo && mkdir build/evidence-demo && cd build/evidence-demo && \
	../../$(BIN)/understudy demo && \
	../../$(BIN)/understudy --home demo/.understudy evidence demo/releases/clinic evidence && cd evidence && \
	../../evidence/bin/mlcroissant validate --jsonld croissant.json && \
	../../evidence/bin/datacontract lint contract.odcs.yaml && \
	../../evidence/bin/datacontract test contract.odcs.yaml > test.txt && cat test.txt && ! grep -q 'No checks' test.txt

# Every Python that is promised and the oldest and newest packages that are allowed: noxfile.py. Hours; needs those Pythons.
matrix:
	test -x build/nox/bin/nox || { $(PYTHON) -m venv build/nox && build/nox/bin/pip install --quiet 'nox[uv]>=2025.5'; }
	build/nox/bin/nox

test-slow: $(STAMP)
	$(BIN)/pytest -q -m slow

# Prefect server and worker, PostgreSQL, Dask: all real, on loopback; under five minutes.
test-e2e: $(STAMP)
	$(BIN)/pytest -q -m e2e tests/e2e

# Three hundred hostile specs, sources and environments through the real command line; about fifteen minutes.
hostile: $(STAMP)
	$(BIN)/python -m tests.cli.hostile build/hostile-$$$$

# Eight rounds of eight concurrent releases, most of them killed, on both databases; about twenty minutes.
storm: $(STAMP)
	$(BIN)/python -m tests.cli.storm build/storm-$$$$

# More than a hundred privacy bugs, each planted in a copy of the tree: its named tests must fail. Five seconds of CPU a bug; ONLY="a b"
# plants some.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants.run $(if $(ONLY),--only $(ONLY))

# Edits of the mechanisms' code drawn at random, EACH of a module: what no test fails for is explained in docs/mutation.md. Six seconds of
# CPU an edit, more where it survives.
mutation: $(STAMP)
	test -x build/drawing/bin/cosmic-ray || { $(PYTHON) -m venv build/drawing && \
	build/drawing/bin/pip install --quiet -r benchmarks/requirements-mutation.txt; }
	build/drawing/bin/python -m tests.mutants.drawing $(or $(EACH),4) $(or $(SEED),1) build/edits.json
	$(BIN)/python -m tests.mutants.at_random build/edits.json --kept build/edits-tried-$(or $(EACH),4)-$(or $(SEED),1)

# The long audit: ten thousand pairs of neighbours a method, 20,000 releases of each worst case, then whole releases of pairs; half an
# hour of CPU, and half as much for the whole releases. Stopped, it goes on where it was if nothing changed. SEED=2 tries others.
audit: $(STAMP)
	mkdir -p build
	OMP_NUM_THREADS=1 $(BIN)/understudy audit --pairs 10000 --releases 20000 --seed $(or $(SEED),1) --keep build/audit.kept --out docs/audit.md
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.auditing.wide --times $(or $(TIMES),10) --into docs/audit.md

soak: $(STAMP)
	$(BIN)/pytest -q -s -m soak

clean:
	rm -rf build demo .pytest_cache .mypy_cache .ruff_cache
