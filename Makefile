# Everything runs in .venv, which the first target that needs it makes; nothing else on the machine is changed.

SHELL := bash
MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python

# Of all random tests; any number will do. `make test SEED=` takes a new one.
SEED ?= 1198034105

.PHONY: help demo demo-train demo-predict test test-long fpga lint clean distclean

help:
	@echo "make demo       install into .venv, simulate the DMA engine, build a small bitstream"
	@echo "make demo-train learn handwritten digits on four ranks, gradients added up by the accelerators' RTL"
	@echo "make demo-predict  predict ResNet-50 on 16 accelerators, with a report as HTML"
	@echo "make test       check style and types, and run the tests of the first stage (ARGS='-k name' for pytest)"
	@echo "make test-long  synthesis within the area budgets, simulated netlists and boards, variants of blocks"
	@echo "make fpga       build bitstreams, and hold their clocks against fpga/budgets.toml"
	@echo "make lint       check style and types only"
	@echo "make clean      remove what was built"
	@echo "make distclean  remove .venv too"

demo:
	@scripts/setup.sh fpga
	@.venv/bin/dmace doctor --brief
	@.venv/bin/dmace sim dma
	@.venv/bin/dmace fpga build --target ulx3s-25f --design probe

demo-train:
	@scripts/setup.sh train
	@$(PYTHON) examples/train_digits.py

demo-predict:
	@scripts/setup.sh
	@mkdir -p build
	@.venv/bin/dmace train --workload resnet50 --nodes 4x2x2 --report build/resnet50.html

lint:
	@scripts/setup.sh dev
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy

test: lint
	@$(PYTHON) -m pytest -n 2 --dist worksteal --durations=10 --durations-min=1 $(if $(SEED),--seed $(SEED)) $(ARGS)

test-long:
	@scripts/setup.sh dev
	@$(PYTHON) -m pytest -n 2 --dist worksteal --durations=10 --durations-min=1 --long $(if $(SEED),--seed $(SEED)) $(ARGS)

fpga:
	@scripts/setup.sh fpga
	@$(PYTHON) -m fpga.check

clean:
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find hw sim fpga tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf .venv
