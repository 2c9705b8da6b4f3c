# Everything the project does from the command line. Two commands need nothing else first: `make demo` and `make test`.

PYTHON ?= python3
PG_CONFIG ?= pg_config
RUN = PYTHONPATH=tools:. PYTHONDONTWRITEBYTECODE=1 $(PYTHON)
DEVKIT = $(RUN) -m devkit

.DEFAULT_GOAL := help
.PHONY: help setup build demo up console down fleet fleet-status fleet-down test test-packages sanitize lint bench fuzz wheels deb docs install clean

help: ## Say what each target does.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Fetch PostgreSQL 16 and 18, libclang and XGBoost into build/ (the other targets do this by themselves).
	@$(DEVKIT) setup

build: ## Build the pooler, and the extension into a private PostgreSQL 18; PG=16 (or "16 18") for others.
	@$(DEVKIT) build $(PG)

demo: ## Train a model on a million flights and predict with it inside SQL, on a server that ends with the demo.
	@$(RUN) -m demo

up: ## Leave a server running with the extension and the flights in it, and say how to connect.
	@$(DEVKIT) up

console: ## Show the models of the server of `make up` in a browser, until Ctrl-C.
	@$(DEVKIT) console

down: ## End the server that `make up` started.
	@$(DEVKIT) down

fleet: ## Leave a primary, replicas, poolers and HAProxy running; REPLICAS=5 POOLERS=2, SHARE=0.1 cores for each server; SHARDS=3 for a sharded database.
	@$(DEVKIT) fleet $(if $(SHARDS),--shards $(SHARDS)) $(if $(REPLICAS),--replicas $(REPLICAS)) $(if $(POOLERS),--poolers $(POOLERS)) $(if $(SHARE),--share $(SHARE))

fleet-status: ## Watch the fleet in a table, until Ctrl-C; the fleet goes on.
	@$(DEVKIT) fleet-status

fleet-down: ## End the fleet and remove its data.
	@$(DEVKIT) fleet-down

test: ## Run all tests; PG=16 for all on one PostgreSQL, ARGS="tests/test_sql.py -k train" for some, UPDATE=1 to accept SQL output.
	@$(DEVKIT) test $(foreach major,$(PG),--pg $(major)) $(if $(UPDATE),--update) $(if $(ARGS),-- $(ARGS))

sanitize: ## Run the tests of the crates that predict and train under AddressSanitizer.
	@$(DEVKIT) sanitize

lint: ## Check the form of the code: rustfmt, clippy, whether the fuzz targets compile, ruff, cargo-deny.
	@$(DEVKIT) lint

bench: ## Measure speed, all benches; ARGS="predict-point --quick" for one.
	@$(DEVKIT) bench $(or $(ARGS),all)

fuzz: ## Fuzz the parsers; SECONDS=900 for the time of each (default 60), TARGETS="scram tls" for some of them.
	@$(PYTHON) fuzz/run.py $(or $(SECONDS),60) $(TARGETS)

test-packages: ## Make the wheels and Debian packages and test them, in minutes; as root it installs packages and purges them.
	@$(DEVKIT) test-packages $(ARGS)

wheels: ## Make wheels in dist/: the Python driver, howdah-server (a PostgreSQL with the extension), howdah-console; ONLY=server for one.
	@$(DEVKIT) wheels $(if $(ONLY),--only $(ONLY))

deb: ## Make Debian packages in dist/: howdah-pooler, and postgresql-N-pgml for each PostgreSQL of Debian's here.
	@$(DEVKIT) deb

docs: ## Make the documentation's site in build/site: read it from files or, to search in it, from a web server.
	@$(DEVKIT) docs

install: ## Install the extension into your own PostgreSQL: PG_CONFIG=/path/to/pg_config.
	@$(DEVKIT) install $(PG_CONFIG)

clean: ## End the server of `make up`, and remove all that was fetched and built.
	@$(DEVKIT) clean
