# All targets use .venv and create it if it does not exist. Nothing outside this directory is changed.

SHELL := bash
MAKEFLAGS += --no-print-directory
PYTHON := .venv/bin/python

# Random seed of the tests. `make test SEED=` chooses a new one.
SEED ?= 1198034105

# `make test-long TORCH=` installs no PyTorch; without it, its tests are skipped.
TORCH ?= 1

.PHONY: help demo demo-train demo-torch demo-predict test test-long formal mutants coverage soak linux fpga lint clean \
        distclean

help:
	@echo "make demo         install into .venv, simulate the DMA engine, build a small bitstream"
	@echo "make demo-train   train a classifier of handwritten digits on four ranks; the simulated RTL adds the gradients"
	@echo "make demo-torch   train a small transformer with PyTorch on four ranks, whose collectives run through the RTL"
	@echo "make demo-predict predict training of ResNet-50 on 16 accelerators and write an HTML report"
	@echo "make test         check style and types, and run the tests of the first stage (ARGS='-k name' for pytest)"
	@echo "make test-long    run the tests of the second stage: area budgets, simulated netlists and boards, block variants"
	@echo "make formal       prove properties of the hardware, with a table of the proofs (ARGS='-k name' for one)"
	@echo "make mutants      put small bugs into the engines, and count those that fast tests find (ARGS='--mutants 20')"
	@echo "make coverage     lines, branches, toggles and functional bins that fast tests reach, as build/coverage/index.html"
	@echo "make soak         run the DMA engine and accelerators at random for hours (ARGS='--requests 100000' for less)"
	@echo "make linux        drive the simulated card from Linux in a virtual machine (ARGS='--parts copies', ARGS=--soak)"
	@echo "make fpga         build bitstreams and check their clock frequencies against fpga/budgets.toml"
	@echo "make lint         check style and types only"
	@echo "make clean        remove build outputs and caches"
	@echo "make distclean    also remove .venv"

demo:
	@scripts/setup.sh fpga
	@.venv/bin/dmace doctor --brief
	@.venv/bin/dmace sim dma
	@.venv/bin/dmace fpga build --target ulx3s-25f --design probe

demo-train:
	@scripts/setup.sh train
	@$(PYTHON) examples/train_digits.py

demo-torch:
	@scripts/setup.sh torch
	@$(PYTHON) examples/torch_characters.py --report build/torch.html $(ARGS)

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
	@[[ -z "$(TORCH)" ]] || scripts/setup.sh torch || echo "PyTorch could not be installed; its tests are skipped." >&2
	@$(PYTHON) -m pytest -n 2 --dist worksteal --durations=10 --durations-min=1 --long $(if $(SEED),--seed $(SEED)) $(ARGS)

formal:
	@scripts/setup.sh dev
	@$(PYTHON) -m pytest -n 2 --dist worksteal --long -v tests/formal $(ARGS)

mutants:
	@scripts/setup.sh dev
	@$(PYTHON) -m tests.mutation $(ARGS)

coverage:
	@scripts/setup.sh dev
	@$(PYTHON) -m tests.coverage $(ARGS)

soak:
	@scripts/setup.sh dev
	@.venv/bin/dmace soak all $(ARGS)

linux:
	@scripts/setup.sh
	@$(PYTHON) -m sim.linux $(ARGS)

fpga:
	@scripts/setup.sh fpga
	@$(PYTHON) -m fpga.check

clean:
	@rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find hw sim fpga tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@rm -rf .venv
